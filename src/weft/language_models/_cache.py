"""What a turn keeps and finds: the cache in force, its key, and the rule that only complete answers are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from weft._run import Run
from weft.caches.base import BaseCache
from weft.exceptions import UsageError
from weft.globals import get_llm_cache
from weft.language_models.cache_key import cache_key
from weft.language_models.request import ChatRequest
from weft.messages import AIMessage
from weft.outputs import ChatGeneration

if TYPE_CHECKING:
    from weft.language_models.chat_models import BaseChatModel

KEPT_REASONS = frozenset({"stop", "tool_use", None})


class TurnCache:
    """The cache of one turn."""

    def __init__(self, cache: BaseCache, key: tuple[str, str], run: Run) -> None:
        self._cache = cache
        self._key = key
        self._run = run

    @classmethod
    def of(cls, model: BaseChatModel, request: ChatRequest, run: Run) -> TurnCache | None:
        """Find the cache in force for a model; None where there is none."""
        cache = _in_force(model)
        return None if cache is None else cls(cache, cache_key(model, request), run)

    async def lookup(self) -> list[ChatGeneration] | None:
        """Give the kept answer, its tokens marked as free of charge."""
        if self._run.io.blocking:
            kept = self._cache.lookup(*self._key)
        else:
            kept = await self._cache.alookup(*self._key)
        if kept is None:
            return None
        return [_replayed(cast("ChatGeneration", one)) for one in kept]

    async def update(self, generations: list[ChatGeneration]) -> None:
        """Keep an answer that is complete; a truncated, filtered or refused one is not kept."""
        if not all(is_complete(one.message) for one in generations):
            return
        copies = [ChatGeneration(message=one.message.model_copy(deep=True)) for one in generations]
        if self._run.io.blocking:
            self._cache.update(*self._key, copies)
        else:
            await self._cache.aupdate(*self._key, copies)


def _in_force(model: BaseChatModel) -> BaseCache | None:
    if isinstance(model.cache, BaseCache):
        return model.cache
    if model.cache is False:
        return None
    cache = get_llm_cache()
    if model.cache is True and cache is None:
        raise UsageError("cache=True needs a global cache: call weft.globals.set_llm_cache(InMemoryCache()) first")
    return cache


def is_complete(message: Any) -> bool:
    """Whether an answer may be kept: it said it was complete, and no call in it is broken."""
    if not isinstance(message, AIMessage):
        return True
    return message.status == "complete" and message.finish_reason in KEPT_REASONS and not message.invalid_tool_calls


def _replayed(generation: ChatGeneration) -> ChatGeneration:
    message = generation.message.model_copy(deep=True)
    if isinstance(message, AIMessage) and message.usage_metadata is not None:
        message.usage_metadata = {**message.usage_metadata, "total_cost": 0}  # type: ignore[typeddict-unknown-key]
    return ChatGeneration(message=message)
