"""Messages as values of a text template: a message is its text, a list of messages its transcript, never its repr.

`model | ChatPromptTemplate.from_template("Shorten: {text}")` puts an answer into a prompt; the repr would put its
metadata there too. `{text!r}` still asks for the repr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from foldline.messages import BaseMessage, get_buffer_string
from foldline.prompt_values import PromptValue

__all__ = ["MessageText", "Transcript", "with_texts"]

PLAIN_TYPES: Final = frozenset({str, int, float, bool, type(None)})
MAX_DEPTH: Final = 8
"""How deep messages are looked for in lists and dicts."""


class MessageText(str):
    """The text of a message or prompt value; its repr is that of the original."""

    __slots__ = ("_source",)
    _source: object

    def __new__(cls, text: str, source: object) -> MessageText:
        """Return a text that remembers its source."""
        value = super().__new__(cls, text)
        value._source = source
        return value

    def __repr__(self) -> str:
        return repr(self._source)


class Transcript(list[Any]):
    """A list of messages for a loop of a template; as text it is the conversation."""

    def __init__(self, messages: list[BaseMessage]) -> None:
        super().__init__(_text(message) for message in messages)
        self._messages = messages

    def __str__(self) -> str:
        return get_buffer_string(self._messages)

    def __repr__(self) -> str:
        return repr(self._messages)


def with_texts(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a template with texts in place of messages; the same object if there are none."""
    changed = {
        name: text
        for name, value in values.items()
        if type(value) not in PLAIN_TYPES and (text := _converted(value, MAX_DEPTH)) is not value
    }
    return {**values, **changed} if changed else values


def _text(value: BaseMessage | PromptValue) -> MessageText:
    text = value.text if isinstance(value, BaseMessage) else value.to_string()
    return MessageText(str(text), value)


def _converted(value: Any, depth: int) -> Any:  # noqa: ANN401  any value of a template
    if isinstance(value, BaseMessage | PromptValue):
        return _text(value)
    if not depth:
        return value
    if (
        isinstance(value, Sequence)
        and value
        and all(isinstance(item, BaseMessage) for item in value)
    ):
        return Transcript(list(value))
    if type(value) in (list, tuple):
        items = [_nested(item, depth - 1) for item in value]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else type(value)(items)
    if type(value) is dict:
        entries = {key: _nested(item, depth - 1) for key, item in value.items()}
        return value if all(entries[key] is value[key] for key in value) else entries
    return value


def _nested(value: Any, depth: int) -> Any:  # noqa: ANN401  any value of a template
    """Convert an item of a container, whose own repr is what a template shows of it."""
    if type(value) in PLAIN_TYPES:
        return value
    converted = _converted(value, depth)
    return str(converted) if isinstance(converted, MessageText) else converted
