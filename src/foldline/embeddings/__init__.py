"""Embeddings: the base class, caching in a store, and fakes for tests."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.embeddings.base import Embeddings as Embeddings
    from foldline.embeddings.cached import CacheBackedEmbeddings as CacheBackedEmbeddings
    from foldline.embeddings.fake import (
        DeterministicFakeEmbedding as DeterministicFakeEmbedding,
        FakeEmbeddings as FakeEmbeddings,
    )
