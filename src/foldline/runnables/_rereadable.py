"""Read a stream of inputs again: what an attempt read before it failed is there for the next one.

Items are kept only until the first output was delivered; from then on nothing is tried again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from foldline.runnables._trace import NOTHING


class Rereadable:
    """The inputs of a stream, for one reader after another."""

    def __init__(self, inputs: AsyncGenerator[Any, None] | None = None) -> None:
        """Read these inputs; none where a whole input is given to every attempt."""
        self._inputs = inputs
        self._kept: list[Any] = []
        self._is_keeping = True
        self.is_broken = False
        """Whether the inputs themselves failed: what comes of them is not the reader's fault."""

    def stop_keeping(self) -> None:
        """Let items go as soon as they were read: the present reader is the last."""
        self._is_keeping = False

    async def reader(self) -> AsyncGenerator[Any, None]:
        """Read from the beginning; closing the reader leaves the inputs open."""
        place = 0
        while self._is_keeping or place < len(self._kept):
            if place == len(self._kept):
                item = await self._next()
                if item is NOTHING:
                    return
                self._kept.append(item)
            item = self._kept[place]
            place += 1
            yield item
        self._kept.clear()
        if self._inputs is None:
            return
        async for (
            item
        ) in self._inputs:  # nothing is tried again any more, so nobody asks whether they broke
            yield item

    async def aclose(self) -> None:
        """Close the inputs."""
        if self._inputs is not None:
            await self._inputs.aclose()

    async def _next(self) -> object:
        if self._inputs is None:
            return NOTHING
        try:
            return await anext(self._inputs, NOTHING)
        except BaseException:
            self.is_broken = True
            raise
