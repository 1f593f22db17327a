"""`BaseMessagePromptTemplate`: the base class of message templates, the parts of a chat prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from foldline._extensions import extension
from foldline.load.serializable import Serializable
from foldline.messages import BaseMessage

__all__ = ["BaseMessagePromptTemplate"]

OVERRIDABLE_METHODS = frozenset(
    {"format", "aformat", "format_messages", "aformat_messages", "format_prompt", "aformat_prompt"}
)
"""Methods that subclasses may override; a class that does is only called through them."""


class BaseMessagePromptTemplate(Serializable, ABC):
    """Creates messages from variables. A subclass implements `format_messages` and `input_variables`."""

    _has_default_methods: ClassVar[bool] = True
    """Whether no method is overridden, so that `_fill` may be called directly."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith(
            "foldline.prompts."
        ) and not OVERRIDABLE_METHODS.isdisjoint(cls.__dict__):
            cls._has_default_methods = False

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: message templates can be serialized."""
        return True

    def _fill(self, values: Mapping[str, Any]) -> list[BaseMessage]:
        return self.format_messages(**values)

    @abstractmethod
    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the messages with the variables filled in."""

    async def aformat_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the messages with the variables filled in."""
        return self.format_messages(**kwargs)

    @property
    @abstractmethod
    def input_variables(self) -> list[str]:
        """The required variables."""

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the template under a title line."""
        raise NotImplementedError(f"{type(self).__name__} has no `pretty_repr`")

    def pretty_print(self) -> None:
        """Print `pretty_repr`."""
        print(self.pretty_repr())  # noqa: T201  printing is its job

    def __add__(self, other: object) -> object:
        """Return a chat prompt that begins with this template."""
        return extension("add_messages")(self, other)
