"""Memories that let a model sum up what was said: all of it, or what no longer fits."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from foldline._io.drive import drive
from foldline._run import Run
from foldline.memory._kinds import AnyModel, AnyPrompt
from foldline.memory.buffer import fitting
from foldline.memory.chat_memory import BaseChatMemory
from foldline.messages import BaseMessage, SystemMessage
from foldline.prompts import PromptTemplate

__all__ = ["SUMMARY_PROMPT", "ConversationSummaryBufferMemory", "ConversationSummaryMemory"]

SUMMARY_PROMPT = PromptTemplate.from_template(
    "Below are a summary of a conversation so far and the lines that were said after it. Write one new summary that "
    "covers both. Keep names, numbers and decisions; leave out small talk. Answer with the summary alone.\n\n"
    "Summary so far:\n{summary}\n\nNew lines:\n{new_lines}\n\nNew summary:"
)


class _Summing(BaseChatMemory):
    llm: AnyModel
    """Writes the summaries."""
    prompt: AnyPrompt = Field(default_factory=lambda: SUMMARY_PROMPT)
    """Asks for a summary, with the variables `summary` and `new_lines`."""
    summary_message_cls: type[BaseMessage] = SystemMessage
    """The message that carries the summary, where messages are asked for."""

    def predict_new_summary(self, messages: list[BaseMessage], existing_summary: str) -> str:
        """Write a summary of messages that goes on from an earlier one."""
        return drive(self._summed(messages, existing_summary, Run.blocking()))

    async def apredict_new_summary(self, messages: list[BaseMessage], existing_summary: str) -> str:
        """Write a summary of messages that goes on from an earlier one."""
        return await self._summed(messages, existing_summary, Run.asynchronous())

    async def _summed(self, messages: list[BaseMessage], summary: str, run: Run) -> str:
        asked = {"summary": summary, "new_lines": self._as_text(messages)}
        answer = await (self.prompt | self.llm)._step(asked, run.child())
        return str(getattr(answer, "text", answer))


class ConversationSummaryMemory(_Summing):
    """Remembers a summary, written anew after each turn."""

    buffer: str = ""
    """The summary."""

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        if self.return_messages:
            return {self.memory_key: [self.summary_message_cls(content=self.buffer)]}
        return {self.memory_key: self.buffer}

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await super()._save(inputs, outputs, run)
        turn = (await self._messages(run))[-2:]
        self.buffer = await self._summed(turn, self.buffer, run)

    async def _clear(self, run: Run) -> None:
        await super()._clear(run)
        self.buffer = ""


class ConversationSummaryBufferMemory(_Summing):
    """Remembers the newest messages as they were, and a summary of those that no longer fit."""

    max_token_limit: int = 2000
    moving_summary_buffer: str = ""
    """The summary of what no longer fits."""

    @property
    def buffer(self) -> list[BaseMessage]:
        """The messages that still fit."""
        return drive(self._messages(Run.blocking()))

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        messages = await self._messages(run)
        if self.moving_summary_buffer:
            messages = [self.summary_message_cls(content=self.moving_summary_buffer), *messages]
        return {self.memory_key: self._format_messages(messages)}

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await super()._save(inputs, outputs, run)
        messages = await self._messages(run)
        kept = fitting(self.llm, messages, self.max_token_limit)
        dropped = messages[: len(messages) - len(kept)]
        if dropped:
            # First the summary, then the messages go: a model that fails here loses nothing.
            self.moving_summary_buffer = await self._summed(
                dropped, self.moving_summary_buffer, run
            )
            await self._drop(len(dropped), run)

    async def _clear(self, run: Run) -> None:
        await super()._clear(run)
        self.moving_summary_buffer = ""
