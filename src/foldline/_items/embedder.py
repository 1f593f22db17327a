"""`StoreEmbedder`: how a store turns texts into vectors: with an `Embeddings`, or a function, sync or async."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from foldline._io import IO
from foldline._items.base import IndexConfig
from foldline.exceptions import UsageError

__all__ = ["StoreEmbedder", "store_embedder"]


class StoreEmbedder(Protocol):
    """What embeds the texts of a store."""

    async def documents(self, texts: list[str], io: IO) -> list[Sequence[float]]: ...
    async def query(self, text: str, io: IO) -> list[float]: ...


def store_embedder(index: IndexConfig) -> StoreEmbedder:
    """Return what embeds for an index; raise UsageError where it names nothing that can."""
    embed = index.get("embed")
    if embed is None:
        raise UsageError(
            "an index needs embed=: an Embeddings, or a function from texts to vectors"
        )
    if hasattr(embed, "embed_documents"):
        return _Model(embed)
    if callable(embed):
        return _Function(embed)
    raise UsageError(
        f"embed={embed!r:.60} is neither an Embeddings nor a function from texts to vectors"
    )


class _Model:
    def __init__(self, model: Any) -> None:  # noqa: ANN401  whatever has the methods of an embedding model
        self._model = model

    async def documents(self, texts: list[str], io: IO) -> list[Sequence[float]]:
        return list(await io.call(self._method("embed_documents", io), texts))

    async def query(self, text: str, io: IO) -> list[float]:
        return list(await io.call(self._method("embed_query", io), text))

    def _method(self, name: str, io: IO) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._model, name)
        return method if io.blocking else getattr(self._model, f"a{name}", method)


class _Function:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def documents(self, texts: list[str], io: IO) -> list[Sequence[float]]:
        return list(await io.call(self._function, texts))

    async def query(self, text: str, io: IO) -> list[float]:
        return list((await io.call(self._function, [text]))[0])
