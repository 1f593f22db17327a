"""Reads and writes the cache of a call.

Only complete answers are cached, a cached answer costs nothing, and a cache that fails counts as a miss (F-K03).
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
"""A model's `cache`: a cache, the global one (True, or None if there is one), none (False)."""
COMPLETE_REASONS = frozenset({"stop", "tool_use", None})


class CacheSlot:
    """The entry of one answer in a cache; a cache that raises is logged and counts as empty; its error is stored."""

    __slots__ = ("_cache", "_io", "_key", "fault")

    def __init__(self, cache: BaseCache, key: tuple[str, str], io: IO) -> None:
        self._cache = cache
        self._key = key
        self._io = io
        self.fault: str | None = None
        """The error of the cache: for `response_metadata["cache_error"]` (F-Y18)."""

    async def lookup(self) -> Sequence[Generation] | None:
        """Return the cached answer."""
        try:
            if self._io.blocking:
                return self._cache.lookup(*self._key) or None
            return await self._cache.alookup(*self._key) or None
        except Exception as error:  # a store may raise anything
            logger.warning("a cache could not be read: the model is called instead", exc_info=True)
            self.fault = f"not read: {type(error).__name__}: {error}"
            return None

    async def update(self, generations: Sequence[Generation]) -> None:
        """Store an answer."""
        try:
            if self._io.blocking:
                self._cache.update(*self._key, generations)
            else:
                await self._cache.aupdate(*self._key, generations)
        except Exception as error:
            logger.warning("a cache could not be written: the answer is not stored", exc_info=True)
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
        """Return the cache for a model; None if there is none."""
        cache = cache_in_force(model.cache)
        if cache is None:
            return None
        return cls(CacheSlot(cache, cache_key(model, request, policies), io))

    async def lookup(self) -> list[ChatGeneration] | None:
        """Return the cached answer, with its tokens marked as free of charge."""
        cached = await self._slot.lookup()
        return None if cached is None else [_free_of_charge(generation) for generation in cached]

    async def update(self, generations: list[ChatGeneration]) -> None:
        """Store an answer that is complete, not one that was cut, filtered or refused; report a cache that failed."""
        if all(is_complete(generation.message) for generation in generations):
            copies = [
                ChatGeneration(message=generation.message.model_copy(deep=True))
                for generation in generations
            ]
            await self._slot.update(copies)
        if self._slot.fault is not None:
            message: Any = generations[0].message
            message.response_metadata["cache_error"] = self._slot.fault


def cache_in_force(choice: Choice) -> BaseCache | None:
    """Return the cache that a model's `cache` selects: its own, the global one, or none."""
    if isinstance(choice, BaseCache):
        return choice
    if choice is False:
        return None
    cache = SETTINGS.llm_cache
    if cache is None and choice is True:
        raise UsageError(
            "cache=True needs a global cache: call foldline.globals.set_llm_cache(InMemoryCache()) first"
        )
    return cache


def is_complete(message: object) -> bool:
    """Return whether an answer may be cached: it is complete, and no call in it is invalid."""
    if not isinstance(message, AIMessage):
        return True
    has_ended = message.status == "complete" and message.finish_reason in COMPLETE_REASONS
    return has_ended and not message.invalid_tool_calls


def _free_of_charge(generation: Generation) -> ChatGeneration:
    if not isinstance(generation, ChatGeneration):  # stored by a text model, or by an older program
        return ChatGeneration(message=AIMessage(content=generation.text))
    message = generation.message.model_copy(deep=True)
    if isinstance(message, AIMessage) and message.usage_metadata is not None:
        usage = {**message.usage_metadata, "total_cost": 0}
        message.usage_metadata = cast("Any", usage)
    if "cost" in message.response_metadata:
        message.response_metadata["cost"] = 0.0
    return ChatGeneration._trusted(message)
