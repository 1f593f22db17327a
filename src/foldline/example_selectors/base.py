"""`BaseExampleSelector`: chooses the examples of a few-shot prompt for an input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from foldline._io import ASYNC

__all__ = ["BaseExampleSelector"]


class BaseExampleSelector(ABC):
    """Chooses examples. A subclass implements `add_example` and `select_examples`; the async methods call them."""

    @abstractmethod
    def add_example(self, example: dict[str, str]) -> object:
        """Add an example."""

    async def aadd_example(self, example: dict[str, str]) -> object:
        """Add an example."""
        return await ASYNC.call(self.add_example, example)

    @abstractmethod
    def select_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Return the examples for these variables."""

    async def aselect_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Return the examples for these variables."""
        examples: list[dict[str, Any]] = await ASYNC.call(self.select_examples, input_variables)
        return examples
