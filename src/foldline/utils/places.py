"""Where foldline keeps a user's data: conversations, traces, datasets. Nothing here makes a file or connects."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TypeAlias

__all__ = [
    "TracePlace",
    "data_dir",
    "is_url",
    "place_name",
    "sessions_file",
    "traces_place",
    "traces_variable",
]

TracePlace: TypeAlias = str | Path
"""Where traces are: a file, or a PostgreSQL database by its URL."""
URLS = ("postgresql://", "postgres://")
VARIABLE = "FOLDLINE_TRACES"
ON = ("1", "true", "yes", "on")
OFF = ("", "0", "false", "no", "off")


def data_dir() -> Path:
    """Return where the user's data goes: `FOLDLINE_DATA_DIR`, or this platform's folder."""
    if chosen := os.environ.get("FOLDLINE_DATA_DIR"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "foldline"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "foldline"
    xdg = os.environ.get("XDG_DATA_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".local" / "share") / "foldline"


def sessions_file() -> Path:
    """Return where the conversations of `foldline chat` are: in the file of the traces, which logs and sessions share.

    Where traces go to a PostgreSQL database, conversations stay in a file of this machine.
    """
    place = traces_place()
    return place if isinstance(place, Path) else data_dir() / "traces.db"


def traces_variable() -> TracePlace | None:
    """Return the file or the URL that `FOLDLINE_TRACES` asks to trace into; None where it does not.

    `1` (or true, yes, on) is the usual file, `0` (or nothing) is off, anything else is a path or a URL.
    """
    value = os.environ.get(VARIABLE, "").strip()
    if value.lower() in OFF:
        return None
    return data_dir() / "traces.db" if value.lower() in ON else _place(value)


def traces_place(chosen: TracePlace | None = None) -> TracePlace:
    """Return where traces are: as chosen, `FOLDLINE_TRACES`, or in the data folder."""
    if chosen:
        return _place(chosen)
    return traces_variable() or data_dir() / "traces.db"


def _place(place: TracePlace) -> TracePlace:
    return place if is_url(place) else Path(place).expanduser()


def is_url(place: TracePlace) -> bool:
    """Whether a place is a database by its URL, and no file."""
    return isinstance(place, str) and place.startswith(URLS)


def place_name(place: TracePlace) -> str:
    """Return what to call a place where others may read it: a path as it is, a URL without password and options."""
    if not is_url(place):
        return str(place)
    scheme, _, address = str(place).partition("://")
    account, at, host = address.partition("?")[0].rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}{at}{host}"
