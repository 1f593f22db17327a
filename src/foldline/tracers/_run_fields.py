"""What lists, charts and searches show of a run, found in what went in and came out: model, tokens, cost, first words.

Values are read as they are (messages) and as they were written (`{"lc": 1, "id": [...], "kwargs": {...}}`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from foldline.prices.cost import cost_of, service_of
from foldline.prices.table import find_prices
from foldline.tracers.schemas import usage_of
from foldline.utils._surrogates import mend_surrogates

__all__ = ["describe_end", "describe_run", "describe_start", "first_words", "search_text"]

LONGEST_WORDS = 240
"""Characters of a question or an answer that a list shows."""
DEEPEST_TEXT = 6
"""How deep in a value the first words are looked for."""
FEW = 8
"""How many items of a list or a dict are looked into for them."""
LONGEST_TEXT = 200_000
"""Characters of one run that the full-text index sees."""
QUESTION_KEYS = ("question", "input", "query", "prompt", "topic", "text", "user_input", "messages")
ANSWER_KEYS = ("answer", "output", "result", "text", "messages", "structured_response")
PLAIN = (str, int, float, bool)
SKIPPED_KEYS = frozenset(
    {
        "lc", "type", "id", "response_metadata", "usage_metadata", "generation_info", "llm_output", "run",
        "tool_call_id", "base64", "signature", "index", "usage", "role",
    }
)  # fmt: skip
"""Keys of dumps and messages whose values are not searched."""

Facts = dict[str, Any]


def describe_run(run_type: str, inputs: object, outputs: object, extra: object) -> Facts:
    """Return all facts of a run, as columns."""
    extra = extra if isinstance(extra, Mapping) else {}
    facts = describe_start(run_type, inputs, extra)
    return facts | describe_end(run_type, outputs, extra, facts)


def describe_start(
    run_type: str, inputs: object, extra: Mapping[str, Any], config: Mapping[str, Any] | None = None
) -> Facts:
    """Return what is known when a run begins; `config` is what is recorded of `configurable`."""
    metadata = extra.get("metadata")
    facts: Facts = {}
    if config and config.get("thread_id") is not None:
        facts["thread_id"] = str(config["thread_id"])[:200]
    if metadata:
        for name, keys in NAMES.items():
            for key in keys:
                if (value := metadata.get(key)) is not None:
                    if key != "conversation_id" or name not in facts:
                        facts[name] = str(value)[:200]
                    break
    if run_type == "llm":
        parameters = extra.get("invocation_params") or {}
        metadata = metadata or {}
        facts["provider"] = metadata.get("ls_provider") or parameters.get("_type")
        model = metadata.get("ls_model_name") or parameters.get("model")
        facts["model"] = None if model is None else str(model)[:200]
    if words := first_words(inputs, QUESTION_KEYS, from_end=True):
        facts["question"] = words
    return facts


NAMES = {
    "session_id": ("session_id",),
    "thread_id": ("thread_id", "conversation_id"),
    "user_id": ("user_id", "langgraph_auth_user_id"),
}
"""Column -> the names under which programs put it into a run's metadata; `configurable` may name the thread too."""


def describe_end(run_type: str, outputs: object, extra: Mapping[str, Any], known: Facts) -> Facts:
    """Return what is known when a run has ended."""
    facts: Facts = {}
    if words := first_words(outputs, ANSWER_KEYS):
        facts["answer"] = words
    if run_type != "llm" or not isinstance(outputs, dict):
        return facts
    metadata = _response_metadata(outputs)
    provider = metadata.get("model_provider") or known.get("provider")
    model = metadata.get("model_name") or metadata.get("model") or known.get("model")
    if provider:
        facts["provider"] = str(provider)[:200]
    if model:
        facts["model"] = str(model)[:200]
    usage = usage_of(outputs)
    if usage:
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            count = usage.get(name)
            facts[name] = count if isinstance(count, int) else None
        facts["usage"] = json.dumps(usage, default=str)
        prices = find_prices(facts.get("provider"), facts.get("model"))
        service = service_of(metadata.get("service_tier"))
        facts["cost"] = cost_of(usage, prices, service=service)
    return facts


def _response_metadata(outputs: dict[str, Any]) -> Mapping[str, Any]:
    for generations in outputs.get("generations") or []:
        for generation in generations:
            message = generation.get("message") if isinstance(generation, dict) else None
            metadata = field_of(message, "response_metadata")
            if isinstance(metadata, Mapping):
                return metadata
    return {}


def field_of(message: object, name: str) -> Any:  # noqa: ANN401  the type depends on the field
    """Return a field of a message, as it is or as it was written; None where it has none."""
    if isinstance(message, dict):
        kwargs = message.get("kwargs")
        return (kwargs if isinstance(kwargs, dict) else message).get(name)
    return getattr(message, name, None)


# -- first words


def first_words(value: object, keys: tuple[str, ...], *, from_end: bool = False) -> str | None:
    """Return the first words of a question or an answer, in one line; None where there are none."""
    text = _TextSearch(keys, from_end=from_end).find(value, 0)
    if not text:
        return None
    line = " ".join(mend_surrogates(text[: LONGEST_WORDS * 4]).split())
    return line if len(line) <= LONGEST_WORDS else f"{line[: LONGEST_WORDS - 1]}…"


class _TextSearch:
    """The search for the first text in what went into a run, or came out of it; one method per shape of value."""

    def __init__(self, keys: tuple[str, ...], *, from_end: bool) -> None:
        self._keys = keys
        self._is_backward = from_end or "answer" in keys

    def find(self, value: object, depth: int) -> str | None:
        """Return the text; None where there is none, or none that is near enough to show."""
        if isinstance(value, str):
            return value
        if value is None or depth > DEEPEST_TEXT:
            return None
        if isinstance(value, (int, float)):
            return str(value) if depth else None
        if isinstance(value, dict):
            return self._in_dict(value, depth)
        if isinstance(value, list | tuple):
            items = reversed(value[-FEW:]) if self._is_backward else value[:FEW]
            return self._first(items, depth)
        return self._in_object(value, depth)

    def _first(self, values: Iterable[object], depth: int) -> str | None:
        texts = (self.find(value, depth + 1) for value in values)
        return next(filter(None, texts), None)

    def _in_dict(self, value: dict[Any, Any], depth: int) -> str | None:
        if "generations" in value:
            return _text_of_generations(value)
        kwargs = value.get("kwargs")
        if "lc" in value and isinstance(kwargs, dict):  # as `dumpd` writes objects
            return _text_of_message(kwargs) if "content" in kwargs else self.find(kwargs, depth + 1)
        text = value.get("text")
        if isinstance(text, str) and value.get("type") == "text":
            return str(text)
        if "content" in value and "role" in value:
            return _text_of_message(value)
        named = (value[key] for key in self._keys if key in value)
        return self._first(named, depth) or self._first(list(value.values())[:FEW], depth)

    def _in_object(self, value: object, depth: int) -> str | None:
        """Search a message, a prompt or a document."""
        # Read from `__dict__`, because Pydantic's `getattr` of a missing field is slow.
        fields: Any = value.__dict__ if isinstance(value, BaseModel) else {}
        if "content" not in fields and "messages" not in fields:
            fields = _Attributes(value)
        if fields.get("content") is not None:
            return _text_of_message(fields)
        for name in ("messages", "text", "page_content"):
            if (inner := fields.get(name)) is not None and not callable(inner):
                return self.find(inner, depth + 1)
        return None


class _Attributes:
    """The attributes of any object, read like a dict."""

    def __init__(self, value: object) -> None:
        self._value = value

    def get(self, name: str) -> object:
        return getattr(self._value, name, None)


def _text_of_generations(outputs: dict[str, Any]) -> str | None:
    for generations in outputs.get("generations") or []:
        for generation in generations:
            message = generation.get("message")
            if message is None:
                return str(generation.get("text") or "")
            fields = {name: field_of(message, name) for name in ("content", "tool_calls")}
            return _text_of_message(fields)
    return None


def _text_of_message(fields: Mapping[str, Any]) -> str | None:
    content = fields.get("content")
    if isinstance(content, str) and content:
        return content
    if isinstance(content, list):
        texts = [
            block if isinstance(block, str) else block.get("text")
            for block in content
            if isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")
        ]
        if text := " ".join(text for text in texts if isinstance(text, str)):
            return text
    calls = fields.get("tool_calls") or []
    names = [
        f"{call.get('name')}({_short(call.get('args'))})"
        for call in calls
        if isinstance(call, dict)
    ]
    return f"→ {', '.join(names)}" if names else None


def _short(args: object) -> str:
    try:
        return json.dumps(args, ensure_ascii=False, default=str)[:80]
    except (TypeError, ValueError):
        return "…"


# -- what a search finds


def search_text(name: str, inputs: object, outputs: object, error: str | None) -> str:
    """Return the words of a run: its name, all texts in what went in and came out, and its error."""
    texts = [name]
    length = _add_texts(inputs, texts, LONGEST_TEXT // 2, 0)
    _add_texts(outputs, texts, LONGEST_TEXT - length, 0)
    if error:
        texts.append(error.split("\n", 1)[0][:2_000])
    return "\n".join(texts)


def _add_texts(value: object, texts: list[str], limit: int, depth: int) -> int:
    """Add the texts in a JSON value until they are longer than the limit; return the length of those added."""
    if isinstance(value, str):
        text = value[:LONGEST_TEXT]
        texts.append(text)
        return len(text)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        texts.append(str(value))
        return len(texts[-1])
    if depth > 12 or not isinstance(value, (dict, list)):
        return 0
    items: Iterable[object] = value
    if isinstance(value, dict):
        # The text of a generation is the text of its message.
        skipped = "text" if "message" in value and "generation_info" in value else None
        items = [item for key, item in value.items() if key not in SKIPPED_KEYS and key != skipped]
    length = 0
    for item in items:
        if item is not None:
            length += _add_texts(item, texts, limit - length, depth + 1)
            if length > limit:
                break
    return length
