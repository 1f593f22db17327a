"""The places of a user's data: conversations, traces, datasets. Nothing here makes a file or connects."""

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
    """Return the folder of the user's data: `FOLDLINE_DATA_DIR`, or this platform's folder."""
    if folder := os.environ.get("FOLDLINE_DATA_DIR"):
        return Path(folder).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "foldline"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "foldline"
    xdg = os.environ.get("XDG_DATA_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".local" / "share") / "foldline"


def sessions_file() -> Path:
    """Return the file of the conversations of `foldline chat`: that of the traces.

    Where traces go to a PostgreSQL database, conversations stay in a file of this machine.
    """
    place = traces_place()
    return place if isinstance(place, Path) else data_dir() / "traces.db"


def traces_variable() -> TracePlace | None:
    """Return the file or the URL for traces that `FOLDLINE_TRACES` names; None where it names none.

    `1` (or true, yes, on) is the default file, `0` (or nothing) is off, anything else is a path or a URL.
    """
    value = os.environ.get(VARIABLE, "").strip()
    if value.lower() in OFF:
        return None
    return data_dir() / "traces.db" if value.lower() in ON else _place(value)


def traces_place(place: TracePlace | None = None) -> TracePlace:
    """Return the place of traces: `place`, `FOLDLINE_TRACES`, or a file in the data folder."""
    if place:
        return _place(place)
    return traces_variable() or data_dir() / "traces.db"


def _place(place: TracePlace) -> TracePlace:
    return place if is_url(place) else Path(place).expanduser()


def is_url(place: TracePlace) -> bool:
    """Whether a place is the URL of a database, not a file."""
    return isinstance(place, str) and place.startswith(URLS)


def place_name(place: TracePlace) -> str:
    """Return a place as text without secrets: a path unchanged, a URL without password and options."""
    if not is_url(place):
        return str(place)
    scheme, _, address = str(place).partition("://")
    account, at, host = address.partition("?")[0].rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}{at}{host}"
