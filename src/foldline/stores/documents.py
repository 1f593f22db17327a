"""Documents and other values in stores of bytes: `EncoderBackedStore`, `create_kv_docstore`, `create_lc_store`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.load.dump import dumps
from foldline.load.load import loads
from foldline.stores.base import BaseStore, ByteStore

__all__ = ["EncoderBackedStore", "create_kv_docstore", "create_lc_store"]

K = TypeVar("K")
V = TypeVar("V")


class EncoderBackedStore(BaseStore[K, V], Generic[K, V]):
    """Stores values in a store of bytes, with your own functions for encoding.

    ```python
    import json

    from foldline.stores import EncoderBackedStore, InMemoryByteStore

    store = EncoderBackedStore(InMemoryByteStore(), str, lambda value: json.dumps(value).encode(), json.loads)
    store.mset([(1, {"a": 2})])
    print(store.mget([1, 2]))
    #> [{'a': 2}, None]
    ```
    """

    def __init__(
        self,
        store: BaseStore[str, Any],
        key_encoder: Callable[[K], str],
        value_serializer: Callable[[V], bytes],
        value_deserializer: Callable[[Any], V],
    ) -> None:
        self.store = store
        self.key_encoder = key_encoder
        self.value_serializer = value_serializer
        self.value_deserializer = value_deserializer

    def mget(self, keys: Sequence[K]) -> list[V | None]:
        """Return the values of some keys, None where there is none."""
        return self._decode(self.store.mget([self.key_encoder(key) for key in keys]))

    async def amget(self, keys: Sequence[K]) -> list[V | None]:
        """Return the values of some keys, None where there is none."""
        return self._decode(await self.store.amget([self.key_encoder(key) for key in keys]))

    def _decode(self, values: Sequence[Any]) -> list[V | None]:
        return [None if value is None else self.value_deserializer(value) for value in values]

    def mset(self, key_value_pairs: Sequence[tuple[K, V]]) -> None:
        """Keep some values."""
        self.store.mset(self._encode(key_value_pairs))

    async def amset(self, key_value_pairs: Sequence[tuple[K, V]]) -> None:
        """Keep some values."""
        await self.store.amset(self._encode(key_value_pairs))

    def _encode(self, pairs: Sequence[tuple[K, V]]) -> list[tuple[str, bytes]]:
        return [(self.key_encoder(key), self.value_serializer(value)) for key, value in pairs]

    def mdelete(self, keys: Sequence[K]) -> None:
        """Forget some keys."""
        self.store.mdelete([self.key_encoder(key) for key in keys])

    async def amdelete(self, keys: Sequence[K]) -> None:
        """Forget some keys."""
        await self.store.amdelete([self.key_encoder(key) for key in keys])

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[Any]:
        """Return the keys as the store has them, or those that begin with a prefix."""
        yield from self.store.yield_keys(prefix=prefix)


def _write(value: Any) -> bytes:  # noqa: ANN401  whatever can be written
    return dumps(value).encode()


def _read_document(data: bytes | str) -> Document:
    value = loads(data if isinstance(data, str) else data.decode())
    if not isinstance(value, Document):
        raise UsageError(f"the store holds a {type(value).__name__} where a Document belongs")
    return value


def create_kv_docstore(
    store: ByteStore, *, key_encoder: Callable[[str], str] | None = None
) -> BaseStore[str, Document]:
    """Make a store of documents on a store of bytes."""
    return EncoderBackedStore(store, key_encoder or str, _write, _read_document)


def create_lc_store(
    store: ByteStore, *, key_encoder: Callable[[str], str] | None = None
) -> BaseStore[str, Any]:
    """Make a store of anything that `dumps` writes (messages, prompts, documents) on a store of bytes."""

    def read(data: bytes | str) -> Any:  # noqa: ANN401  whatever was written
        return loads(data if isinstance(data, str) else data.decode())

    return EncoderBackedStore(store, key_encoder or str, _write, read)
