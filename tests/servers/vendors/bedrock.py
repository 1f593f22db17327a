"""Bedrock's Converse, and its streams of Anthropic's messages."""

from __future__ import annotations

import json
from typing import Any

from tests.servers.event_stream import chunk as aws_chunk, event as aws_event
from tests.servers.vendors.anthropic import anthropic
from tests.servers.vendors.replies import USAGE, Request, as_json, reply_to, with_text

AWS_STREAM = "application/vnd.amazon.eventstream"


def read_converse(body: dict[str, Any]) -> Request:
    """Read a request of Converse."""
    config = body.get("toolConfig") or {}
    specs = [tool["toolSpec"] for tool in config.get("tools") or [] if "toolSpec" in tool]
    form = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure") or {}
    schema = (form.get("jsonSchema") or {}).get("schema")
    return Request(
        [(spec["name"], spec["inputSchema"]["json"]) for spec in specs],
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


def invoke_stream(body: dict[str, Any]) -> tuple[str, bytes]:
    """Answer with a message of Claude's as AWS streams it."""
    events = anthropic({**body, "stream": True})[1].decode().split("\n\n")
    data = [json.loads(event.partition("data: ")[2]) for event in events if event]
    return AWS_STREAM, b"".join(map(aws_chunk, data))
