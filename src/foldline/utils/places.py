"""Where foldline keeps a user's data: conversations, traces, datasets. Nothing here makes a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["data_dir", "sessions_file", "traces_file", "traces_variable"]

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
    """Return where the conversations of `foldline chat` are: logs, traces and sessions are views of one file."""
    return traces_file()


def traces_variable() -> Path | None:
    """Return the file that `FOLDLINE_TRACES` asks to trace into; None where it does not.

    `1` (or true, yes, on) is the usual file, `0` (or nothing) is off, anything else is a path.
    """
    value = os.environ.get(VARIABLE, "").strip()
    if value.lower() in OFF:
        return None
    return data_dir() / "traces.db" if value.lower() in ON else Path(value).expanduser()


def traces_file(chosen: Path | None = None) -> Path:
    """Return the file of traces: as chosen, `FOLDLINE_TRACES`, or in the data folder."""
    return chosen or traces_variable() or data_dir() / "traces.db"
