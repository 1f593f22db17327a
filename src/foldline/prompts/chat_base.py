"""`BaseChatPromptTemplate`: a prompt that is a list of messages. Public in `foldline.prompts.chat`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from foldline.messages import BaseMessage
from foldline.prompt_values import ChatPromptValue
from foldline.prompts._build import chat_value
from foldline.prompts.base import BasePromptTemplate

__all__ = ["BaseChatPromptTemplate"]


class BaseChatPromptTemplate(BasePromptTemplate[str], ABC):
    """A prompt that is a list of messages. A subclass implements `format_messages`."""

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """Fields that are always serialized."""
        return {"input_variables": self.input_variables}

    def format(self, **kwargs: object) -> str:
        """Return the filled messages as a transcript."""
        return self.format_prompt(**kwargs).to_string()

    async def aformat(self, **kwargs: object) -> str:
        """Return the filled messages as a transcript."""
        return (await self.aformat_prompt(**kwargs)).to_string()

    def format_prompt(self, **kwargs: object) -> ChatPromptValue:
        """Return the prompt value with the variables filled in."""
        return chat_value(self.format_messages(**kwargs))

    async def aformat_prompt(self, **kwargs: object) -> ChatPromptValue:
        """Return the prompt value with the variables filled in."""
        return chat_value(await self.aformat_messages(**kwargs))

    @abstractmethod
    def format_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the messages with the variables filled in."""

    async def aformat_messages(self, **kwargs: object) -> list[BaseMessage]:
        """Return the messages with the variables filled in."""
        return self.format_messages(**kwargs)

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the prompt, message by message."""
        raise NotImplementedError(f"{type(self).__name__} has no `pretty_repr`")

    def pretty_print(self) -> None:
        """Print `pretty_repr`."""
        print(self.pretty_repr())  # noqa: T201  printing is its job
