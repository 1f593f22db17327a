"""`InMemoryCache`: a dict with an optional maximum size; the oldest entry is deleted first."""

from __future__ import annotations

from foldline.caches.base import RETURN_VAL_TYPE, BaseCache
from foldline.exceptions import UsageError


class InMemoryCache(BaseCache):
    """Stores answers in this process."""

    def __init__(self, *, maxsize: int | None = None) -> None:
        """Store at most `maxsize` answers, or all of them."""
        if maxsize is not None and maxsize <= 0:
            raise UsageError(f"maxsize must be greater than 0, not {maxsize}")
        self._answers: dict[tuple[str, str], RETURN_VAL_TYPE] = {}
        self._maxsize = maxsize

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the cached answer, or None."""
        return self._answers.get((prompt, llm_string))

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer."""
        if self._maxsize is not None and len(self._answers) >= self._maxsize:
            self._answers.pop(next(iter(self._answers)), None)
        self._answers[(prompt, llm_string)] = return_val

    def clear(self, **kwargs: object) -> None:
        """Delete everything."""
        self._answers.clear()

    # A dict is fast: no thread is needed to leave the loop free.

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the cached answer, or None."""
        return self.lookup(prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer."""
        self.update(prompt, llm_string, return_val)

    async def aclear(self, **kwargs: object) -> None:
        """Delete everything."""
        self.clear()
