"""Memories that keep what was said: all of it, the last turns, or as much as fits a number of tokens."""

from __future__ import annotations

from typing import Any

from foldline._io.drive import drive
from foldline._run import Run
from foldline.memory._kinds import AnyModel
from foldline.memory.chat_memory import BaseChatMemory
from foldline.messages import BaseMessage

__all__ = [
    "ConversationBufferMemory",
    "ConversationBufferWindowMemory",
    "ConversationTokenBufferMemory",
]


class ConversationBufferMemory(BaseChatMemory):
    """Remembers everything that was said.

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
        """What this memory gives."""
        return self._format_messages(self.buffer_as_messages)

    @property
    def buffer_as_messages(self) -> list[BaseMessage]:
        """What this memory gives, as messages."""
        return drive(self._remembered_messages(Run.blocking()))

    @property
    def buffer_as_str(self) -> str:
        """What this memory gives, as text."""
        return self._as_text(self.buffer_as_messages)

    async def _remembered_messages(self, run: Run) -> list[BaseMessage]:
        return await self._messages(run)

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        return {self.memory_key: self._format_messages(await self._remembered_messages(run))}


class ConversationBufferWindowMemory(ConversationBufferMemory):
    """Remembers the last `k` turns; older messages stay in the history."""

    k: int = 5
    """How many turns (two messages each)."""

    async def _remembered_messages(self, run: Run) -> list[BaseMessage]:
        messages = await self._messages(run)
        return messages[-self.k * 2 :] if self.k > 0 else []


class ConversationTokenBufferMemory(ConversationBufferMemory):
    """Remembers as much as fits a number of tokens; older messages are dropped from the history."""

    llm: AnyModel
    """Counts the tokens."""
    max_token_limit: int = 2000

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await super()._save(inputs, outputs, run)
        messages = await self._messages(run)
        kept = fitting(self.llm, messages, self.max_token_limit)
        if len(kept) < len(messages):
            await self._drop(len(messages) - len(kept), run)


def fitting(llm: AnyModel, messages: list[BaseMessage], limit: int) -> list[BaseMessage]:
    """Return the newest messages that fit a number of tokens; each is counted once."""
    used, kept = 0, len(messages)
    while kept and (used := used + llm.get_num_tokens_from_messages([messages[kept - 1]])) <= limit:
        kept -= 1
    return messages[kept:]
