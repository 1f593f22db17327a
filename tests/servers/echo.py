"""A model that returns its input, so that a misplaced answer is noticed: two wires, whole and streamed."""

from __future__ import annotations

import json
from typing import Any


def say_back(path: str, body: dict[str, Any]) -> tuple[str, bytes]:
    """Return type and body of the answer to a request of chat completions or of Anthropic's messages."""
    text = body["messages"][-1]["content"]
    text = text if isinstance(text, str) else text[0]["text"]
    speak = _anthropic if path.endswith("/messages") else _completions
    return speak(text, is_stream=bool(body.get("stream")))


def _anthropic(text: str, *, is_stream: bool) -> tuple[str, bytes]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    if not is_stream:
        answer = {**message, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
        return "application/json", json.dumps(answer).encode()
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "text/event-stream", "".join(lines).encode()


def _completions(text: str, *, is_stream: bool) -> tuple[str, bytes]:
    kind = "chat.completion.chunk" if is_stream else "chat.completion"
    envelope = {"id": "c", "object": kind, "created": 1, "model": "m"}
    if not is_stream:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        return "application/json", json.dumps({**envelope, "choices": [choice]}).encode()
    half = len(text) // 2
    deltas = [({"content": text[:half]}, None), ({"content": text[half:]}, None), ({}, "stop")]
    chunks = [
        {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in deltas
    ]
    lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return "text/event-stream", f"{lines}data: [DONE]\n\n".encode()
