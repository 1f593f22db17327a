"""A model that says back what it is told, so that an answer which went astray is seen: two wires, both ways."""

from __future__ import annotations

import json
from typing import Any


def say_back(path: str, asked: dict[str, Any]) -> tuple[str, bytes]:
    """Give type and body of the answer to a request of chat completions or of Anthropic's messages."""
    said = asked["messages"][-1]["content"]
    said = said if isinstance(said, str) else said[0]["text"]
    speak = _anthropic if path.endswith("/messages") else _completions
    return speak(said, is_stream=bool(asked.get("stream")))


def _anthropic(said: str, *, is_stream: bool) -> tuple[str, bytes]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    if not is_stream:
        whole = {**message, "content": [{"type": "text", "text": said}], "stop_reason": "end_turn"}
        return "application/json", json.dumps(whole).encode()
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
    return "text/event-stream", "".join(lines).encode()


def _completions(said: str, *, is_stream: bool) -> tuple[str, bytes]:
    kind = "chat.completion.chunk" if is_stream else "chat.completion"
    about = {"id": "c", "object": kind, "created": 1, "model": "m"}
    if not is_stream:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": said},
            "finish_reason": "stop",
        }
        return "application/json", json.dumps({**about, "choices": [choice]}).encode()
    half = len(said) // 2
    deltas = [({"content": said[:half]}, None), ({"content": said[half:]}, None), ({}, "stop")]
    chunks = [
        {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in deltas
    ]
    lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return "text/event-stream", f"{lines}data: [DONE]\n\n".encode()
