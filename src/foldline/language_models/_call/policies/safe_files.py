"""The only access to files that data names: under a folder, never through a link, and only plain files."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from foldline.exceptions import LimitExceededError, SecurityError, UsageError
from foldline.utils._private_files import make_private_folder
from foldline.utils.uuid import new_id

__all__ = ["read_under", "write_under"]

FOLDER_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
FILE_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
NEW_FLAGS = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def read_under(folders: Sequence[str | Path], path: str, limit: int) -> bytes:
    """Return the content of a plain file under one of the folders; a relative path is tried under each."""
    _check_path(path)
    for folder in folders:
        root = os.path.realpath(folder)  # the configured path may go through links
        parts = _parts_below(root, str(folder), path)
        if parts is None:
            continue
        data = _read(root, parts, path, limit)
        if data is not None:
            return data
    if os.path.isabs(path):
        raise SecurityError(f"{path!r} is not under the folders that may be read")
    raise UsageError(f"there is no file {path!r} under the folders that may be read")


def write_under(folder: str | Path, extension: str, data: bytes) -> str:
    """Write a new file with a random name into a folder; return its path."""
    root = os.path.realpath(folder)
    make_private_folder(root)
    path = os.path.join(root, f"{new_id()}{extension}")
    descriptor = os.open(path, NEW_FLAGS, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path


def _check_path(path: str) -> None:
    if not path or "\0" in path:
        raise SecurityError(f"{path!r} is not the path of a file")
    parts = path.replace("\\", "/").split("/")
    if ".." in parts or path.startswith(("~", "//", "\\\\")) or (len(path) > 1 and path[1] == ":"):
        raise SecurityError(f"{path!r} climbs out of its folder: name a file below it")


def _parts_below(root: str, folder: str, path: str) -> list[str] | None:
    """Return the path components from the folder to the file; None if an absolute path is elsewhere."""
    if os.path.isabs(path):
        for base in (root, os.path.abspath(folder)):
            if path.startswith(base.rstrip("/") + "/"):
                path = path[len(base.rstrip("/")) :]
                break
        else:
            return None
    return [part for part in path.split("/") if part not in ("", ".")]


def _read(root: str, parts: list[str], path: str, limit: int) -> bytes | None:
    """Open each folder without following links, check each part before and after opening it."""
    if not parts:
        raise SecurityError(f"{path!r} is a folder, not a file")
    if os.open not in os.supports_dir_fd:
        return _read_by_path(root, parts, path, limit)
    folder_descriptor = os.open(root, FOLDER_FLAGS)
    try:
        for part in parts[:-1]:
            kind = _kind(part, folder_descriptor)
            if kind is None:
                return None
            if not stat.S_ISDIR(kind):
                raise SecurityError(
                    f"{path!r} goes through {part!r}, which is a link, or not a folder"
                )
            subfolder = os.open(part, FOLDER_FLAGS, dir_fd=folder_descriptor)
            os.close(folder_descriptor)
            folder_descriptor = subfolder
        kind = _kind(parts[-1], folder_descriptor)
        if kind is None:
            return None
        if not stat.S_ISREG(kind):
            raise SecurityError(f"{path!r} is a link, a device or a pipe, not a plain file")
        return _contents(os.open(parts[-1], FILE_FLAGS, dir_fd=folder_descriptor), path, limit)
    except OSError as error:
        raise SecurityError(f"{path!r} cannot be read: {error.strerror}") from error
    finally:
        os.close(folder_descriptor)


def _read_by_path(root: str, parts: list[str], path: str, limit: int) -> bytes | None:
    """Check every part before the file is opened, on systems that cannot open relative to a folder (Windows).

    A user who may write in the allowed folder can put a link there between check and opening.
    """
    full_path = root
    for index, part in enumerate(parts):
        if part == ".." or any(character in part for character in '\\:*?"<>|'):
            raise SecurityError(f"{path!r} holds {part!r}, which is not a plain name")
        full_path = os.path.join(full_path, part)
        try:
            kind = os.lstat(full_path).st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SecurityError(f"{path!r} cannot be read: {error.strerror}") from error
        if index < len(parts) - 1 and not stat.S_ISDIR(kind):
            raise SecurityError(f"{path!r} goes through {part!r}, which is a link, or not a folder")
    if not stat.S_ISREG(kind):
        raise SecurityError(f"{path!r} is a link, a device or a pipe, not a plain file")
    try:
        return _contents(os.open(full_path, FILE_FLAGS | getattr(os, "O_BINARY", 0)), path, limit)
    except OSError as error:
        raise SecurityError(f"{path!r} cannot be read: {error.strerror}") from error


def _kind(name: str, folder: int) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _contents(descriptor: int, path: str, limit: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SecurityError(f"{path!r} is not a plain file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise LimitExceededError(f"{path!r} is larger than the {limit} bytes that may be read")
    return data
