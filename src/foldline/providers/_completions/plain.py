"""The commonest answer of this wire, told at once: one choice, which is one text and came whole.

It needs none of what a stream needs (a decoder per choice, a writer, a registry of blocks), and most calls get nothing
else. Whatever looks the least unusual is left to the decoder: it is the rule, this is the short way to the same events
(tests/providers/openai/test_plain.py holds them together).
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from foldline.protocol.at_once import text_at_once
from foldline.protocol.counts import counts_of
from foldline.protocol.events import Event, MessageFinish, MetadataScalar
from foldline.protocol.reasons import normalize_finish_reason
from foldline.providers._completions.wire import (
    COUNTS,
    HEAD,
    REASONS,
    Choice,
    decode_usage,
    is_plain,
)
from foldline.utils.json import has_surrogates, to_jsonable

__all__ = ["plain_answer"]

Json = Any

CHOICE: Final = frozenset({"index", "message", "finish_reason", "logprobs"})
"""Fields of a choice that are looked at; any other must say nothing."""
NUMBERS: Final = frozenset({int, bool})


def plain_answer(data: Json, provider: str, model: str | None) -> list[Event] | None:
    """Give the events of an answer that is one text; None for any other."""
    if type(data) is not dict or data.get("error") or _says_more(data.get("x_groq")):
        return None
    choices, id, model = data.get("choices"), data.get("id"), data.get("model") or model
    if type(choices) is not list or len(choices) != 1 or not (_is_name(id) and _is_name(model)):
        return None
    text = _text_of(choices[0])
    finish = None if text is None else _finish_of(data, choices[0].get("finish_reason"))
    if text is None or finish is None:
        return None
    about: dict[str, MetadataScalar] = {"provider": provider, "model": model}
    return text_at_once(text, id, about, finish)


def _text_of(choice: Choice) -> str | None:
    if type(choice) is not dict:
        return None
    if not choice.keys() <= CHOICE and _has_rest(choice):
        return None
    message = choice.get("message")
    if type(message) is not dict or choice.get("index") or choice.get("logprobs"):
        return None
    text = message.get("content")
    if type(text) is not str or not text or has_surrogates(text) or not is_plain(message):
        return None
    return text


def _finish_of(data: dict[str, Json], reason: Json) -> MessageFinish | None:
    """Give the end of the message: usage, reason, and what else the answer says of itself."""
    usage = data.get("usage")
    if not _is_name(reason) or (usage and type(usage) is not dict):
        return None
    metadata: dict[str, Json] = {}
    for name, value in data.items():
        if name not in HEAD and value is not None:
            if not name.isascii():
                return None
            is_leaf = type(value) in NUMBERS or _is_name(value)
            metadata[name] = value if is_leaf else to_jsonable(value)
    metadata["id"] = data["id"]
    finish: MessageFinish = {"event": "message-finish"}
    if usage:
        counts: Json = counts_of(decode_usage(usage))
        if counts:
            finish["usage"] = counts
        are_totals = len(counts) == len(COUNTS) and usage.keys() == COUNTS
        metadata["token_usage"] = usage if are_totals else to_jsonable(usage)
    metadata["finish_reason"] = reason
    if (word := normalize_finish_reason(REASONS.get(reason, reason))) is not None:
        finish["finish_reason"] = word
    finish["metadata"] = metadata
    return finish


def _has_rest(choice: Choice) -> bool:
    return any(value is not None for name, value in choice.items() if name not in CHOICE)


def _says_more(groq: Json) -> bool:
    """See usage or an error that Groq sends beside an answer."""
    return type(groq) is dict and not groq.keys().isdisjoint({"usage", "error"})


def _is_name(value: Json) -> TypeGuard[str]:
    """Say whether a value is text that needs no mending."""
    return type(value) is str and value != "" and value.isascii()
