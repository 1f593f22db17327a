"""`BaseChatMemory`: stores a conversation in any chat history."""

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
    """Stores the user's input and the model's output of each call in a chat history."""

    chat_memory: BaseChatMessageHistory = Field(default_factory=InMemoryChatMessageHistory)
    """The history that stores the messages."""
    input_key: str | None = None
    """The input that is the user's message; needed if a chain has several inputs."""
    output_key: str | None = None
    """The output that is the model's message; needed if a chain has several outputs."""
    return_messages: bool = False
    """Return messages instead of one text."""
    human_prefix: str = "Human"
    ai_prefix: str = "AI"
    memory_key: str = "history"
    """The variable that this memory adds to the inputs."""

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
        """Delete the oldest messages."""
        if run.io.blocking:
            self.chat_memory.drop_oldest(count)
        else:
            await self.chat_memory.adrop_oldest(count)

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        human, ai = self._input_and_output(inputs, outputs)
        await self._add([_message(human, HumanMessage), _message(ai, AIMessage)], run)

    async def _clear(self, run: Run) -> None:
        if run.io.blocking:
            self.chat_memory.clear()
        else:
            await self.chat_memory.aclear()

    def _input_and_output(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> tuple[Any, Any]:
        input_key = self.input_key or self._only_key(
            "input", [key for key in inputs if key not in [*self.memory_variables, "stop"]]
        )
        output_key = self.output_key or (
            "output"
            if len(outputs) > 1 and "output" in outputs
            else self._only_key("output", list(outputs))
        )
        return inputs[input_key], outputs[output_key]

    def _only_key(self, side: str, keys: list[str]) -> str:
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
