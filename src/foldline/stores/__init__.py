"""Key-value stores: the interface, in memory, in a folder, in a SQLite file, in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.stores.base import BaseStore, ByteStore, InvalidKeyException
    from foldline.stores.documents import EncoderBackedStore, create_kv_docstore, create_lc_store
    from foldline.stores.file import LocalFileStore
    from foldline.stores.memory import InMemoryBaseStore, InMemoryByteStore, InMemoryStore
    from foldline.stores.postgres import PostgresByteStore
    from foldline.stores.sqlite import SQLiteStore

__all__ = [
    "BaseStore",
    "ByteStore",
    "EncoderBackedStore",
    "InMemoryBaseStore",
    "InMemoryByteStore",
    "InMemoryStore",
    "InvalidKeyException",
    "LocalFileStore",
    "PostgresByteStore",
    "SQLiteStore",
    "create_kv_docstore",
    "create_lc_store",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseStore ByteStore InvalidKeyException",
        ".file": "LocalFileStore",
        ".memory": "InMemoryBaseStore InMemoryByteStore InMemoryStore",
        ".postgres": "PostgresByteStore",
        ".sqlite": "SQLiteStore",
        ".documents": "EncoderBackedStore create_kv_docstore create_lc_store",
    },
)
