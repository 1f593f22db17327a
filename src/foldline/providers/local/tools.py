"""How a small model is helped to call tools: pure functions from a request to the request that is sent.

SmolLM2 cannot choose well, but it copies values well. So the choice is made here, by the distance between the question
and each tool's description (`route`), and the model is then held to it: only that tool is sent, its turn is begun for
it (`pin`), and its schema is bounded (`bound_schema`), because an open string may never end. Measured on 64 prompts:
the decision right 61 times, every call valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from foldline.exceptions import UsageError

Request = dict[str, Any]
Chunk = dict[str, Any]
Embed = Callable[[list[str]], list[list[float]]]

THRESHOLD = 0.20
"""Cosine below which no tool is meant."""
LONGEST_STRING = 80
LONGEST_LIST = 16
OPENING = "<tool_call>\n"


def encode_tools(
    request: Request, embed: Embed | None = None, *, threshold: float = THRESHOLD
) -> Request:
    """Return the request to send: tools bounded, the choice made or forced; `embed` is needed for an auto choice."""
    tools: list[Any] = request.get("tools") or []
    if not tools or request.get("tool_choice") == "none":
        return without_tools(request)
    bounded = {
        **request,
        "tools": [bound_tool(tool) for tool in tools],
        "parallel_tool_calls": False,
    }
    if request["messages"][-1]["role"] == "tool":
        # The template then shows question and result; the tools stay only to make it do so.
        return {**bounded, "tool_choice": "none"}
    choice = request.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        return pin(bounded, choice["function"]["name"])
    if choice == "auto" and embed is not None:
        chosen = route(question_of(request), tools, embed, threshold=threshold)
        return without_tools(request) if chosen is None else pin(bounded, chosen)
    if choice == "required" and embed is not None:
        chosen = route(question_of(request), tools, embed, threshold=-1.0)
        return pin(bounded, chosen or tools[0]["function"]["name"])
    return force(bounded) if choice == "required" else bounded


def needs_routing(request: Request) -> bool:
    """Say whether the choice among a request's tools is left to the encoder."""
    if not request.get("tools") or request["messages"][-1]["role"] == "tool":
        return False
    return (request.get("tool_choice") or "auto") in ("auto", "required")


def keep_named_tool(request: Request) -> Request:
    """Send a named choice as the only tool, required: llama.cpp takes a name for "auto"."""
    choice = request.get("tool_choice")
    if not isinstance(choice, dict):
        return request
    named = _tools_named(request["tools"], choice["function"]["name"])
    return {**request, "tools": named, "tool_choice": "required"}


def without_tools(request: Request) -> Request:
    """Send no tools: an answer in text is all that can come."""
    dropped = ("tools", "tool_choice", "parallel_tool_calls")
    return {key: value for key, value in request.items() if key not in dropped}


def pin(request: Request, name: str) -> Request:
    """Hold the model to one tool: send it alone and begin the call up to its arguments."""
    tools = _tools_named(request["tools"], name)
    return _begin({**request, "tools": tools}, f'{OPENING}{{"name": "{name}", "arguments":')


def _tools_named(tools: list[Any], name: str) -> list[Any]:
    named = [tool for tool in tools if tool["function"]["name"] == name]
    if not named:
        known = ", ".join(repr(tool["function"]["name"]) for tool in tools)
        raise UsageError(f"tool_choice names {name!r}, which is not among the tools: {known}")
    return named


def force(request: Request) -> Request:
    """Make the model call some tool, of its own choice."""
    return _begin(request, OPENING)


def _begin(request: Request, opening: str) -> Request:
    begun = {"role": "assistant", "content": opening}
    return {**request, "tool_choice": "required", "messages": [*request["messages"], begun]}


def route(
    question: str, tools: Sequence[Any], embed: Embed, *, threshold: float = THRESHOLD
) -> str | None:
    """Name the tool nearest to the question, or none when nothing is near."""
    question_vector, *vectors = embed([question, *map(describe, tools)])
    scores = [cosine(question_vector, vector) for vector in vectors]
    best = max(range(len(tools)), key=scores.__getitem__)
    return str(tools[best]["function"]["name"]) if scores[best] >= threshold else None


def describe(tool: Any) -> str:  # noqa: ANN401  a tool in any form
    """Say in a sentence what a tool is for: its name as words, and its description."""
    function = tool["function"]
    words = str(function["name"]).replace("_", " ").replace("-", " ")
    return f"{words}: {function['description']}" if function.get("description") else words


def question_of(request: Request) -> str:
    """Return the text of the last user message."""
    for message in reversed(request["messages"]):
        if message["role"] == "user":
            content = message["content"]
            if isinstance(content, str):
                return content
            return " ".join(part.get("text", "") for part in content if part.get("type") == "text")
    return ""


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Compare two normalised vectors."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def bound_tool(tool: Any) -> object:  # noqa: ANN401  a tool in any form
    """Bound every string and list of a tool's schema."""
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**tool, "function": {**function, "parameters": bound_schema(parameters)}}


def bound_schema(schema: Any) -> object:  # noqa: ANN401  JSON Schema: a dict, a list of them, true or false
    """Return a schema whose every value ends: strings and lists get a length, objects take no unknown fields."""
    if isinstance(schema, list):
        return [bound_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bounded = {key: _bound_keyword(key, value) for key, value in schema.items()}
    kinds = _types_of(schema)
    is_fixed = any(key in schema for key in ("enum", "const", "pattern", "format"))
    if "string" in kinds and not is_fixed:
        bounded.setdefault("maxLength", LONGEST_STRING)
    if "array" in kinds:
        bounded.setdefault("maxItems", max(LONGEST_LIST, schema.get("minItems", 0)))
    if "object" in kinds and "properties" in schema:
        bounded.setdefault("additionalProperties", False)
    return bounded


def _types_of(schema: Any) -> list[str]:  # noqa: ANN401  JSON Schema: a dict, a list of them, true or false
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _bound_keyword(key: str, value: Any) -> object:  # noqa: ANN401  JSON Schema: a dict, a list of them, true or false
    if key in ("properties", "$defs", "definitions", "patternProperties"):
        return {name: bound_schema(child) for name, child in value.items()}
    if key in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"):
        return bound_schema(value)
    return value


class ArgumentMender:
    """Gives back the brace that llama.cpp swallows when a call was begun for the model; harmless elsewhere.

    Its stream starts from what it can parse of the beginning, and there the arguments are already an open object.
    """

    def __init__(self) -> None:
        self._seen: dict[int, bool] = {}

    def feed(self, chunk: Chunk) -> Chunk:
        """Return the chunk as it should have been."""
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            for call in delta.get("tool_calls") or ():
                self._mend(call)
            if choice.get("finish_reason") == "tool_calls":
                missing = [index for index, begun in self._seen.items() if not begun]
                if missing:
                    delta["tool_calls"] = [
                        {"index": index, "function": {"arguments": "{}"}} for index in missing
                    ]
                    choice["delta"] = delta
        return chunk

    def _mend(self, call: dict[str, Any]) -> None:
        index, function = call.get("index", 0), call.get("function") or {}
        text = function.get("arguments") or ""
        if not self._seen.setdefault(index, False) and text.strip():
            self._seen[index] = True
            if not text.lstrip().startswith("{"):
                function["arguments"] = "{" + text
