"""Help a small model to call tools: pure functions from a request to the request that is sent.

SmolLM2 chooses tools badly but copies values well. So the tool is chosen here, by the similarity of the question to
each tool's description (`route`). Then only that tool is sent, the call is prefilled (`pin`), and its schema is bounded
(`bound_schema`), because an unbounded string may never end. Measured on 64 prompts: the choice was right 61 times, and
every call was valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foldline.exceptions import UsageError

Request = dict[str, Any]
Chunk = dict[str, Any]
Embed = Callable[[list[str]], list[list[float]]]

THRESHOLD = 0.20
"""The minimum cosine similarity for a tool to be chosen."""
MAX_STRING_LENGTH = 80
MAX_LIST_LENGTH = 16
OPENING = "<tool_call>\n"


def encode_tools(
    request: Request, embed: Embed | None = None, *, threshold: float = THRESHOLD
) -> Request:
    """Return the request to send, with bounded tools and the choice made; "auto" and "required" need `embed`."""
    tools: list[Any] = request.get("tools") or []
    if not tools or request.get("tool_choice") == "none":
        return without_tools(request)
    bounded = {
        **request,
        "tools": [bound_tool(tool) for tool in tools],
        "parallel_tool_calls": False,
    }
    if request["messages"][-1]["role"] == "tool":
        # The template renders question and result only if there are tools.
        return {**bounded, "tool_choice": "none"}
    choice = request.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        return pin(bounded, choice["function"]["name"])
    if choice == "auto" and embed is not None:
        tool_name = route(question_of(request), tools, embed, threshold=threshold)
        return without_tools(request) if tool_name is None else pin(bounded, tool_name)
    if choice == "required" and embed is not None:
        tool_name = route(question_of(request), tools, embed, threshold=-1.0)
        return pin(bounded, tool_name or tools[0]["function"]["name"])
    return force(bounded) if choice == "required" else bounded


def needs_routing(request: Request) -> bool:
    """Whether the encoder must choose among a request's tools."""
    if not request.get("tools") or request["messages"][-1]["role"] == "tool":
        return False
    return (request.get("tool_choice") or "auto") in ("auto", "required")


def keep_named_tool(request: Request) -> Request:
    """Return the request with a named tool as the only one, required: llama.cpp treats a name as "auto"."""
    choice = request.get("tool_choice")
    if not isinstance(choice, dict):
        return request
    tools = _tools_named(request["tools"], choice["function"]["name"])
    return {**request, "tools": tools, "tool_choice": "required"}


def without_tools(request: Request) -> Request:
    """Return the request without tools: the answer will be text."""
    tool_options = ("tools", "tool_choice", "parallel_tool_calls")
    return {key: value for key, value in request.items() if key not in tool_options}


def pin(request: Request, name: str) -> Request:
    """Return the request with one tool only, and its call prefilled up to the arguments."""
    tools = _tools_named(request["tools"], name)
    return _prefill({**request, "tools": tools}, f'{OPENING}{{"name": "{name}", "arguments":')


def _tools_named(tools: list[Any], name: str) -> list[Any]:
    matches = [tool for tool in tools if tool["function"]["name"] == name]
    if not matches:
        names = ", ".join(repr(tool["function"]["name"]) for tool in tools)
        raise UsageError(f"tool_choice names {name!r}, which is not among the tools: {names}")
    return matches


def force(request: Request) -> Request:
    """Return the request with the beginning of a call prefilled, so that the model calls some tool."""
    return _prefill(request, OPENING)


def _prefill(request: Request, opening: str) -> Request:
    prefix = {"role": "assistant", "content": opening}
    return {**request, "tool_choice": "required", "messages": [*request["messages"], prefix]}


def route(
    question: str, tools: Sequence[Any], embed: Embed, *, threshold: float = THRESHOLD
) -> str | None:
    """Return the name of the tool most similar to the question, or None if none is similar enough."""
    question_vector, *vectors = embed([question, *map(describe, tools)])
    scores = [cosine(question_vector, vector) for vector in vectors]
    best = max(range(len(tools)), key=scores.__getitem__)
    return str(tools[best]["function"]["name"]) if scores[best] >= threshold else None


def describe(tool: Mapping[str, Any]) -> str:
    """Return a tool's name as words, and its description."""
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
    """Return the cosine similarity of two normalised vectors."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def bound_tool(tool: Mapping[str, Any]) -> object:
    """Return a tool with a length limit on every string and list of its schema."""
    function = tool["function"]
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**tool, "function": {**function, "parameters": bound_schema(parameters)}}


def bound_schema(schema: object) -> object:
    """Return a schema with finite values: strings and lists have a maximum length, objects no unknown fields."""
    if isinstance(schema, list):
        return [bound_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bounded = {key: _bound_keyword(key, value) for key, value in schema.items()}
    kinds = _types_of(schema)
    is_fixed = any(key in schema for key in ("enum", "const", "pattern", "format"))
    if "string" in kinds and not is_fixed:
        bounded.setdefault("maxLength", MAX_STRING_LENGTH)
    if "array" in kinds:
        bounded.setdefault("maxItems", max(MAX_LIST_LENGTH, schema.get("minItems", 0)))
    if "object" in kinds and "properties" in schema:
        bounded.setdefault("additionalProperties", False)
    return bounded


def _types_of(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _bound_keyword(key: str, value: Any) -> object:  # noqa: ANN401  JSON Schema: a dict, a list of them, true or false
    if key in ("properties", "$defs", "definitions", "patternProperties"):
        return {name: bound_schema(child) for name, child in value.items()}
    if key in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"):
        return bound_schema(value)
    return value


class ArgumentFixer:
    """Restores the opening brace of arguments, which llama.cpp drops from a prefilled call; otherwise does nothing.

    llama.cpp's stream starts after the prefilled text, where it considers the object of arguments already open.
    """

    def __init__(self) -> None:
        self._has_arguments: dict[int, bool] = {}

    def feed(self, chunk: Chunk) -> Chunk:
        """Return the corrected chunk."""
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            for call in delta.get("tool_calls") or ():
                self._fix(call)
            if choice.get("finish_reason") == "tool_calls":
                missing = [index for index, has_text in self._has_arguments.items() if not has_text]
                if missing:
                    delta["tool_calls"] = [
                        {"index": index, "function": {"arguments": "{}"}} for index in missing
                    ]
                    choice["delta"] = delta
        return chunk

    def _fix(self, call: dict[str, Any]) -> None:
        index, function = call.get("index", 0), call.get("function") or {}
        text = function.get("arguments") or ""
        if not self._has_arguments.setdefault(index, False) and text.strip():
            self._has_arguments[index] = True
            if not text.lstrip().startswith("{"):
                function["arguments"] = "{" + text
