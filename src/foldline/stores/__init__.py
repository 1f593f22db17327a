"""Key-value stores: the interface, in memory, in a folder, in a SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazily

if TYPE_CHECKING:
    from foldline.stores.base import BaseStore, ByteStore, InvalidKeyException
    from foldline.stores.file import LocalFileStore
    from foldline.stores.memory import InMemoryBaseStore, InMemoryByteStore, InMemoryStore
    from foldline.stores.sqlite import SQLiteStore

__all__ = [
    "BaseStore",
    "ByteStore",
    "InMemoryBaseStore",
    "InMemoryByteStore",
    "InMemoryStore",
    "InvalidKeyException",
    "LocalFileStore",
    "SQLiteStore",
]

__getattr__: Loader = lazily(
    __name__,
    {
        ".base": "BaseStore ByteStore InvalidKeyException",
        ".file": "LocalFileStore",
        ".memory": "InMemoryBaseStore InMemoryByteStore InMemoryStore",
        ".sqlite": "SQLiteStore",
    },
)
