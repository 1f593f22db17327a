"""Files and folders that only their owner may read (F-Y12). Existing ones keep their mode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

__all__ = ["make_private_folder", "open_private"]


def make_private_folder(folder: str | Path) -> None:
    """Make a folder and its missing parents, each with mode 0700."""
    path = Path(folder)
    if path.is_dir():
        return
    if path.parent != path:
        make_private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def open_private(path: str | Path, mode: str, **options: Any) -> IO[Any]:
    """Open a file as `open` does; a new one has mode 0600."""
    return open(path, mode, opener=_open_for_owner, **options)


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
