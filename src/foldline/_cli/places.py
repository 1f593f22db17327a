"""The files of the command line: conversations, traces, the history of typed lines."""

from __future__ import annotations

from pathlib import Path

from foldline.exceptions import StoreError
from foldline.utils._data_places import data_dir, place_name, sessions_file, traces_place
from foldline.utils._private_files import make_private_folder

__all__ = ["data_dir", "make_folder_of", "place_name", "sessions_file", "traces_place"]


def make_folder_of(file: Path) -> Path:
    """Make the folder of a file, for its user alone, and return the file."""
    try:
        make_private_folder(file.parent)
    except OSError as error:
        raise StoreError(
            f"{file.parent}: cannot be made: {error.strerror}; set FOLDLINE_DATA_DIR to a folder you may write to"
        ) from error
    return file
