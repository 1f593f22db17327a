"""ChatOpenAI, a compatible host and the local model pass the kit that every author of a model subclasses."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from foldline.providers.local import ChatLlamaCpp
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatDeepSeek
from foldline.testing.conformance import ChatModelConformance, ToolCallingConformance
from foldline.testing.replay import _ReplayExchange
from foldline.transports import Request
from foldline.transports._body import ResponseContext
from tests.providers import recordings


class Recorded:
    """Answers every request with one recording: the stream if one was asked for, else the whole answer."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name

    def open(self, request: Request, *, blocking: bool) -> Any:
        return ResponseContext(
            request, lambda _: _ReplayExchange(self._answer(request), blocking=blocking, pace=0)
        )

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def _answer(self, request: Request) -> dict[str, Any]:
        if not json.loads(request.body).get("stream"):
            body = json.dumps(recordings.whole(self._folder, self._name))
            return {
                "status": 200,
                "headers": {"content-type": "application/json"},
                "chunks": [[0, body]],
            }
        events = recordings.stream_bytes(self._folder, self._name).decode().split("\n\n")
        chunks = [[0, f"{event}\n\n"] for event in events if event]
        return {"status": 200, "headers": {"content-type": "text/event-stream"}, "chunks": chunks}


def model(name: str, **fields: Any) -> ChatOpenAI:
    responses = name.startswith("responses")
    return ChatOpenAI(
        model="m",
        api_key="k",
        base_url="http://localhost/v1",
        transport=Recorded("openai", name),
        use_responses_api=responses,
        **fields,
    )


class TestChatText(ChatModelConformance):
    def model(self) -> Any:
        return model("chat-text")


class TestChatTools(ToolCallingConformance):
    def model(self) -> Any:
        return model("chat-text-and-parallel-tool-calls")


class TestResponsesReasoning(ChatModelConformance):
    def model(self) -> Any:
        return model("responses-reasoning-summaries")


class TestResponsesServerTools(ChatModelConformance):
    def model(self) -> Any:
        return model("responses-code-interpreter")


class TestResponsesTools(ToolCallingConformance):
    def model(self) -> Any:
        return model("responses-parallel-function-calls")


class TestDeepSeek(ChatModelConformance):
    def model(self) -> Any:
        return ChatDeepSeek(
            api_key="k",
            base_url="http://localhost/v1",
            transport=Recorded("openai_compatible", "deepseek-reasoning"),
        )


@pytest.mark.slow
class TestLocal(ChatModelConformance):
    prompt: ClassVar[Any] = "What is the capital of France?"

    def model(self) -> Any:
        return ChatLlamaCpp(temperature=0, max_tokens=4)
