"""Reads and writes the cache of a call.

Only complete answers are cached, a cached answer costs nothing, and a cache that fails counts as a miss (F-K03).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from foldline._io import IO
from foldline.caches.base import BaseCache
from foldline.exceptions import UsageError
from foldline.globals import SETTINGS
from foldline.language_models._call.cache_key import KeyedModel, cache_key
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage
from foldline.messages._refusal import has_refusal
from foldline.outputs import ChatGeneration, Generation
from foldline.protocol.folded_message import normalize_finish_reason

logger: logging.Logger = logging.getLogger("foldline.language_models")

Choice = BaseCache | bool | None
"""A model's `cache`: a cache, the global one (True, or None if there is one), none (False)."""
COMPLETE_REASONS = frozenset({"stop", "tool_use"})
REASON_KEYS = ("finish_reason", "stop_reason", "done_reason")
"""A provider's own reason, in the metadata of a message or a generation."""


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
            # Two methods, as in LangChain's interface: either may be the one that a program has written.
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
    """The cache of one call."""

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

    @property
    def fault(self) -> str | None:
        """The error of the cache, if it failed."""
        return self._slot.fault

    async def lookup(self) -> list[ChatGeneration] | None:
        """Return the cached answer, with its tokens marked as free of charge."""
        cached = await self._slot.lookup()
        return None if cached is None else [_free_of_charge(generation) for generation in cached]

    async def update(
        self, generations: list[ChatGeneration], *, needs_reason: bool = False
    ) -> None:
        """Store an answer that is complete, not one that was cut, filtered or refused; report a cache that failed.

        `needs_reason`: the answer was a stream, of which only a finish reason shows that it is complete (E6).
        """
        if all(
            is_complete(generation.message, needs_reason=needs_reason) for generation in generations
        ):
            # Copies, because the caller owns the message, and may change it after this.
            copies = [
                ChatGeneration(message=generation.message.model_copy(deep=True))
                for generation in generations
            ]
            await self._slot.update(copies)
        # Said where the program looks: a cache that fails for days costs money, and nothing else would show it.
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


def is_complete(message: object, *, needs_reason: bool = False) -> bool:
    """Return whether an answer may be cached: it is complete, no refusal, and no call in it is invalid."""
    if not isinstance(message, AIMessage):
        return True
    if message.status != "complete" or message.invalid_tool_calls or has_refusal(message):
        return False
    if message.finish_reason is not None:
        return message.finish_reason in COMPLETE_REASONS
    return has_complete_reason(message.response_metadata, needs_reason=needs_reason)


def has_complete_reason(metadata: Mapping[str, Any], *, needs_reason: bool) -> bool:
    """Return whether metadata has no other reason to end than completion."""
    raw_reason = next((metadata[key] for key in REASON_KEYS if metadata.get(key)), None)
    reason = normalize_finish_reason(raw_reason if isinstance(raw_reason, str) else None)
    return not needs_reason if reason in (None, "unknown") else reason in COMPLETE_REASONS


def _free_of_charge(generation: Generation) -> ChatGeneration:
    if not isinstance(generation, ChatGeneration):  # stored by a text model, or by an older program
        return ChatGeneration(message=AIMessage(content=generation.text))
    # A copy: the cache may give the same object to the next caller.
    message = generation.message.model_copy(deep=True)
    if isinstance(message, AIMessage) and message.usage_metadata is not None:
        usage = {**message.usage_metadata, "total_cost": 0}
        message.usage_metadata = cast("Any", usage)
    elif isinstance(message, AIMessage):  # nothing else would say that it cost nothing
        message.response_metadata["cost"] = 0.0
    if "cost" in message.response_metadata:
        message.response_metadata["cost"] = 0.0
    return ChatGeneration._trusted(message)
