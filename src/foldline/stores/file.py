"""`LocalFileStore`: one file per key under a folder; no key leads out of it."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from foldline.exceptions import SecurityError, StoreError
from foldline.stores.base import BaseStore, InvalidKeyException
from foldline.utils._private_files import make_private_folder

__all__ = ["LocalFileStore"]

KEY = re.compile(r"[A-Za-z0-9_.\-/]+")
UNFINISHED = ".foldline-unfinished-"


class LocalFileStore(BaseStore[str, bytes]):
    """Stores bytes in files.

    ```python
    import tempfile
    from foldline.stores import LocalFileStore

    store = LocalFileStore(tempfile.mkdtemp())
    store.mset([("notes/one", b"hello")])
    print(store.mget(["notes/one"]), list(store.yield_keys()))
    #> [b'hello'] ['notes/one']
    ```
    """

    def __init__(
        self, root_path: str | Path, *, chmod_file: int | None = None, chmod_dir: int | None = None
    ) -> None:
        """Use a folder, created where it does not exist."""
        self._root = Path(root_path).absolute()
        make_private_folder(self._root)
        self._root = self._root.resolve()
        self._chmod_file = chmod_file
        self._chmod_dir = chmod_dir

    def _path(self, key: str) -> Path:
        if not KEY.fullmatch(key) or key.startswith("/") or key.endswith("/") or "//" in key:
            raise InvalidKeyException(
                f"{key!r} is not a key of a file store: use letters, digits, '_', '-', '.', and '/' between parts"
            )
        if any(part in (".", "..") or part.startswith(UNFINISHED) for part in key.split("/")):
            raise SecurityError(f"the key {key!r} would leave the store")
        path = self._root / key
        # A link inside the folder may point anywhere: the resolved path counts.
        if not path.resolve().is_relative_to(self._root):
            raise SecurityError(f"the key {key!r} leads out of {self._root} by a link")
        return path

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values of some keys, None where there is none."""
        return [self._read(self._path(key)) for key in keys]

    def _read(self, path: Path) -> bytes | None:
        try:
            # Links are not followed and a FIFO is not waited for: only plain files are values.
            descriptor = os.open(
                path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreError(f"{path} could not be read: {error}") from error
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SecurityError(f"{path} is not a plain file")
            return file.read()

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Store some values; each file has its old or its new content, never a part."""
        for path, value in [(self._path(key), value) for key, value in key_value_pairs]:
            try:
                self._write(path, value)
            except OSError as error:
                raise StoreError(f"{path} could not be written: {error}") from error

    def _write(self, path: Path, value: bytes) -> None:
        make_private_folder(path.parent)
        if self._chmod_dir is not None:
            path.parent.chmod(self._chmod_dir)
        descriptor, name = tempfile.mkstemp(prefix=UNFINISHED, dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
            if self._chmod_file is not None:
                Path(name).chmod(self._chmod_file)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete some keys."""
        for path in [self._path(key) for key in keys]:
            path.unlink(missing_ok=True)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Return the keys, or those that begin with a prefix."""
        for folder, _, names in os.walk(self._root):
            for name in sorted(names):
                if name.startswith(UNFINISHED):
                    continue
                key = (Path(folder) / name).relative_to(self._root).as_posix()
                if key.startswith(prefix or ""):
                    yield key
