"""A stream of inputs that can be read again: what a failed attempt has read is available to the next one.

Items are stored only until the first output is delivered; after that there are no more attempts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from foldline.runnables._trace import NOTHING


class Rereadable:
    """The inputs of a stream, for several readers, one after the other."""

    def __init__(self, inputs: AsyncGenerator[Any, None] | None = None) -> None:
        """Read these inputs; None if every attempt gets the complete input."""
        self._inputs = inputs
        self._items: list[Any] = []
        self._is_storing = True
        self.is_broken = False
        """Whether the inputs themselves failed, which is not the fault of the reader."""

    def stop_storing(self) -> None:
        """Store no more items: the current reader is the last."""
        self._is_storing = False

    async def reader(self) -> AsyncGenerator[Any, None]:
        """Read from the beginning; closing the reader leaves the inputs open."""
        position = 0
        while self._is_storing or position < len(self._items):
            if position == len(self._items):
                item = await self._next_item()
                if item is NOTHING:
                    return
                self._items.append(item)
            item = self._items[position]
            position += 1
            yield item
        self._items.clear()
        if self._inputs is None:
            return
        # There is no further attempt, so `is_broken` need not be set.
        async for item in self._inputs:
            yield item

    async def aclose(self) -> None:
        """Close the inputs."""
        if self._inputs is not None:
            await self._inputs.aclose()

    async def _next_item(self) -> object:
        if self._inputs is None:
            return NOTHING
        try:
            return await anext(self._inputs, NOTHING)
        except BaseException:
            self.is_broken = True
            raise
