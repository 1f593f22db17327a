"""`ChatRequest`: the request of one call to a model, after coercion. A value; nothing here waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    convert_to_messages,
    get_buffer_string,
)
from foldline.prompt_values import PromptValue
from foldline.utils._signature import show_defaults
from foldline.utils._trusted import build_trusted

OutputFileType = Literal["local", "file", "url"]
CallOptions = dict[str, Any]
"""Keyword arguments of a call: tools, tool_choice, response_format, temperature, and options of the provider."""

CALL_OPTIONS = (
    "tools",
    "tool_choice",
    "response_format",
    "strict",
    "parallel_tool_calls",
    "stop",
)
"""Options of a call that are not settings of a model."""
COMMON_SETTINGS = (
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "model",
    "n",
    "presence_penalty",
    "reasoning_effort",
    "seed",
    "temperature",
    "top_k",
    "top_p",
    "user",
)
"""Settings that most models have."""


def _nothing(**_: object) -> None:
    return None


@show_defaults
@dataclass(slots=True)
class ChatRequest:
    """Messages and options of one call, and whether the caller streams the answer.

    A value: change it with `replace`. Not frozen, because a frozen dataclass costs four times as much to make.
    """

    messages: list[BaseMessage]
    stop: list[str] | None = None
    options: CallOptions = field(default_factory=dict)
    stream: bool = False
    output_file_type: OutputFileType | None = None
    """The form in which the caller wants the files of the answer; foldline converts them."""
    notes: list[str] = field(default_factory=list, compare=False)
    """What was changed or left out in the request; becomes `response_metadata["lost"]`."""
    others: list[AIMessage] = field(default_factory=list, compare=False)
    """Further answers to the same request (`n` above 1), added while it is answered."""
    note: Callable[..., None] = field(default=_nothing, compare=False, repr=False)
    """Called by a source that breaks, with the `usage` and `metadata` it had received: for the partial message."""

    emits_tokens: bool = field(default=False, compare=False, repr=False)
    """Whether handlers get each token that is yielded: an author's own `on_llm_new_token` is then ignored."""

    def replace(self, **changes: Any) -> ChatRequest:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    @property
    def tools(self) -> list[Any]:
        """The tools the model may call, unchanged."""
        return self.options.get("tools") or []


def messages_of(value: object) -> list[BaseMessage]:
    """Return any form of input as messages: text, a prompt value, messages, tuples, dicts."""
    if isinstance(value, str):
        return [_human(value)]
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, Sequence):
        messages = list(value)
        # By their types, of which there are few: this runs on every call, also for thousands of messages.
        if all(issubclass(kind, BaseMessage) for kind in set(map(type, messages))):
            return messages
        return convert_to_messages(value)
    raise _wrong_input(value)


def text_of(value: object) -> str:
    """Return any form of input as text, for a text model."""
    if isinstance(value, str):
        return value
    if isinstance(value, PromptValue):
        return value.to_string()
    return get_buffer_string(messages_of(value))


def _human(text: str) -> HumanMessage:
    """Return a human message; text that is not ASCII is checked for lone surrogates."""
    return plain_human(text) if text.isascii() else HumanMessage(content=text)


def plain_human(text: str) -> HumanMessage:
    """Return a human message, without validation."""
    fields: dict[str, Any] = {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "human",
        "name": None,
        "id": None,
    }
    return build_trusted(HumanMessage, fields, {"content"}, {})


def _wrong_input(value: object) -> UsageError:
    return UsageError(
        f"a model takes text, a prompt value or a list of messages, not {type(value).__name__}: "
        "wrap it in HumanMessage(...) or format a prompt first"
    )


publish("foldline.language_models", ChatRequest)
