"""Memories that let a model summarise the conversation: all of it, or the messages that no longer fit."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from foldline._io.drive import drive
from foldline._run import Run
from foldline.memory._field_types import AnyModel, AnyPrompt
from foldline.memory.buffer import newest_messages
from foldline.memory.chat_memory import BaseChatMemory
from foldline.messages import BaseMessage, SystemMessage
from foldline.prompts import PromptTemplate

__all__ = ["SUMMARY_PROMPT", "ConversationSummaryBufferMemory", "ConversationSummaryMemory"]

SUMMARY_PROMPT = PromptTemplate.from_template(
    "Below are a summary of a conversation so far and the lines that were said after it. Write one new summary that "
    "covers both. Keep names, numbers and decisions; leave out small talk. Answer with the summary alone.\n\n"
    "Summary so far:\n{summary}\n\nNew lines:\n{new_lines}\n\nNew summary:"
)


class _SummaryMemory(BaseChatMemory):
    llm: AnyModel
    """Writes the summaries."""
    prompt: AnyPrompt = Field(default_factory=lambda: SUMMARY_PROMPT)
    """Asks for a summary, with the variables `summary` and `new_lines`."""
    summary_message_cls: type[BaseMessage] = SystemMessage
    """The class of the summary message if `return_messages`."""

    def predict_new_summary(self, messages: list[BaseMessage], existing_summary: str) -> str:
        """Return a new summary of messages and an earlier summary."""
        return drive(self._summarize(messages, existing_summary, Run.blocking()))

    async def apredict_new_summary(self, messages: list[BaseMessage], existing_summary: str) -> str:
        """Return a new summary of messages and an earlier summary."""
        return await self._summarize(messages, existing_summary, Run.asynchronous())

    async def _summarize(self, messages: list[BaseMessage], summary: str, run: Run) -> str:
        prompt_values = {"summary": summary, "new_lines": self._as_text(messages)}
        answer = await (self.prompt | self.llm)._step(prompt_values, run.child())
        return str(getattr(answer, "text", answer))


class ConversationSummaryMemory(_SummaryMemory):
    """Keeps a summary, which is rewritten after each turn."""

    buffer: str = ""
    """The summary."""

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        if self.return_messages:
            return {self.memory_key: [self.summary_message_cls(content=self.buffer)]}
        return {self.memory_key: self.buffer}

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await super()._save(inputs, outputs, run)
        turn = (await self._messages(run))[-2:]
        self.buffer = await self._summarize(turn, self.buffer, run)

    async def _clear(self, run: Run) -> None:
        await super()._clear(run)
        self.buffer = ""


class ConversationSummaryBufferMemory(_SummaryMemory):
    """Keeps the newest messages unchanged, and a summary of those that no longer fit."""

    max_token_limit: int = 2000
    moving_summary_buffer: str = ""
    """The summary of the messages that no longer fit."""

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
        recent = newest_messages(self.llm, messages, self.max_token_limit)
        old_messages = messages[: len(messages) - len(recent)]
        if old_messages:
            # Summarise before deleting: nothing is lost if the model call fails.
            self.moving_summary_buffer = await self._summarize(
                old_messages, self.moving_summary_buffer, run
            )
            await self._drop(len(old_messages), run)

    async def _clear(self, run: Run) -> None:
        await super()._clear(run)
        self.moving_summary_buffer = ""
