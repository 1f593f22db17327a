"""Create texts, messages and prompt values from templates, without validation.

All of foldline's prompts format through `text_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from foldline.prompt_values import ChatPromptValue, StringPromptValue
from foldline.prompts._compile import Program
from foldline.utils._trusted import bare, set_dict, set_extra, set_fields_set, set_private
from foldline.utils.json import has_surrogates

__all__ = ["chat_value", "make_message", "string_value", "text_of"]

M = TypeVar("M", bound=BaseMessage)

PLAIN_TYPES: Final = frozenset({str, int, float, bool, type(None)})
"""Types whose `format` is their `str`; others may have their own `__format__`."""
SET_FIELDS = frozenset({"additional_kwargs", "response_metadata"})
KNOWN_CLASSES: Final = frozenset({AIMessage, HumanMessage, SystemMessage})
"""Message classes that are created without validation."""


class Compiled(Protocol):
    """A prompt of one template; `_compiled` is stored in its `__dict__`."""

    def _program(self) -> Program: ...
    def _merge_values(self, values: Mapping[str, Any]) -> dict[str, Any]: ...


def text_of(prompt: Compiled, values: Mapping[str, Any]) -> str:
    """Return a filled template, compiled again if it was changed; unknown names are ignored."""
    fields = prompt.__dict__
    program: Program | None = fields.get("_compiled")
    if (
        program is None
        or program.template is not fields["template"]
        or program.kind is not fields["template_format"]
    ):
        program = prompt._program()
    if fields["partial_variables"]:
        values = prompt._merge_values(values)
    if program.plain is None:
        return program.fill(values)
    pattern, pick = program.plain
    try:
        picked = pick(values)
    except KeyError:
        return program.fill(values)  # raises the error that names the missing variable
    for value in picked:
        if type(value) not in PLAIN_TYPES:
            return program.fill(values)
    return pattern % picked


def make_message(
    cls: type[M], content: str | list[str | dict[Any, Any]], additional_kwargs: Mapping[str, Any]
) -> M:
    """Return the message of a filled template."""
    if cls not in KNOWN_CLASSES or additional_kwargs or type(content) is not str:
        return cls(content=content, additional_kwargs=dict(additional_kwargs))
    if not content.isascii() and has_surrogates(content):
        return cls(content=content)
    defaults, factories = _fields_of(cls)
    fields = defaults.copy()
    fields["content"] = content
    fields["additional_kwargs"] = {}
    fields["response_metadata"] = {}
    for name, make in factories:
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
    """Return the fields in order with their defaults, and the factories of mutable defaults."""
    factories: Any = tuple(
        (name, field.default_factory)
        for name, field in cls.model_fields.items()
        if field.default_factory is not None and name not in SET_FIELDS
    )
    return {name: field.get_default() for name, field in cls.model_fields.items()}, factories


def chat_value(messages: list[BaseMessage]) -> ChatPromptValue:
    """Return the prompt value of messages."""
    value = bare(ChatPromptValue)
    set_dict(value, {"messages": messages})
    set_fields_set(value, {"messages"})
    set_extra(value, None)
    set_private(value, None)
    return value


def string_value(text: str) -> StringPromptValue:
    """Return the prompt value of a text."""
    if type(text) is not str:
        return StringPromptValue(text=text)
    value = bare(StringPromptValue)
    set_dict(value, {"text": text, "type": "StringPromptValue"})
    set_fields_set(value, {"text"})
    set_extra(value, None)
    set_private(value, None)
    return value
