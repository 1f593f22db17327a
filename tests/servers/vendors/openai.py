"""OpenAI's wires: chat completions, completions of text, responses, embeddings."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

from tests.servers.vendors.replies import (
    TEXT,
    USAGE,
    Reply,
    Request,
    as_json,
    as_named_sse,
    as_sse,
    reply_to,
    with_text,
)


def read_completions(body: dict[str, Any]) -> Request:
    """Read a request for chat completions."""
    form = body.get("response_format") or {}
    choice = body.get("tool_choice")
    return Request(
        [
            (tool["function"]["name"], tool["function"].get("parameters") or {})
            for tool in body.get("tools") or []
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
    usage = {
        "prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE),
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }  # fmt: skip
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
            (tool["name"], tool.get("parameters") or {})
            for tool in body.get("tools") or []
            if "name" in tool
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
    response = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": body["model"], "status": "completed",
        "output": [item], "usage": usage, "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tools": [],
        "tool_choice": "auto",
    }  # fmt: skip
    if not body.get("stream"):
        return as_json(response)
    events = [
        (
            "response.created",
            {"response": {**response, "status": "in_progress", "output": [], "usage": None}},
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
    events.append(("response.completed", {"response": response}))
    return as_named_sse(
        (kind, {"sequence_number": number, **data}) for number, (kind, data) in enumerate(events)
    )


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
