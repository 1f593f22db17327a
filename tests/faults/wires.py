"""The wires that faults are injected into: how to make a model on each, its recordings, and when it is complete (E3).

What "complete" means is written here a second time, on the raw JSON and not by the decoders, so that the judge of a
cut stream does not ask the accused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from foldline.language_models import BaseChatModel
from foldline.language_models._call.retry_policy import NO_RETRY
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatOpenAICompatible
from tests.servers.script import Answer, json_answer

RECORDINGS = Path(__file__).parents[1] / "recordings"
SSE = {"content-type": "text/event-stream"}
ENTRIES = ("invoke", "stream", "stream_v2", "ainvoke", "astream", "astream_v2")
"""Every way to ask a model; those that begin with `a` are awaited."""


@dataclass(frozen=True)
class Wire:
    """One API of one vendor."""

    name: str
    make: Callable[..., BaseChatModel]
    """`make(base_url, **fields)`."""
    paths: tuple[str, ...]
    """Where its requests go, below the base URL."""
    text: str
    """The recording of a plain answer, `folder/name`."""
    call: str
    """The recording of an answer with tool calls."""
    patterns: tuple[str, ...]
    """Patterns of the recordings of this wire."""
    text_of: Callable[[Any], str]
    """The text in one payload of the stream."""
    is_last: Callable[[Any], bool]
    """Whether a payload marks the answer as complete (E3)."""
    content_type: str = SSE["content-type"]
    """The content type of its streams."""

    @property
    def is_sse(self) -> bool:
        return self.content_type == SSE["content-type"]

    def payload(self, piece: bytes) -> Any:
        """The JSON of one event."""
        return payload_of(piece)

    def data(self, recording: str) -> bytes:
        """A recorded stream."""
        return (RECORDINGS / f"{recording}.sse").read_bytes()

    def model(self, base_url: str, **fields: Any) -> BaseChatModel:
        settings = {"api_key": "sk-canary", "retry_on_error": NO_RETRY, **fields}
        return self.make(base_url, **settings)

    def pieces(self, recording: str | None = None) -> list[bytes]:
        """The events of a recorded stream, one by one, as bytes."""
        return _pieces(recording or self.text)

    def first_text(self, recording: str | None = None) -> int:
        """How many events there are up to the first text, that one included."""
        for count, piece in enumerate(self.pieces(recording), 1):
            if self.text_of(self.payload(piece)):
                return count
        raise AssertionError(f"{recording or self.text} says nothing")

    def until_finish(self, recording: str | None = None) -> list[bytes]:
        """Return the events before the first that marks the answer as complete."""
        pieces: list[bytes] = []
        for piece in self.pieces(recording):
            if self.is_last(self.payload(piece)):
                break
            pieces.append(piece)
        return pieces

    def true_text(self, recording: str | None = None) -> str:
        return "".join(self.text_of(self.payload(piece)) for piece in self.pieces(recording))

    def whole(self, recording: str | None = None) -> Any:
        """The same answer in one piece."""
        return json.loads((RECORDINGS / f"{recording or self.text}.json").read_text())

    def good(self) -> Answer:
        """An answer without fault, whichever way it is asked for."""
        return json_answer(self.whole())

    def recordings(self) -> list[str]:
        paths = [path for pattern in self.patterns for path in RECORDINGS.glob(f"{pattern}.sse")]
        return sorted(str(path.relative_to(RECORDINGS).with_suffix("")) for path in paths)


@cache
def _pieces(recording: str) -> list[bytes]:
    data = (RECORDINGS / f"{recording}.sse").read_bytes()
    gap = b"\r\n\r\n" if b"\r\n" in data else b"\n\n"
    return [piece + gap for piece in data.split(gap) if piece]


@cache
def payload_of(piece: bytes) -> Any:
    """The JSON of one event; the end marker is itself, a comment is nothing."""
    data = b"\n".join(line[5:].strip() for line in piece.splitlines() if line[:5] == b"data:")
    if data in (b"", b"[DONE]"):
        return data.decode()
    return json.loads(data)


def _chat_text(data: Any) -> str:
    choices = data.get("choices") or [] if isinstance(data, dict) else []
    parts = [c.get("delta", {}).get("content") for c in choices if not c.get("index")]
    return "".join(part for part in parts if isinstance(part, str))


def _chat_last(data: Any) -> bool:
    if not isinstance(data, dict):
        return bool(data == "[DONE]")
    return any(c.get("finish_reason") for c in data.get("choices") or [] if not c.get("index"))


def _responses_text(data: Any) -> str:
    is_text = isinstance(data, dict) and data.get("type") == "response.output_text.delta"
    return str(data["delta"]) if is_text else ""


def _anthropic_text(data: Any) -> str:
    delta = data.get("delta") or {} if isinstance(data, dict) else {}
    return str(delta.get("text", "")) if delta.get("type") == "text_delta" else ""


def _google_parts(data: Any) -> list[Any]:
    candidates = data.get("candidates") or [] if isinstance(data, dict) else []
    return [p for c in candidates for p in (c.get("content") or {}).get("parts") or []]


def _google_last(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    blocked = (data.get("promptFeedback") or {}).get("blockReason")
    return bool(blocked) or any(c.get("finishReason") for c in data.get("candidates") or [])


def _anthropic_last(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    return data.get("type") == "message_stop" or bool((data.get("delta") or {}).get("stop_reason"))


def _chat(base_url: str, **fields: Any) -> BaseChatModel:
    return ChatOpenAI(model="m", base_url=f"{base_url}/v1", use_responses_api=False, **fields)


def _responses(base_url: str, **fields: Any) -> BaseChatModel:
    return ChatOpenAI(model="m", base_url=f"{base_url}/v1", use_responses_api=True, **fields)


def _host(base_url: str, **fields: Any) -> BaseChatModel:
    return ChatOpenAICompatible(provider="groq", model="m", base_url=f"{base_url}/v1", **fields)


WIRES = {
    wire.name: wire
    for wire in (
        Wire(
            "chat", _chat, ("/v1/chat/completions",), "openai/chat-text", "openai/chat-tool-call",
            ("openai/chat-*", "llama/chat-*"), _chat_text, _chat_last,
        ),
        Wire(
            "responses", _responses, ("/v1/responses",), "openai/responses-text",
            "openai/responses-parallel-function-calls", ("openai/responses-*", "llama/responses-*"),
            _responses_text,
            lambda data: isinstance(data, dict) and data.get("type") in ("response.completed", "response.incomplete"),
        ),
        Wire(
            "anthropic", lambda base_url, **fields: ChatAnthropic(model="m", base_url=base_url, **fields),
            ("/v1/messages",), "anthropic/text", "anthropic/tool-use", ("anthropic/*", "llama/messages-*"),
            _anthropic_text, _anthropic_last,
        ),
        Wire(
            "google", lambda base_url, **fields: ChatGoogle(model="m", base_url=base_url, **fields),
            ("/models/m:generateContent", "/models/m:streamGenerateContent"), "google/text",
            "google/function-call", ("google/*",),
            lambda data: "".join(p.get("text", "") for p in _google_parts(data) if not p.get("thought")),
            _google_last,
        ),
        Wire(
            "host", _host, ("/v1/chat/completions",), "openai_compatible/groq-usage-beside",
            "openai/chat-tool-call", ("openai_compatible/*",), _chat_text, _chat_last,
        ),
    )
}  # fmt: skip
