"""All file access of prompts: paths are passed by code and must stay inside a folder.

`..`, absolute paths inside files, symlinks, devices, pipes and NUL are refused before a file is opened. An opened file
is checked again through its descriptor, so that it cannot be replaced in between.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from foldline.exceptions import SecurityError, UsageError

__all__ = ["Folder", "open_folder", "write_text"]

MAX_FILE_SIZE = 16 * 1024 * 1024
"""The maximum size of a prompt file in bytes."""


class FileEncodingError(UsageError, UnicodeDecodeError):
    """A file is not in the expected encoding."""

    def __init__(self, error: UnicodeDecodeError, name: str) -> None:
        UnicodeDecodeError.__init__(
            self, error.encoding, error.object, error.start, error.end, error.reason
        )
        self.name = name

    def __str__(self) -> str:
        return f"{self.name:.200} is not {self.encoding}: give its `encoding` ({self.reason} at byte {self.start})"


class Folder:
    """A folder whose files may be read by relative paths."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str | Path, encoding: str | None = None) -> str:
        """Return the text of a file in this folder."""
        path = self._check_path(name)
        before = _status(path)
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
        with open(descriptor, "rb") as file:
            after = os.fstat(descriptor)
            if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino) or _has_symlink(path):
                raise SecurityError(f"{name!s:.200} was replaced while it was opened: not read")
            content = file.read(MAX_FILE_SIZE + 1)
        if len(content) > MAX_FILE_SIZE:
            raise SecurityError(f"{name!s:.200} is larger than {MAX_FILE_SIZE} bytes: not read")
        try:
            return content.decode(encoding or "utf-8")
        except UnicodeDecodeError as error:
            raise FileEncodingError(error, str(name)) from error
        except LookupError as error:
            raise UsageError(f"{name!s:.200}: there is no encoding {encoding!r}") from error

    def _check_path(self, name: str | Path) -> Path:
        text = os.fspath(name)
        if "\0" in text:
            raise SecurityError("a path may not contain NUL")
        relative = Path(text)
        if relative.is_absolute() or relative.drive or ".." in relative.parts:
            raise SecurityError(
                f"{text[:200]!r} leads out of the folder {str(self.root)!r}: name a file inside it"
            )
        path = self.root / relative
        if _has_symlink(path):
            raise SecurityError(f"{text[:200]!r} is or passes a symlink: name the file itself")
        return path


def open_folder(file: str | Path, root: str | Path | None) -> tuple[Folder, str]:
    """Return the folder that paths must stay in, and the file's path in it: `root`, or the file's own folder."""
    text = os.fspath(file)
    if "\0" in text:
        raise SecurityError("a path may not contain NUL")
    if root is not None:
        return Folder(Path(os.path.realpath(root))), text
    if ".." in Path(text).parts:
        raise SecurityError(
            f"{text[:200]!r} has '..': write the path without it, or give the folder to stay in as `root=`"
        )
    path = Path(text)
    return Folder(Path(os.path.realpath(path.parent))), path.name


def write_text(file: str | Path, text: str) -> None:
    """Write a text file; its folder is created if needed."""
    path = Path(file)
    if path.suffix != ".json":
        raise UsageError(f"{str(path)!r}: it is written as JSON; name a file that ends in .json")
    path.parent.mkdir(parents=True, exist_ok=True)
    folder, name = open_folder(path, None)
    target = folder._check_path(name)
    if target.exists() and not target.is_file():
        raise SecurityError(f"{str(path)!r} is not a plain file: not written")
    target.write_text(text, encoding="utf-8")


def _has_symlink(path: Path) -> bool:
    return os.path.realpath(path) != os.path.abspath(path)


def _status(path: Path) -> os.stat_result:
    try:
        status = os.lstat(path)
    except OSError as error:
        raise UsageError(f"there is no file {path.name!r} in {str(path.parent)!r}") from error
    if not stat.S_ISREG(status.st_mode):
        raise SecurityError(f"{path.name!r} is not a plain file: not opened")
    return status
