"""Where the command line keeps its things: conversations, traces, the lines that were typed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from foldline.exceptions import StoreError
from foldline.utils.private_files import make_private_folder

__all__ = ["data_dir", "made", "sessions_file", "traces_file"]


def data_dir() -> Path:
    """Say where the user's data goes: `FOLDLINE_DATA_DIR`, or this platform's folder."""
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
    """The conversations."""
    return data_dir() / "sessions.db"


def traces_file(chosen: Path | None = None) -> Path:
    """The traces: as chosen, `FOLDLINE_TRACES`, or in the data folder."""
    named = os.environ.get("FOLDLINE_TRACES")
    return chosen or (Path(named).expanduser() if named else data_dir() / "traces.db")


def made(file: Path) -> Path:
    """Give the file with its folder made; only its user may look inside."""
    try:
        make_private_folder(file.parent)
    except OSError as error:
        raise StoreError(
            f"{file.parent}: cannot be made: {error.strerror}; set FOLDLINE_DATA_DIR to a folder you may write to"
        ) from error
    return file
