"""`show`: a view of plain values that cannot show themselves, such as a list of messages or a dict of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from foldline._display.messages import (
    conversation_html,
    document_html,
    message_html,
    tool_call_html,
    usage_html,
)
from foldline._display.parts import Value, code, describe_value
from foldline._display.runs import runs_html

__all__ = ["NotebookView", "html_of"]


class NotebookView:
    """A value with a view for notebooks; elsewhere its `repr` is that of the value."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)

    def _repr_html_(self) -> str:
        html = html_of(self.value)
        return code(describe_value(self.value)) if html is None else html


def html_of(value: Value) -> str | None:
    """Return the view of a value; None where there is none."""
    own_view = getattr(value, "_repr_html_", None)
    if own_view is not None and not isinstance(value, type):
        html: str | None = own_view()
        return html
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple) and value:
        return _list(value)
    return None


def _mapping(value: Mapping[str, Value]) -> str | None:
    messages = value.get("messages")
    if isinstance(messages, list | tuple) and messages and _all_have(messages, "content_blocks"):
        return conversation_html(messages)
    if "name" in value and "args" in value:
        return tool_call_html(value)
    counts = [value, *(part for part in value.values() if isinstance(part, Mapping))]
    if any("total_tokens" in part for part in counts):
        return usage_html(value)
    return None


def _list(values: Sequence[Value]) -> str | None:
    for attribute, view in LISTS.items():
        if _all_have(values, attribute):
            return view(values)
    if all(isinstance(value, Mapping) and "name" in value and "args" in value for value in values):
        return "".join(map(tool_call_html, values))
    return None


def _all_have(values: Sequence[Value], attribute: str) -> bool:
    return all(hasattr(value, attribute) and not isinstance(value, type) for value in values)


LISTS: Final[dict[str, Callable[[Sequence[Value]], str]]] = {
    "content_blocks": conversation_html,
    "page_content": lambda values: "".join(map(document_html, values)),
    "child_runs": runs_html,
    "message": lambda values: "".join(message_html(value.message) for value in values),
}
"""Attribute of the items of a list -> the view of the list."""
