"""Key-value stores: the interface, in memory, in a folder, in a SQLite file, in PostgreSQL."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.stores.base import (
        BaseStore as BaseStore,
        ByteStore as ByteStore,
        InvalidKeyException as InvalidKeyException,
    )
    from foldline.stores.documents import (
        EncoderBackedStore as EncoderBackedStore,
        create_kv_docstore as create_kv_docstore,
        create_lc_store as create_lc_store,
    )
    from foldline.stores.file import LocalFileStore as LocalFileStore
    from foldline.stores.memory import (
        InMemoryBaseStore as InMemoryBaseStore,
        InMemoryByteStore as InMemoryByteStore,
        InMemoryStore as InMemoryStore,
    )
    from foldline.stores.postgres import PostgresByteStore as PostgresByteStore
    from foldline.stores.sqlite import SQLiteStore as SQLiteStore
