"""Memories that keep messages: all of them, the last turns, or as many as fit a number of tokens."""

from __future__ import annotations

from typing import Any

from foldline._io.drive import drive
from foldline._run import Run
from foldline.memory._field_types import AnyModel
from foldline.memory.chat_memory import BaseChatMemory
from foldline.messages import BaseMessage

__all__ = [
    "ConversationBufferMemory",
    "ConversationBufferWindowMemory",
    "ConversationTokenBufferMemory",
]


class ConversationBufferMemory(BaseChatMemory):
    """Keeps all messages.

    ```python
    from foldline.memory import ConversationBufferMemory

    memory = ConversationBufferMemory()
    memory.save_context({"input": "hi"}, {"output": "hello"})
    print(memory.load_memory_variables({})["history"].splitlines())
    #> ['Human: hi', 'AI: hello']
    ```
    """

    @property
    def buffer(self) -> list[BaseMessage] | str:
        """The messages, as a list or as text according to `return_messages`."""
        return self._format_messages(self.buffer_as_messages)

    @property
    def buffer_as_messages(self) -> list[BaseMessage]:
        """The messages as a list."""
        return drive(self._select_messages(Run.blocking()))

    @property
    def buffer_as_str(self) -> str:
        """The messages as text."""
        return self._as_text(self.buffer_as_messages)

    async def _select_messages(self, run: Run) -> list[BaseMessage]:
        return await self._messages(run)

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        return {self.memory_key: self._format_messages(await self._select_messages(run))}


class ConversationBufferWindowMemory(ConversationBufferMemory):
    """Returns the last `k` turns; older messages stay in the history."""

    k: int = 5
    """How many turns (two messages each)."""

    async def _select_messages(self, run: Run) -> list[BaseMessage]:
        messages = await self._messages(run)
        return messages[-self.k * 2 :] if self.k > 0 else []


class ConversationTokenBufferMemory(ConversationBufferMemory):
    """Keeps the messages that fit a number of tokens; older messages are deleted from the history."""

    llm: AnyModel
    """Counts the tokens."""
    max_token_limit: int = 2000

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await super()._save(inputs, outputs, run)
        messages = await self._messages(run)
        recent = newest_messages(self.llm, messages, self.max_token_limit)
        if len(recent) < len(messages):
            await self._drop(len(messages) - len(recent), run)


def newest_messages(llm: AnyModel, messages: list[BaseMessage], limit: int) -> list[BaseMessage]:
    """Return the newest messages that fit a number of tokens; each is counted once."""
    tokens, start = 0, len(messages)
    while start:
        tokens += llm.get_num_tokens_from_messages([messages[start - 1]])
        if tokens > limit:
            break
        start -= 1
    return messages[start:]
