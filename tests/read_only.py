"""Folders and files that this process may only read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

NOBODY = 65_534


@contextmanager
def reading_only(folder: Path) -> Iterator[None]:
    """Make a folder and its files such that this process may only read them."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may look into; pytest's own are shut."""
    with TemporaryDirectory(prefix="foldline-read-only-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
