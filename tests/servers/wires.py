"""One server on loopback that answers on every vendor's wire, always the same: the first tool offered is called, a
schema is filled, and anything else gets one sentence.

    python -m tests.servers.wires 8123
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.event_stream import chunk as aws_chunk
from tests.servers.event_stream import event as aws_event

AWS_STREAM = "application/vnd.amazon.eventstream"
TEXT = "It is done."
USAGE = (8, 3)
JSON_MODE = '{"setup": "word", "punchline": "word"}'
ASKS_FOR_JSON = re.compile("nothing other than JSON|one JSON object and nothing else")
PLAIN_VALUES = {"integer": 3, "number": 1.5, "boolean": True, "null": None}


@dataclass(frozen=True)
class Request:
    """What a wire asked for, without its wording."""

    tools: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    choice: str | None = None
    """The name of the tool that must be called; "none" forbids calls."""
    schema: dict[str, Any] | None = None
    is_json: bool = False
    has_result: bool = False
    """Whether the last turn brings the result of a call."""
    word: str = "word"
    """What texts are filled with: a name in quotation marks that the request has, where it is no plain ASCII."""


@dataclass(frozen=True)
class Reply:
    """What is said: a text, or a call of a tool."""

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
    found = re.search(r"'([^'\"]*[^\x00-\x7f][^'\"]*)'", text)
    return replace(request, word=found[1]) if found else request


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


# -- chat completions


def read_completions(body: dict[str, Any]) -> Request:
    """Read a request for chat completions."""
    form = body.get("response_format") or {}
    choice = body.get("tool_choice")
    return Request(
        [
            (one["function"]["name"], one["function"].get("parameters") or {})
            for one in body.get("tools") or []
        ],
        choice["function"]["name"] if isinstance(choice, dict) else choice,
        form.get("json_schema", {}).get("schema"),
        form.get("type") == "json_object",
        body["messages"][-1]["role"] == "tool",
    )


def completions(body: dict[str, Any], *, tells_usage: bool = False) -> tuple[str, bytes]:
    """Answer chat completions; some hosts tell the usage of a stream without being asked."""
    reply = reply_to(with_text(read_completions(body), body))
    head = {"id": "chatcmpl-1", "created": 1, "model": body["model"], "system_fingerprint": "fp"}
    usage = dict(
        zip(("prompt_tokens", "completion_tokens", "total_tokens"), (*USAGE, 11), strict=True)
    )
    calls = []
    if reply.call is not None:
        name, arguments = reply.call
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": "call_1", "type": "function", "function": function}]
    finish = "tool_calls" if calls else "stop"
    if not body.get("stream"):
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text or None,
            "refusal": None,
        }
        message |= {"tool_calls": calls} if calls else {}
        choices = [
            {"index": place, "message": message, "finish_reason": finish, "logprobs": None}
            for place in range(body.get("n") or 1)
        ]
        return as_json({**head, "object": "chat.completion", "choices": choices, "usage": usage})
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"tool_calls": [{"index": 0, **call}]}, None) for call in calls]
    deltas += [({"content": word}, None) for word in reply.words]
    deltas.append(({}, finish))
    chunks = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas
    ]
    if tells_usage or (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({"choices": [], "usage": usage})
    lines = [{**head, "object": "chat.completion.chunk", **chunk} for chunk in chunks]
    return as_sse(lines, end="data: [DONE]\n\n")


def text_completions(body: dict[str, Any]) -> tuple[str, bytes]:
    """Answer the completions of text models."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"]}
    count = len(body["prompt"]) if isinstance(body["prompt"], list) else 1
    if body.get("stream"):
        pieces = [(word, None) for word in Reply(TEXT).words] + [("", "stop")]
        chunks = [
            {
                **head,
                "choices": [{"index": 0, "text": text, "finish_reason": reason, "logprobs": None}],
            }
            for text, reason in pieces
        ]
        return as_sse(chunks, end="data: [DONE]\n\n")
    choices = [
        {"index": place, "text": TEXT, "finish_reason": "stop", "logprobs": None}
        for place in range(count)
    ]
    usage = dict(
        zip(("prompt_tokens", "completion_tokens", "total_tokens"), (*USAGE, 11), strict=True)
    )
    return as_json({**head, "choices": choices, "usage": usage})


# -- responses


def read_responses(body: dict[str, Any]) -> Request:
    """Read a request for a response."""
    form = (body.get("text") or {}).get("format") or {}
    choice = body.get("tool_choice")
    items = body["input"] if isinstance(body["input"], list) else [{}]
    return Request(
        [
            (one["name"], one.get("parameters") or {})
            for one in body.get("tools") or []
            if "name" in one
        ],
        choice.get("name") if isinstance(choice, dict) else choice,
        form.get("schema"),
        form.get("type") == "json_object",
        items[-1].get("type") == "function_call_output",
    )


def responses(body: dict[str, Any]) -> tuple[str, bytes]:
    """Answer with a response."""
    reply = reply_to(with_text(read_responses(body), body))
    if reply.call is not None:
        name, arguments = reply.call
        item: dict[str, Any] = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": name,
        }
        item |= {"arguments": json.dumps(arguments), "status": "completed"}
    else:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        item = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    usage = {
        "input_tokens": USAGE[0], "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": USAGE[1], "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": sum(USAGE),
    }  # fmt: skip
    whole = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": body["model"], "status": "completed",
        "output": [item], "usage": usage, "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tools": [],
        "tool_choice": "auto",
    }  # fmt: skip
    if not body.get("stream"):
        return as_json(whole)
    events = [
        (
            "response.created",
            {"response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        )
    ]
    if reply.call is not None:
        place = {"output_index": 0, "item_id": "fc_1"}
        events.append(
            ("response.output_item.added", {"output_index": 0, "item": {**item, "arguments": ""}})
        )
        events.append(
            ("response.function_call_arguments.delta", {**place, "delta": item["arguments"]})
        )
        events.append(
            ("response.function_call_arguments.done", {**place, "arguments": item["arguments"]})
        )
    else:
        place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
        empty = {"type": "output_text", "text": "", "annotations": []}
        events.append(
            ("response.output_item.added", {"output_index": 0, "item": {**item, "content": []}})
        )
        events.append(("response.content_part.added", {**place, "part": empty}))
        events += [("response.output_text.delta", {**place, "delta": word}) for word in reply.words]
        events.append(("response.output_text.done", {**place, "text": reply.text}))
        events.append(("response.content_part.done", {**place, "part": item["content"][0]}))
    events.append(("response.output_item.done", {"output_index": 0, "item": item}))
    events.append(("response.completed", {"response": whole}))
    return as_named_sse(
        (kind, {"sequence_number": number, **data}) for number, (kind, data) in enumerate(events)
    )


# -- Anthropic's messages


def read_anthropic(body: dict[str, Any]) -> Request:
    """Read a request for a message of Claude's."""
    choice = body.get("tool_choice") or {}
    last = body["messages"][-1]["content"]
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    return Request(
        [
            (one["name"], one["input_schema"])
            for one in body.get("tools") or []
            if "input_schema" in one
        ],
        choice.get("name") or ("none" if choice.get("type") == "none" else None),
        form.get("schema"),
        has_result=isinstance(last, list)
        and any(block.get("type") == "tool_result" for block in last),
    )


def anthropic(body: dict[str, Any]) -> tuple[str, bytes]:
    """Answer with a message of Claude's."""
    reply = reply_to(with_text(read_anthropic(body), body))
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text or TEXT}]
    if reply.call is not None:
        blocks.append(
            {"type": "tool_use", "id": "toolu_1", "name": reply.call[0], "input": reply.call[1]}
        )
    stop = "tool_use" if reply.call is not None else "end_turn"
    usage = dict(zip(("input_tokens", "output_tokens"), USAGE, strict=True))
    head = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "m"),
        "usage": usage,
    }
    if not body.get("stream"):
        return as_json({**head, "content": blocks, "stop_reason": stop, "stop_sequence": None})
    start = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
    return as_named_sse([("message_start", {"message": start}), *_anthropic_blocks(blocks, stop)])


def _anthropic_blocks(
    blocks: list[dict[str, Any]], stop: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            yield (
                "content_block_start",
                {"index": index, "content_block": {"type": "text", "text": ""}},
            )
            deltas = [{"type": "text_delta", "text": word} for word in Reply(block["text"]).words]
        else:
            yield "content_block_start", {"index": index, "content_block": {**block, "input": {}}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    yield (
        "message_delta",
        {
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": USAGE[1]},
        },
    )
    yield "message_stop", {}


# -- Google's contents


def read_google(body: dict[str, Any]) -> Request:
    """Read a request for contents of Gemini's."""
    declared = [
        one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations") or []
    ]
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    names = calling.get("allowedFunctionNames") or [None]
    options = body.get("generationConfig") or {}
    schema = options.get("responseJsonSchema") or options.get("responseSchema")
    is_json = options.get("responseMimeType") == "application/json"
    return Request(
        [
            (one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {})
            for one in declared
        ],
        "none" if calling.get("mode") == "NONE" else names[0],
        schema,
        is_json,
        any("functionResponse" in part for part in body["contents"][-1]["parts"]),
    )


def google(body: dict[str, Any], *, is_stream: bool) -> tuple[str, bytes]:
    """Answer with contents of Gemini's."""
    reply = reply_to(with_text(read_google(body), body))
    parts: list[dict[str, Any]] = [{"text": word} for word in reply.words]
    if reply.call is not None:
        parts = [{"functionCall": {"name": reply.call[0], "args": reply.call[1]}}]
    usage = dict(
        zip(
            ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
            (*USAGE, 11),
            strict=True,
        )
    )
    if not is_stream:
        whole = parts if reply.call is not None else [{"text": reply.text}]
        candidate = {
            "content": {"role": "model", "parts": whole},
            "finishReason": "STOP",
            "index": 0,
        }
        return as_json(
            {
                "candidates": [candidate],
                "usageMetadata": usage,
                "modelVersion": "m",
                "responseId": "r1",
            }
        )
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
        for part in parts
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = usage
    return as_sse([{**chunk, "modelVersion": "m", "responseId": "r1"} for chunk in chunks])


# -- Bedrock's Converse


def read_converse(body: dict[str, Any]) -> Request:
    """Read a request of Converse."""
    config = body.get("toolConfig") or {}
    specs = [one["toolSpec"] for one in config.get("tools") or [] if "toolSpec" in one]
    form = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure") or {}
    schema = (form.get("jsonSchema") or {}).get("schema")
    return Request(
        [(one["name"], one["inputSchema"]["json"]) for one in specs],
        ((config.get("toolChoice") or {}).get("tool") or {}).get("name"),
        json.loads(schema) if isinstance(schema, str) else schema,
        has_result=any("toolResult" in block for block in body["messages"][-1]["content"]),
    )


def converse(body: dict[str, Any], *, is_stream: bool) -> tuple[str, bytes]:
    """Answer as Converse does."""
    reply = reply_to(with_text(read_converse(body), body))
    usage = dict(zip(("inputTokens", "outputTokens", "totalTokens"), (*USAGE, 11), strict=True))
    stop = "tool_use" if reply.call is not None else "end_turn"
    end = {"usage": usage, "metrics": {"latencyMs": 1}}
    call = None
    if reply.call is not None:
        call = {"toolUseId": "tooluse_1", "name": reply.call[0], "input": reply.call[1]}
    if not is_stream:
        block: dict[str, Any] = {"text": reply.text} if call is None else {"toolUse": call}
        output = {"message": {"role": "assistant", "content": [block]}}
        return as_json({"output": output, "stopReason": stop, **end})
    frames = [aws_event("messageStart", {"role": "assistant"})]
    if call is None:
        deltas: list[dict[str, Any]] = [{"text": word} for word in reply.words]
    else:
        start = {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}
        frames.append(aws_event("contentBlockStart", {"start": start, "contentBlockIndex": 0}))
        deltas = [{"toolUse": {"input": json.dumps(call["input"])}}]
    frames += [
        aws_event("contentBlockDelta", {"delta": delta, "contentBlockIndex": 0}) for delta in deltas
    ]
    frames += [
        aws_event("contentBlockStop", {"contentBlockIndex": 0}),
        aws_event("messageStop", {"stopReason": stop}),
    ]
    frames.append(aws_event("metadata", end))
    return AWS_STREAM, b"".join(frames)


# -- embeddings


def embeddings(body: dict[str, Any]) -> tuple[str, bytes]:
    """Answer with one vector of three numbers for each input."""
    inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
    inputs = [inputs] if inputs and isinstance(inputs[0], int) else inputs
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _vector(text, body.get("encoding_format")),
        }
        for index, text in enumerate(inputs)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return as_json({"object": "list", "model": body["model"], "data": data, "usage": usage})


def _vector(text: object, encoding: str | None) -> Any:
    digest = hashlib.sha256(str(text).encode()).digest()
    numbers = [byte / 255 for byte in digest[:3]]
    return (
        base64.b64encode(struct.pack("<3f", *numbers)).decode() if encoding == "base64" else numbers
    )


# -- the server


def as_json(value: Any) -> tuple[str, bytes]:
    """Return a body of JSON with its type."""
    return "application/json", json.dumps(value).encode()


def as_sse(values: list[dict[str, Any]], end: str = "") -> tuple[str, bytes]:
    """Return server-sent events without names."""
    return "text/event-stream", (
        "".join(f"data: {json.dumps(one)}\n\n" for one in values) + end
    ).encode()


def as_named_sse(events: Any) -> tuple[str, bytes]:
    """Return server-sent events with names, which are also in the data."""
    lines = (
        f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events
    )
    return "text/event-stream", "".join(lines).encode()


def _invoke_stream(body: dict[str, Any]) -> tuple[str, bytes]:
    events = anthropic({**body, "stream": True})[1].decode().split("\n\n")
    data = [json.loads(event.partition("data: ")[2]) for event in events if event]
    return AWS_STREAM, b"".join(map(aws_chunk, data))


WIRES: dict[str, Callable[[dict[str, Any]], tuple[str, bytes]]] = {
    ":generateContent": lambda body: google(body, is_stream=False),
    ":streamGenerateContent": lambda body: google(body, is_stream=True),
    "/converse": lambda body: converse(body, is_stream=False),
    "/converse-stream": lambda body: converse(body, is_stream=True),
    "/invoke": anthropic,
    "/invoke-with-response-stream": _invoke_stream,
    ":rawPredict": anthropic,
    ":streamRawPredict": lambda body: anthropic({**body, "stream": True}),
    "/count_tokens": lambda _: as_json({"input_tokens": 11}),
    "/usage/v1/chat/completions": lambda body: completions(body, tells_usage=True),
    "/chat/completions": completions,
    "/completions": text_completions,
    "/responses": responses,
    "/messages": anthropic,
    "/embeddings": embeddings,
}
"""End of a path -> the wire that answers there; the first that fits."""


def answer(path: str, body: dict[str, Any]) -> tuple[str, bytes] | None:
    """Return the type and the body of an answer; None at a path that no wire has."""
    path = path.partition("?")[0]
    wire = next((wire for end, wire in WIRES.items() if path.endswith(end)), None)
    return wire(body) if wire is not None else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, *as_json({"object": "list", "data": []}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        found = answer(self.path, body)
        if found is None:
            self._send(404, *as_json({"error": {"message": f"no wire at {self.path}"}}))
        else:
            self._send(200, *found)

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve_wires(port: int = 0) -> Iterator[str]:
    """Serve in a thread; yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serve_wires(int(sys.argv[1])) as address:
        print(address, flush=True)
        threading.Event().wait()
