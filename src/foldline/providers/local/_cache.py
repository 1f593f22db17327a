"""The folder where fetched models live: where it is, who may write to it now, and whether a file in it is whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from foldline._lazy import publish
from foldline.exceptions import StoreError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MARGIN = 16 << 20
"""Bytes left free beside what a fetch needs, for file-system overhead."""


def cache_dir() -> Path:
    """Say where foldline keeps what it fetched: `FOLDLINE_CACHE_DIR`, or the user's cache folder of this platform."""
    if chosen := os.environ.get("FOLDLINE_CACHE_DIR"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "foldline" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "foldline"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say that a relative path is to be ignored.
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "foldline"


def make_folder(folder: Path) -> Path:
    """Create a folder of the cache, or say how to choose another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise store_error(folder, error) from error
    return folder


def store_error(path: Path, error: OSError, *, needed: int | None = None) -> StoreError:
    """Turn an error of the file system into a sentence with a way out."""
    amount = f" ({needed / 1e6:.0f} MB needed)" if needed else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(
            f"{path}: no space left on the disk{amount}; free some, "
            "or set FOLDLINE_CACHE_DIR to a folder on another disk"
        )
    return StoreError(
        f"{path}: cannot be written: {error.strerror or error}; set FOLDLINE_CACHE_DIR to a folder you may write to"
    )


def require_space(folder: Path, needed: int, free: int) -> None:
    """Refuse early what would fill the disk in the middle."""
    if free < needed + MARGIN:
        raise StoreError(
            f"{folder}: {needed / 1e6:.0f} MB are needed here and {free / 1e6:.0f} MB are free; "
            "free some, or set FOLDLINE_CACHE_DIR to a folder on another disk"
        )


@contextlib.contextmanager
def process_lock(lock_file: Path) -> Iterator[None]:
    """Hold a lock between processes and threads; it falls with its holder, so a crash leaves none behind."""
    try:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise store_error(lock_file, error) from error
    try:
        _wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int) -> None:
    if sys.platform == "win32":
        while True:
            with contextlib.suppress(OSError):  # LK_LOCK gives up after ten seconds
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def sha256_of(path: Path) -> str:
    """Hash a file without holding it in memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_complete(path: Path, sha256: str, size: int, *, thoroughly: bool = False) -> bool:
    """Say whether a file is what it should be; hashed only when it changed since it was last hashed."""
    try:
        status = path.stat()
    except OSError:
        return False
    if status.st_size != size:
        return False
    if not thoroughly and _read_stamp(path) == [sha256, size, status.st_mtime_ns]:
        return True
    if sha256_of(path) != sha256:
        return False
    with contextlib.suppress(OSError):  # a read-only cache is fine: it is hashed every time
        write_stamp(path, sha256)
    return True


def write_stamp(path: Path, sha256: str) -> None:
    """Note that this file, of this size and time, had this hash."""
    status = path.stat()
    stamp = path.with_name(path.name + ".verified")
    temporary = stamp.with_name(f"{stamp.name}.{os.getpid()}")
    temporary.write_text(json.dumps([sha256, status.st_size, status.st_mtime_ns]), encoding="utf-8")
    temporary.replace(stamp)


def _read_stamp(path: Path) -> object:
    try:
        return json.loads(path.with_name(path.name + ".verified").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


publish("foldline.providers.local", cache_dir)
