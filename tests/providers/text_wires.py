"""One answer, "Hello, world", on each vendor's wire of text models: whole, and as a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from foldline.providers.anthropic import AnthropicLLM
from foldline.providers.ollama import OllamaLLM
from foldline.providers.openai import AzureOpenAI, OpenAI
from tests.servers import Answer, FaultServer, json_answer, sse_answer

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
WORDS = ["Hel", "lo, ", "world"]


def completion_chunk(text: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
    return {"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [choice], **more}


def completion(*texts: str, **more: Any) -> dict[str, Any]:
    choices = [
        {"index": place, "text": text, "finish_reason": "stop", "logprobs": None}
        for place, text in enumerate(texts)
    ]
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "model": "m",
        "choices": choices,
        "usage": USAGE,
        **more,
    }


def ollama_line(text: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "response": text,
        "done": False,
        **more,
    }


OLLAMA_END = ollama_line("", done=True, done_reason="stop", prompt_eval_count=3, eval_count=2)
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hello, world"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
MESSAGE_EVENTS: list[tuple[str, dict[str, Any]]] = [
    (
        "message_start",
        {
            "message": {
                **MESSAGE,
                "content": [],
                "stop_reason": None,
                "usage": {"input_tokens": 3, "output_tokens": 1},
            }
        },
    ),
    ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    *(
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": word}})
        for word in WORDS
    ),
    ("content_block_stop", {"index": 0}),
    ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
    ("message_stop", {}),
]


def lines_answer(lines: list[Any], **options: Any) -> Answer:
    pieces = [
        line if isinstance(line, bytes | tuple) else json.dumps(line).encode() + b"\n"
        for line in lines
    ]
    return Answer(
        pieces, headers={"content-type": "application/x-ndjson"}, framing="chunked", **options
    )


@dataclass
class Wire:
    """A wire of text models."""

    kind: type[Any]
    path: str
    whole: Any
    stream: Answer
    error: Any
    """The error inside a stream."""
    settings: dict[str, Any] = field(default_factory=dict)
    reason: dict[str, Any] = field(default_factory=dict)

    def model(self, server: FaultServer, **settings: Any) -> Any:
        url = server.url
        if self.kind is AzureOpenAI:
            settings["azure_endpoint"] = url
        else:
            settings["base_url"] = f"{url}{'/v1' if self.kind is OpenAI else ''}"
        return self.kind(**{"max_retries": 0, "api_key": "key-123456", **self.settings, **settings})


COMPLETION_STREAM = [
    *(completion_chunk(word) for word in WORDS),
    completion_chunk("", "stop"),
    {"id": "cmpl-1", "model": "m", "choices": [], "usage": USAGE},
]
WIRES = {
    "openai": Wire(
        OpenAI,
        "/v1/completions",
        completion("Hello, world"),
        sse_answer(COMPLETION_STREAM, done="[DONE]"),
        {"error": {"message": "broken", "type": "server_error"}},
        reason={"finish_reason": "stop"},
    ),
    "azure": Wire(
        AzureOpenAI,
        "/openai/deployments/mine/completions",
        completion("Hello, world"),
        sse_answer(COMPLETION_STREAM, done="[DONE]"),
        {"error": {"message": "broken", "type": "server_error"}},
        settings={"azure_deployment": "mine", "api_version": "2024-10-21"},
        reason={"finish_reason": "stop"},
    ),
    "anthropic": Wire(
        AnthropicLLM,
        "/v1/messages",
        MESSAGE,
        sse_answer([(kind, {"type": kind, **data}) for kind, data in MESSAGE_EVENTS]),
        ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "broken"}}),
        reason={"stop_reason": "end_turn"},
    ),
    "ollama": Wire(
        OllamaLLM,
        "/api/generate",
        {**OLLAMA_END, "response": "Hello, world"},
        lines_answer([*(ollama_line(word) for word in WORDS), OLLAMA_END]),
        {"error": "broken"},
        settings={"model": "m"},
        reason={"done_reason": "stop"},
    ),
}
WHOLE = {name: json_answer(wire.whole) for name, wire in WIRES.items()}
