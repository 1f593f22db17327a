"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.servers.vendors.replies import (
    TEXT,
    USAGE,
    Reply,
    Request,
    as_json,
    as_named_sse,
    reply_to,
    with_text,
)


def read_anthropic(body: dict[str, Any]) -> Request:
    """Read a request for a message of Claude's."""
    choice = body.get("tool_choice") or {}
    last = body["messages"][-1]["content"]
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    return Request(
        [
            (tool["name"], tool["input_schema"])
            for tool in body.get("tools") or []
            if "input_schema" in tool
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
    usage = {
        "input_tokens": USAGE[0], "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": USAGE[1], "service_tier": "standard",
    }  # fmt: skip
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
