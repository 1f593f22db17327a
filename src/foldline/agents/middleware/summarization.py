"""`SummarizationMiddleware`: replaces the older part of a long conversation by a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, State, Update
from foldline.agents.middleware.fallback import ModelOrName, as_model
from foldline.agents.runtime import Runtime
from foldline.agents.state import REMOVE_ALL_MESSAGES
from foldline.exceptions import UsageError
from foldline.messages import (
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    get_buffer_string,
)
from foldline.messages.count import count_tokens_approximately
from foldline.utils._options import check_options
from foldline.utils._signature import show_defaults

__all__ = ["SummarizationMiddleware"]

Size = tuple[Literal["tokens", "messages", "fraction"], float]
SUMMARY_PROMPT = """Summarise the conversation below so that it can go on without the original. Keep what the user \
wants, decisions and their reasons, facts and numbers, results of tools, names of files and other things that were \
made, and what is still to be done. Answer with the summary alone.

{messages}"""
PREFIX = "Here is a summary of the conversation so far:\n\n"


class SummarizationMiddleware(AgentMiddleware):
    """Replaces the older part of a long conversation by a summary."""

    @show_defaults
    @check_options(at_least={"trim_tokens_to_summarize": 1})
    def __init__(
        self,
        model: ModelOrName,
        *,
        trigger: Size | list[Size] | None = None,
        keep: Size = ("messages", 20),
        token_counter: Callable[[Iterable[BaseMessage]], int] = count_tokens_approximately,
        summary_prompt: str = SUMMARY_PROMPT,
        trim_tokens_to_summarize: int | None = None,
    ) -> None:
        """Set the model, when to summarise (tokens, messages, or a fraction of the context window), and what to keep.

        `trim_tokens_to_summarize` limits the summarised part to its newest messages; by default all of it is read.
        """
        self.model = as_model(model)
        self.trigger = [trigger] if isinstance(trigger, tuple) else list(trigger or ())
        self.keep = keep
        self.token_counter = token_counter
        self.summary_prompt = summary_prompt
        self.trim_tokens_to_summarize = trim_tokens_to_summarize
        for kind, size in [*self.trigger, keep]:
            if kind not in ("tokens", "messages", "fraction") or size <= 0:
                raise UsageError(
                    f"({kind!r}, {size!r}): pass a pair of tokens, messages or fraction and a number above 0"
                )

    async def _before_model(self, state: State, runtime: Runtime[Any], run: Run) -> Update:
        messages: list[BaseMessage] = state["messages"]
        if not any(
            self._size(messages, kind) >= self._limit(kind, size) for kind, size in self.trigger
        ):
            return None
        keep_from = self._keep_from(messages)
        if keep_from <= 0:
            return None
        old_messages = messages[:keep_from]
        if self.trim_tokens_to_summarize is not None:
            old_messages = old_messages[
                self._first_within(old_messages, self.trim_tokens_to_summarize) :
            ]
        text = self.summary_prompt.replace("{messages}", get_buffer_string(old_messages))
        answer = await self.model._step([HumanMessage(text)], run.child())
        summary = HumanMessage(
            f"{PREFIX}{answer.text}", additional_kwargs={"lc_source": "summarization"}
        )
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), summary, *messages[keep_from:]]}

    def _size(self, messages: list[BaseMessage], kind: str) -> float:
        return len(messages) if kind == "messages" else self.token_counter(messages)

    def _limit(self, kind: str, size: float) -> float:
        if kind != "fraction":
            return size
        window = (getattr(self.model, "profile", None) or {}).get("max_input_tokens")
        if window is None:
            raise UsageError(
                'a fraction needs the model\'s context window: pass profile={"max_input_tokens": …}, or use tokens'
            )
        return size * float(window)

    def _first_within(self, messages: list[BaseMessage], limit: float) -> int:
        """Return the index from which the messages to the end fit a number of tokens."""
        index = len(messages)
        while index > 0 and self.token_counter(messages[index - 1 :]) <= limit:
            index -= 1
        return index

    def _keep_from(self, messages: list[BaseMessage]) -> int:
        """Return where the kept part begins: it has at least one message, and no call is cut from its result."""
        kind, size = self.keep
        if kind == "messages":
            start = len(messages) - int(size)
        else:
            start = self._first_within(messages, self._limit(kind, size))
        start = max(0, min(start, len(messages) - 1))
        while start > 0 and isinstance(messages[start], ToolMessage):
            start -= 1
        return start
