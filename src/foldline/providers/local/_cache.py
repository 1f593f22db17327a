"""The folder of fetched models: its path, the lock for writing, and the check of its files."""

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

SPACE_MARGIN = 16 << 20
"""Bytes that must stay free in addition to a fetch, for file-system overhead."""


def cache_dir() -> Path:
    """Return the cache folder: `FOLDLINE_CACHE_DIR`, or the user's cache folder of this platform."""
    if configured := os.environ.get("FOLDLINE_CACHE_DIR"):
        return Path(configured).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "foldline" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "foldline"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # By the XDG specification, a relative path is ignored.
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "foldline"


def make_folder(folder: Path) -> Path:
    """Create a folder of the cache; the error explains how to choose another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise store_error(folder, error) from error
    return folder


def store_error(path: Path, error: OSError, *, needed: int | None = None) -> StoreError:
    """Return the error of a failed file operation, with advice."""
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
    """Raise if there is not enough free space for a fetch."""
    if free < needed + SPACE_MARGIN:
        raise StoreError(
            f"{folder}: {needed / 1e6:.0f} MB are needed here and {free / 1e6:.0f} MB are free; "
            "free some, or set FOLDLINE_CACHE_DIR to a folder on another disk"
        )


@contextlib.contextmanager
def process_lock(lock_file: Path) -> Iterator[None]:
    """Hold a lock between processes and threads; the system releases it when the process ends."""
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
    """Return the SHA-256 of a file without loading it into memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_complete(path: Path, sha256: str, size: int, *, thoroughly: bool = False) -> bool:
    """Whether a file has this hash and size; it is hashed only if it changed since the last check."""
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
    """Record that this file, with its size and time, has this hash."""
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
