"""`BaseChatMemory`: remembers a conversation in any chat history; knows which input and output are its two sides."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from foldline._run import Run
from foldline.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from foldline.exceptions import UsageError
from foldline.memory.base import BaseMemory
from foldline.messages import AIMessage, BaseMessage, HumanMessage, get_buffer_string

__all__ = ["BaseChatMemory"]


class BaseChatMemory(BaseMemory, ABC):
    """Remembers a conversation."""

    chat_memory: BaseChatMessageHistory = Field(default_factory=InMemoryChatMessageHistory)
    """Where the messages are kept."""
    input_key: str | None = None
    """Which input is the human's; needed only where a chain has several."""
    output_key: str | None = None
    """Which output is the model's; needed only where a chain has several."""
    return_messages: bool = False
    """Return messages instead of one text."""
    human_prefix: str = "Human"
    ai_prefix: str = "AI"
    memory_key: str = "history"
    """The variable this memory gives."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return [self.memory_key]

    async def _messages(self, run: Run) -> list[BaseMessage]:
        if run.io.blocking:
            return list(self.chat_memory.messages)
        return list(await self.chat_memory.aget_messages())

    async def _add(self, messages: list[BaseMessage], run: Run) -> None:
        if run.io.blocking:
            self.chat_memory.add_messages(messages)
        else:
            await self.chat_memory.aadd_messages(messages)

    async def _drop(self, count: int, run: Run) -> None:
        """Forget the oldest messages."""
        if run.io.blocking:
            self.chat_memory.drop_oldest(count)
        else:
            await self.chat_memory.adrop_oldest(count)

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        human, ai = self._sides(inputs, outputs)
        await self._add([_message(human, HumanMessage), _message(ai, AIMessage)], run)

    async def _clear(self, run: Run) -> None:
        if run.io.blocking:
            self.chat_memory.clear()
        else:
            await self.chat_memory.aclear()

    def _sides(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> tuple[Any, Any]:
        key = self.input_key or self._only(
            "input", [k for k in inputs if k not in [*self.memory_variables, "stop"]]
        )
        out = self.output_key or (
            "output"
            if len(outputs) > 1 and "output" in outputs
            else self._only("output", list(outputs))
        )
        return inputs[key], outputs[out]

    def _only(self, side: str, keys: list[str]) -> str:
        if len(keys) != 1:
            raise UsageError(
                f"{type(self).__name__} does not know which {side} to remember of {keys}: set {side}_key"
            )
        return keys[0]

    def _format_messages(self, messages: list[BaseMessage]) -> list[BaseMessage] | str:
        if self.return_messages:
            return messages
        return self._as_text(messages)

    def _as_text(self, messages: list[BaseMessage]) -> str:
        return get_buffer_string(messages, human_prefix=self.human_prefix, ai_prefix=self.ai_prefix)


def _message(value: object, kind: type[BaseMessage]) -> BaseMessage:
    return (
        value
        if isinstance(value, BaseMessage)
        else kind(content=value if isinstance(value, str | list) else str(value))
    )
