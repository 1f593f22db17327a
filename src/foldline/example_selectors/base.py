"""`BaseExampleSelector`: chooses the examples that a few-shot prompt shows for an input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from foldline._io import ASYNC

__all__ = ["BaseExampleSelector"]


class BaseExampleSelector(ABC):
    """Chooses examples. A subclass writes `add_example` and `select_examples`; the twins may stay as they are."""

    @abstractmethod
    def add_example(self, example: dict[str, str]) -> object:
        """Take one more example into the choice."""

    async def aadd_example(self, example: dict[str, str]) -> object:
        """Take one more example into the choice."""
        return await ASYNC.call(self.add_example, example)

    @abstractmethod
    def select_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Choose the examples for these variables."""

    async def aselect_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Choose the examples for these variables."""
        chosen: list[dict[str, Any]] = await ASYNC.call(self.select_examples, input_variables)
        return chosen
