"""`BaseCache`: stores complete answers by (prompt, model). An author writes the sync methods; the async are derived."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from foldline._io import ASYNC
from foldline.outputs import Generation
from foldline.utils._short_repr import short_repr

RETURN_VAL_TYPE: TypeAlias = Sequence[Generation]


class BaseCache(ABC):
    """Stores model answers by prompt and by a text with everything else that identifies a model call."""

    __repr__ = short_repr

    @abstractmethod
    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the cached answer, or None."""

    @abstractmethod
    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer."""

    @abstractmethod
    def clear(self, **kwargs: object) -> None:
        """Delete everything."""

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the cached answer, or None."""
        answers: RETURN_VAL_TYPE | None = await ASYNC.call(self.lookup, prompt, llm_string)
        return answers

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer."""
        await ASYNC.call(self.update, prompt, llm_string, return_val)

    async def aclear(self, **kwargs: object) -> None:
        """Delete everything."""
        await ASYNC.call(self.clear, **kwargs)
