"""Texts, messages and prompt values made of templates, without validation: the quick way out of a prompt.

Every prompt of ours formats through `text_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from foldline.prompt_values import ChatPromptValue, StringPromptValue
from foldline.prompts._compile import Program
from foldline.utils.json import has_surrogates
from foldline.utils.trusted import bare, set_dict, set_extra, set_fields_set, set_private

__all__ = ["chat_value", "make_message", "string_value", "text_of"]

M = TypeVar("M", bound=BaseMessage)

PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Classes whose `format` is their `str`; any other may have its own `__format__`."""
ALWAYS = frozenset({"additional_kwargs", "response_metadata"})
TRUSTED: Final = frozenset({AIMessage, HumanMessage, SystemMessage})
"""Classes whose fields are known here; any other class checks what it is given."""


class Compiled(Protocol):
    """A prompt of one template, as `text_of` needs it: `_compiled` is kept in its `__dict__`."""

    def _program(self) -> Program: ...
    def _merged(self, values: Mapping[str, Any]) -> dict[str, Any]: ...


def text_of(prompt: Compiled, values: Mapping[str, Any]) -> str:
    """Fill in a template, compiled anew if it was changed; names it does not have are ignored."""
    fields = prompt.__dict__
    held: Program | None = fields.get("_compiled")
    if (
        held is None
        or held.template is not fields["template"]
        or held.kind is not fields["template_format"]
    ):
        held = prompt._program()
    if fields["partial_variables"]:
        values = prompt._merged(values)
    if held.plain is None:
        return held.fill(values)
    written, pick = held.plain
    try:
        picked = pick(values)
    except KeyError:
        return held.fill(values)  # which says what is missing
    for value in picked:
        if type(value) not in PLAIN:
            return held.fill(values)
    return written % picked


def make_message(
    cls: type[M], content: str | list[str | dict[Any, Any]], additional_kwargs: Mapping[str, Any]
) -> M:
    """Make a message of a filled-in template."""
    if cls not in TRUSTED or additional_kwargs or type(content) is not str:
        return cls(content=content, additional_kwargs=dict(additional_kwargs))
    if not content.isascii() and has_surrogates(content):
        return cls(content=content)
    known, made = _fields_of(cls)
    fields = known.copy()
    fields["content"] = content
    fields["additional_kwargs"] = {}
    fields["response_metadata"] = {}
    for name, make in made:
        fields[name] = make()
    message = bare(cls)
    set_dict(message, fields)
    set_fields_set(message, {"content", "additional_kwargs"})
    set_extra(message, {})
    set_private(message, None)
    return message


@cache
def _fields_of(
    cls: type[BaseMessage],
) -> tuple[dict[str, Any], tuple[tuple[str, Callable[[], Any]], ...]]:
    """Return the fields in their order with their defaults, and which of them are made anew for each message."""
    made: Any = tuple(
        (name, field.default_factory)
        for name, field in cls.model_fields.items()
        if field.default_factory is not None and name not in ALWAYS
    )
    return {name: field.get_default() for name, field in cls.model_fields.items()}, made


def chat_value(messages: list[BaseMessage]) -> ChatPromptValue:
    """Make the prompt value of messages."""
    value = bare(ChatPromptValue)
    set_dict(value, {"messages": messages})
    set_fields_set(value, {"messages"})
    set_extra(value, None)
    set_private(value, None)
    return value


def string_value(text: str) -> StringPromptValue:
    """Make the prompt value of a text."""
    if type(text) is not str:
        return StringPromptValue(text=text)
    value = bare(StringPromptValue)
    set_dict(value, {"text": text, "type": "StringPromptValue"})
    set_fields_set(value, {"text"})
    set_extra(value, None)
    set_private(value, None)
    return value
