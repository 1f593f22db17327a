"""`BaseMessagePromptTemplate`: what makes messages of variables; the part of a chat prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from foldline._extensions import extension
from foldline.load.serializable import Serializable
from foldline.messages import BaseMessage

__all__ = ["BaseMessagePromptTemplate"]

BY_HAND = frozenset(
    {"format", "aformat", "format_messages", "aformat_messages", "format_prompt", "aformat_prompt"}
)
"""What an author may write; a class that has one of its own is asked through these."""


class BaseMessagePromptTemplate(Serializable, ABC):
    """Makes messages of variables. A subclass writes `format_messages` and `input_variables`."""

    _is_ours: ClassVar[bool] = True
    """Whether nothing was written by hand, so that `_fill` may be called straight away."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("foldline.prompts.") and not BY_HAND.isdisjoint(
            cls.__dict__
        ):
            cls._is_ours = False

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Say that message templates can be written and read back."""
        return True

    def _fill(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        return self.format_messages(**values)

    @abstractmethod
    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Make the messages."""

    async def aformat_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Make the messages."""
        return self.format_messages(**kwargs)

    @property
    @abstractmethod
    def input_variables(self) -> list[str]:
        """The variables that must be given."""

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Show the template under a title line."""
        raise NotImplementedError(f"{type(self).__name__} has no `pretty_repr`")

    def pretty_print(self) -> None:
        """Print `pretty_repr`."""
        print(self.pretty_repr())  # noqa: T201  printing is its job

    def __add__(self, other: object) -> object:
        """Begin a chat prompt with this template."""
        return extension("add_messages")(self, other)
