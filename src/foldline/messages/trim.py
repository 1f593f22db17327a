"""Trim a conversation to a number of tokens: keep its first messages, or its last.

A counter is a function of messages (or of one message), `"approximate"`, or a model that can count.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from foldline.exceptions import UsageError
from foldline.messages._kinds import MessageTypes, is_message_type
from foldline.messages._runnable_function import runnable_function
from foldline.messages.base import BaseMessage, Content
from foldline.messages.convert import Messages, convert_to_messages
from foldline.messages.count import count_tokens_approximately
from foldline.messages.system import SystemMessage

__all__ = ["trim_messages"]

Counter: TypeAlias = Callable[[list[BaseMessage]], int]
Splitter: TypeAlias = Callable[[str], list[str]]
Side: TypeAlias = Literal["first", "last"]
Fits: TypeAlias = Callable[[Content], bool]

COUNTERS: dict[str, Counter] = {"approximate": count_tokens_approximately}


@runnable_function
def trim_messages(
    messages: Messages,
    *,
    max_tokens: int,
    token_counter: object,
    strategy: Side = "last",
    allow_partial: bool = False,
    end_on: MessageTypes | None = None,
    start_on: MessageTypes | None = None,
    include_system: bool = False,
    text_splitter: object = None,
) -> list[BaseMessage]:
    """Return as many of the first or last messages as fit in `max_tokens`.

    `allow_partial` keeps a part of the message at the edge; `start_on` and `end_on` are the types that the first and
    the last message may have; `include_system` always keeps a leading system message.
    """
    converted = convert_to_messages(messages)
    count, split = _counter(token_counter), _splitter(text_splitter)
    side: Side | None = strategy if allow_partial else None
    if strategy == "first":
        for name, option in (("start_on", start_on), ("include_system", include_system)):
            if option:
                raise UsageError(f"{name} is only for strategy='last'")
        return _keep_first(converted, max_tokens, count, split, side, end_on)
    if strategy != "last":
        raise UsageError(f"strategy is 'first' or 'last', not {strategy!r}")
    converted = _trim_end(converted, end_on)
    system = converted[:1] if include_system and _starts_with_system(converted) else []
    if system:
        max_tokens = max(0, max_tokens - count(system))
    newest_first = converted[len(system) :][::-1]

    def count_in_order(backwards: list[BaseMessage]) -> int:
        return count(backwards[::-1])

    trimmed = _keep_first(newest_first, max_tokens, count_in_order, split, side, start_on)
    return [*system, *reversed(trimmed)]


def _keep_first(
    messages: list[BaseMessage],
    max_tokens: int,
    count: Counter,
    split: Splitter,
    side: Side | None,
    end_on: MessageTypes | None,
) -> list[BaseMessage]:
    count_that_fits = _largest(len(messages), lambda number: count(messages[:number]) <= max_tokens)
    first_messages = messages[:count_that_fits]
    if side and count_that_fits < len(messages):
        edge = messages[count_that_fits]

        def fits(content: Content) -> bool:
            return (
                count([*first_messages, edge.model_copy(update={"content": content})]) <= max_tokens
            )

        part = _part_of(edge.content, side, split, fits)
        if part is not None:
            first_messages = [*first_messages, edge.model_copy(update={"content": part})]
    return _trim_end(first_messages, end_on)


def _part_of(content: Content, side: Side, split: Splitter, fits: Fits) -> Content | None:
    """Return the largest part of a content that fits: complete blocks, else pieces of its text."""
    if isinstance(content, list):
        for length in range(len(content) - 1, 0, -1):
            blocks = content[:length] if side == "first" else content[-length:]
            if fits(blocks):
                return blocks
    text = _text_at(content, side)
    pieces = split(text) if text else []

    def join_pieces(number: int) -> str:
        return "".join(pieces[:number] if side == "first" else pieces[len(pieces) - number :])

    number = _largest(len(pieces), lambda number: number == 0 or fits(join_pieces(number)))
    return join_pieces(number) if number else None


def _text_at(content: Content, side: Side) -> str:
    if isinstance(content, str):
        return content
    for item in content if side == "first" else reversed(content):
        if isinstance(item, str):
            return item
        if item.get("type") == "text":
            return str(item.get("text") or "")
    return ""


def _largest(limit: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number up to `limit` for which `holds` is true, by binary search."""
    if holds(limit):
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _trim_end(messages: list[BaseMessage], end_on: MessageTypes | None) -> list[BaseMessage]:
    end = len(messages)
    while end_on and end and not is_message_type(messages[end - 1], end_on):
        end -= 1
    return messages[:end]


def _starts_with_system(messages: Sequence[BaseMessage]) -> bool:
    return bool(messages) and isinstance(messages[0], SystemMessage)


def _counter(counter: object) -> Counter:
    if isinstance(counter, str):
        if counter not in COUNTERS:
            names = ", ".join(map(repr, COUNTERS))
            raise UsageError(f"Invalid token_counter shortcut {counter!r}; named counters: {names}")
        return COUNTERS[counter]
    model = getattr(counter, "get_num_tokens_from_messages", None)
    if callable(model):
        return typing.cast("Counter", model)
    if not callable(counter):
        raise UsageError(
            "'token_counter' expected to be a model that implements 'get_num_tokens_from_messages()' or a function."
            f" Received object of type {type(counter)}. 'approximate' names one of ours"
        )
    if _counts_one(counter):
        return lambda messages: sum(counter(message) for message in messages)
    return typing.cast("Counter", counter)


def _counts_one(counter: Callable[..., int]) -> bool:
    """Whether a function counts a single message: its first parameter is annotated as a message."""
    try:
        parameters = list(inspect.signature(counter).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return False
    hint = parameters[0].annotation if parameters else None
    if isinstance(hint, str):
        return hint.rpartition(".")[2] == "BaseMessage"
    return isinstance(hint, type) and issubclass(hint, BaseMessage)


def _splitter(splitter: object) -> Splitter:
    if splitter is None:
        return lambda text: text.splitlines(keepends=True)
    split_text = getattr(splitter, "split_text", None)
    if callable(split_text):
        return typing.cast("Splitter", split_text)
    if not callable(splitter):
        raise UsageError(
            f"text_splitter is a function or has split_text, {type(splitter).__name__} is neither"
        )
    return typing.cast("Splitter", splitter)
