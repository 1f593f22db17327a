"""Prompt values and messages made without validation, from text that templates gave: the quick way out of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from weft.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from weft.prompt_values import ChatPromptValue, StringPromptValue
from weft.protocol.blocks import Json
from weft.utils.json import has_surrogates

__all__ = ["chat_value", "make_message", "string_value"]

M = TypeVar("M", bound=BaseMessage)

# The slots of a Pydantic model, set directly, as `weft.outputs` does.
_slots: Final = vars(BaseModel)
_set_dict: Final = _slots["__dict__"].__set__
_set_fields_set: Final = _slots["__pydantic_fields_set__"].__set__
_set_extra: Final = _slots["__pydantic_extra__"].__set__
_set_private: Final = _slots["__pydantic_private__"].__set__

ALWAYS = frozenset({"additional_kwargs", "response_metadata"})
TRUSTED: Final = frozenset({AIMessage, HumanMessage, SystemMessage})
"""Classes whose fields are known here; any other class checks what it is given."""


def make_message(cls: type[M], content: Json, additional_kwargs: Mapping[str, Json]) -> M:
    """Make a message of a filled-in template."""
    if cls not in TRUSTED or additional_kwargs or type(content) is not str:
        return cls(content=content, additional_kwargs=dict(additional_kwargs))
    if has_surrogates(content):
        return cls(content=content)
    known, made = _fields_of(cls)
    fields = known.copy()
    fields["content"] = content
    fields["additional_kwargs"] = {}
    fields["response_metadata"] = {}
    for name, make in made:
        fields[name] = make()
    message = cls.__new__(cls)
    _set_dict(message, fields)
    _set_fields_set(message, {"content", "additional_kwargs"})
    _set_extra(message, {})
    _set_private(message, None)
    return message


@cache
def _fields_of(
    cls: type[BaseMessage],
) -> tuple[dict[str, Any], tuple[tuple[str, Callable[[], Any]], ...]]:
    """Give the fields in their order with their defaults, and which of them are made anew for each message."""
    made: Any = tuple(
        (name, field.default_factory)
        for name, field in cls.model_fields.items()
        if field.default_factory is not None and name not in ALWAYS
    )
    return {name: field.get_default() for name, field in cls.model_fields.items()}, made


def chat_value(messages: list[BaseMessage]) -> ChatPromptValue:
    """Make the prompt value of messages."""
    value = ChatPromptValue.__new__(ChatPromptValue)
    _set_dict(value, {"messages": messages})
    _set_fields_set(value, {"messages"})
    _set_extra(value, None)
    _set_private(value, None)
    return value


def string_value(text: str) -> StringPromptValue:
    """Make the prompt value of a text."""
    if type(text) is not str:
        return StringPromptValue(text=text)
    value = StringPromptValue.__new__(StringPromptValue)
    _set_dict(value, {"text": text, "type": "StringPromptValue"})
    _set_fields_set(value, {"text"})
    _set_extra(value, None)
    _set_private(value, None)
    return value
