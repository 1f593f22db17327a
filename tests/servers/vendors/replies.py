"""Requests and replies in a form that no wire dictates; and the forms of an answer on HTTP."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

TEXT = "It is done."
USAGE = (8, 3)
JSON_MODE = '{"setup": "word", "punchline": "word"}'
ASKS_FOR_JSON = re.compile("nothing other than JSON|one JSON object and nothing else")
PLAIN_VALUES = {"integer": 3, "number": 1.5, "boolean": True, "null": None}


@dataclass(frozen=True)
class Request:
    """A request, in a form that no wire dictates."""

    tools: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    choice: str | None = None
    """The name of the tool that must be called; "none" forbids calls."""
    schema: dict[str, Any] | None = None
    is_json: bool = False
    has_result: bool = False
    """Whether the last turn brings the result of a call."""
    word: str = "word"
    """The word that texts are filled with: a name in quotation marks in the request, where it is not plain ASCII."""


@dataclass(frozen=True)
class Reply:
    """A reply: a text, or a call of a tool."""

    text: str
    call: tuple[str, dict[str, Any]] | None = None

    @property
    def words(self) -> list[str]:
        return re.findall(r"\S+\s*", self.text)


def reply_to(request: Request) -> Reply:
    """Choose the answer."""
    if request.schema is not None:
        return Reply(json.dumps(fill(request.schema, request.word)))
    if request.is_json:
        return Reply(JSON_MODE)
    offered = dict(request.tools)
    forced = request.choice in offered
    if offered and request.choice != "none" and (forced or not request.has_result):
        name = str(request.choice) if forced else request.tools[0][0]
        arguments = fill(offered[name], request.word)
        return Reply("", (name, arguments if isinstance(arguments, dict) else {}))
    return Reply(TEXT)


def with_text(request: Request, body: dict[str, Any]) -> Request:
    """Return the request with what its text says: a name in quotation marks, and that JSON is asked for."""
    text = json.dumps(body, ensure_ascii=False)
    if ASKS_FOR_JSON.search(text) and request.schema is None and not request.tools:
        request = replace(request, is_json=True)
    match = re.search(r"'([^'\"]*[^\x00-\x7f][^'\"]*)'", text)
    return replace(request, word=match[1]) if match else request


def fill(
    schema: dict[str, Any], word: str = "word", definitions: dict[str, Any] | None = None
) -> Any:
    """Return the plainest value that fits a JSON Schema; every text in it is one word."""
    definitions = definitions or schema.get("$defs", {})
    if "$ref" in schema:
        return fill(definitions[schema["$ref"].rpartition("/")[2]], word, definitions)
    for key in ("enum", "const"):
        if key in schema:
            return schema[key][0] if key == "enum" else schema[key]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return fill(schema[key][0], word, definitions)
    kind = schema.get("type")
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties") or {}
        return {name: fill(part, word, definitions) for name, part in fields.items()}
    if kind == "array":
        return [fill(schema.get("items") or {"type": "string"}, word, definitions)]
    return PLAIN_VALUES.get(kind, word)


def as_json(value: Any) -> tuple[str, bytes]:
    """Return a body of JSON with its type."""
    return "application/json", json.dumps(value).encode()


def as_sse(values: list[dict[str, Any]], end: str = "") -> tuple[str, bytes]:
    """Return server-sent events without names."""
    return "text/event-stream", (
        "".join(f"data: {json.dumps(value)}\n\n" for value in values) + end
    ).encode()


def as_named_sse(events: Any) -> tuple[str, bytes]:
    """Return server-sent events with names, which are also in the data."""
    lines = (
        f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events
    )
    return "text/event-stream", "".join(lines).encode()
