"""Key-value stores: the interface, in memory, in a folder, in a SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.stores.base import BaseStore, ByteStore, InvalidKeyException
    from weft.stores.file import LocalFileStore
    from weft.stores.memory import InMemoryBaseStore, InMemoryByteStore, InMemoryStore
    from weft.stores.sqlite import SQLiteStore

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

__getattr__ = lazily(
    __name__,
    {
        ".base": "BaseStore ByteStore InvalidKeyException",
        ".file": "LocalFileStore",
        ".memory": "InMemoryBaseStore InMemoryByteStore InMemoryStore",
        ".sqlite": "SQLiteStore",
    },
)
