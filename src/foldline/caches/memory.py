"""`InMemoryCache`: a dict, with an optional bound on its size (the oldest entry goes first)."""

from __future__ import annotations

from foldline.caches.base import RETURN_VAL_TYPE, BaseCache
from foldline.exceptions import UsageError


class InMemoryCache(BaseCache):
    """Keeps answers in this process."""

    def __init__(self, *, maxsize: int | None = None) -> None:
        """Keep at most `maxsize` answers, or all of them."""
        if maxsize is not None and maxsize <= 0:
            raise UsageError(f"maxsize must be greater than 0, not {maxsize}")
        self._kept: dict[tuple[str, str], RETURN_VAL_TYPE] = {}
        self._maxsize = maxsize

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the kept answer, or None."""
        return self._kept.get((prompt, llm_string))

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Keep an answer."""
        if self._maxsize is not None and len(self._kept) >= self._maxsize:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[(prompt, llm_string)] = return_val

    def clear(self, **kwargs: object) -> None:
        """Forget everything."""
        self._kept.clear()

    # A dict answers at once: no thread is needed to keep the loop free.

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the kept answer, or None."""
        return self.lookup(prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Keep an answer."""
        self.update(prompt, llm_string, return_val)

    async def aclear(self, **kwargs: object) -> None:
        """Forget everything."""
        self.clear()
