"""Every provider's model over a recording: what tests of all providers ask. Nothing here reaches a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogleGenerativeAI
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatDeepSeek, ChatGroq, ChatMistralAI
from foldline.testing.replay import _ReplayExchange
from foldline.transports._body import ResponseContext
from foldline.transports.base import Request
from tests.providers import recordings


class RecordedTransport:
    """Answers every request with one recording: the stream if one was asked for, else the whole answer."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name
        self.requests: list[Request] = []

    def open(self, request: Request, *, blocking: bool) -> Any:
        self.requests.append(request)
        answer = self._answer(request)
        return ResponseContext(
            request, lambda _: _ReplayExchange(answer, blocking=blocking, pace=0)
        )

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def _answer(self, request: Request) -> dict[str, Any]:
        if "stream" not in request.url and not json.loads(request.body).get("stream"):
            kind, chunks = (
                "application/json",
                [json.dumps(recordings.whole_answer(self._folder, self._name))],
            )
        else:
            events = recordings.stream_bytes(self._folder, self._name).decode().split("\n\n")
            kind, chunks = "text/event-stream", [f"{event}\n\n" for event in events if event]
        return {
            "status": 200,
            "headers": {"content-type": kind},
            "chunks": [[0, chunk] for chunk in chunks],
        }


def _maker(cls: Any, folder: str, **fixed: Any) -> Callable[..., Any]:
    def make(name: str, **fields: Any) -> Any:
        transport = RecordedTransport(folder, name)
        base = {"api_key": "k", "base_url": "http://localhost/v1", "transport": transport}
        return cls(**{"model": "m", **base, **fixed, **fields})

    return make


MODELS: dict[str, Callable[..., Any]] = {
    "openai": _maker(ChatOpenAI, "openai", use_responses_api=False),
    "openai-responses": _maker(ChatOpenAI, "openai", use_responses_api=True),
    "anthropic": _maker(ChatAnthropic, "anthropic"),
    "google": _maker(ChatGoogleGenerativeAI, "google"),
    "groq": _maker(ChatGroq, "openai_compatible"),
    "deepseek": _maker(ChatDeepSeek, "openai_compatible"),
    "mistral": _maker(ChatMistralAI, "openai_compatible"),
}
"""Provider -> a function of a recording's name and fields, which gives a model."""

TEXTS = {
    "openai": "chat-text",
    "openai-responses": "responses-text",
    "anthropic": "text",
    "google": "text",
    "groq": "groq-reasoning",
    "deepseek": "deepseek-reasoning",
    "mistral": "mistral-thinking",
}
"""Provider -> a recording with text."""
