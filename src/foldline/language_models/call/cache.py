"""What a call keeps and finds in the cache in force.

Only complete answers are kept, a kept answer costs nothing, and a cache which fails is a cache without the answer
(F-K03).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

from foldline._io import IO
from foldline.caches.base import BaseCache
from foldline.exceptions import UsageError
from foldline.globals import SETTINGS
from foldline.language_models.call.cache_key import KeyedModel, cache_key
from foldline.language_models.call.request import ChatRequest
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, Generation

logger: logging.Logger = logging.getLogger("foldline.language_models")

Choice = BaseCache | bool | None
"""What a model says of its cache: one of its own, the global one (True, or None where there is one), none (False)."""
KEPT_REASONS = frozenset({"stop", "tool_use", None})


class CacheSlot:
    """The place of one answer in a cache; a cache that raises is logged and counts as empty, and its fault is kept."""

    __slots__ = ("_cache", "_io", "_key", "fault")

    def __init__(self, cache: BaseCache, key: tuple[str, str], io: IO) -> None:
        self._cache = cache
        self._key = key
        self._io = io
        self.fault: str | None = None
        """What the cache raised: for `response_metadata["cache_error"]` (F-Y18)."""

    async def lookup(self) -> Sequence[Generation] | None:
        """Return the kept answer."""
        try:
            if self._io.blocking:
                return self._cache.lookup(*self._key) or None
            return await self._cache.alookup(*self._key) or None
        except Exception as error:  # whatever a store may raise
            logger.warning("a cache could not be read: the model is asked instead", exc_info=True)
            self.fault = f"not read: {type(error).__name__}: {error}"
            return None

    async def update(self, generations: Sequence[Generation]) -> None:
        """Keep an answer."""
        try:
            if self._io.blocking:
                self._cache.update(*self._key, generations)
            else:
                await self._cache.aupdate(*self._key, generations)
        except Exception as error:
            logger.warning("a cache could not be written: the answer is not kept", exc_info=True)
            self.fault = self.fault or f"not written: {type(error).__name__}: {error}"


class CallCache:
    """The cache of one call of a chat model."""

    __slots__ = ("_slot",)

    def __init__(self, slot: CacheSlot) -> None:
        self._slot = slot

    @classmethod
    def of(
        cls, model: KeyedModel, request: ChatRequest, io: IO, policies: object = None
    ) -> CallCache | None:
        """Find the cache in force for a model; None where there is none."""
        cache = cache_in_force(model.cache)
        if cache is None:
            return None
        return cls(CacheSlot(cache, cache_key(model, request, policies), io))

    async def lookup(self) -> list[ChatGeneration] | None:
        """Return the kept answer, its tokens marked as free of charge."""
        found = await self._slot.lookup()
        return None if found is None else [_replayed(one) for one in found]

    async def update(self, generations: list[ChatGeneration]) -> None:
        """Keep an answer that is complete, not one that was cut, filtered or refused; tell of a cache that failed."""
        if all(is_complete(one.message) for one in generations):
            copies = [
                ChatGeneration(message=one.message.model_copy(deep=True)) for one in generations
            ]
            await self._slot.update(copies)
        if self._slot.fault is not None:
            message: Any = generations[0].message
            message.response_metadata["cache_error"] = self._slot.fault


def cache_in_force(own: Choice) -> BaseCache | None:
    """Find the cache that is read and written by who says this of it: its own, the global one, or none."""
    if isinstance(own, BaseCache):
        return own
    if own is False:
        return None
    cache = SETTINGS.llm_cache
    if cache is None and own is True:
        raise UsageError(
            "cache=True needs a global cache: call foldline.globals.set_llm_cache(InMemoryCache()) first"
        )
    return cache


def is_complete(message: object) -> bool:
    """Whether an answer may be kept: it said it was complete, and no call in it is broken."""
    if not isinstance(message, AIMessage):
        return True
    is_whole = message.status == "complete" and message.finish_reason in KEPT_REASONS
    return is_whole and not message.invalid_tool_calls


def _replayed(generation: Generation) -> ChatGeneration:
    if not isinstance(generation, ChatGeneration):  # kept by a text model, or by an older program
        return ChatGeneration(message=AIMessage(content=generation.text))
    message = generation.message.model_copy(deep=True)
    if isinstance(message, AIMessage) and message.usage_metadata is not None:
        usage = {**message.usage_metadata, "total_cost": 0}
        message.usage_metadata = cast("Any", usage)
    if "cost" in message.response_metadata:
        message.response_metadata["cost"] = 0.0
    return ChatGeneration._trusted(message)
