"""What every provider's answer needs to be cached: a finish reason that says it is complete (E6, F-K06)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import get_openai_callback
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI, OpenAI
from foldline.providers.openai_compatible import ChatMistralAI
from tests.providers.text_wires import WIRES
from tests.servers import json_answer, sse_answer

CHAT = "/v1/chat/completions"
KEY = {"api_key": "k" * 20}


def choice(reason: str | None, kind: str) -> dict[str, Any]:
    body: dict[str, Any] = {"index": 0, kind: {"role": "assistant", "content": "Hello"}}
    return body if reason is None else {**body, "finish_reason": reason}


def streamed(reason: str | None) -> Any:
    chunk = {"id": "1", "model": "m", "choices": [choice(reason, "delta")]}
    return sse_answer([chunk], done="[DONE]")


def complete(reason: str | None) -> Any:
    return json_answer({"id": "1", "model": "m", "choices": [choice(reason, "message")]})


REASONS = [(None, 2), ("length", 2), ("content_filter", 2), ("stop", 1), ("tool_calls", 1)]


@pytest.mark.parametrize(("reason", "hits"), REASONS)
@pytest.mark.parametrize("cls", [ChatOpenAI, ChatMistralAI])
@pytest.mark.parametrize("method", ["invoke", "stream", "stream_v2", "disabled"])
def test_E6_only_an_answer_with_the_reason_of_a_complete_one_is_cached(
    call: Any, fault_server: Any, cls: Any, method: str, reason: str | None, hits: int
) -> None:
    fields = {"disable_streaming": True} if method == "disabled" else {}
    whole = method in ("invoke", "disabled")
    fault_server.script(CHAT, complete(reason) if whole else streamed(reason))
    model = cls(
        model="m", base_url=fault_server.url + "/v1", cache=InMemoryCache(), **fields, **KEY
    )

    for _ in range(2):
        getattr(call, "stream" if method == "disabled" else method)(model, "Hi")

    assert fault_server.hits(CHAT) == hits


def test_E6_an_answer_of_anthropic_without_a_stop_reason_is_not_cached(
    call: Any, fault_server: Any
) -> None:
    body = {"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": None}
    text = [{"type": "text", "text": "Hello"}]
    fault_server.script("/v1/messages", json_answer({**body, "content": text, "usage": {}}))
    model = ChatAnthropic(model="m", base_url=fault_server.url, cache=InMemoryCache(), **KEY)

    for _ in range(2):
        call.invoke(model, "Hi")

    assert fault_server.hits("/v1/messages") == 2


@pytest.mark.parametrize(("reason", "hits"), [(None, 2), ("length", 2), ("stop", 1)])
@pytest.mark.parametrize("streaming", [False, True])
def test_F_K06_a_text_that_was_cut_or_has_no_reason_is_not_cached(
    call: Any, fault_server: Any, reason: str | None, hits: int, streaming: bool
) -> None:
    body = {
        "id": "1",
        "model": "m",
        "choices": [{"index": 0, "text": "Hello", "finish_reason": reason}],
    }
    answer = sse_answer([body], done="[DONE]") if streaming else json_answer(body)
    fault_server.script("/v1/completions", answer)
    model = OpenAI(
        model="m",
        base_url=fault_server.url + "/v1",
        cache=InMemoryCache(),
        streaming=streaming,
        max_retries=0,
        **KEY,
    )

    for _ in range(2):
        call.invoke(model, "Hi")

    assert fault_server.hits("/v1/completions") == hits


@pytest.mark.parametrize("name", WIRES)
def test_a_complete_text_of_every_wire_is_cached(call: Any, fault_server: Any, name: str) -> None:
    wire = WIRES[name]
    fault_server.script(wire.path, json_answer(json.loads(json.dumps(wire.whole))))
    model = wire.model(fault_server, cache=InMemoryCache())

    first, second = call.invoke(model, "Hi"), call.invoke(model, "Hi")

    assert first == second == "Hello, world"
    assert fault_server.hits(wire.path) == 1


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("name", "cost"), [("gpt-3.5-turbo-instruct", 8.5e-6), ("nobody", None)])
def test_the_cost_of_a_text_model_is_its_price_or_unknown(
    call: Any, fault_server: Any, name: str, cost: float | None, streaming: bool
) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    choices = [{"index": 0, "text": "Hello", "finish_reason": "stop"}]
    body = {"id": "1", "model": name, "choices": choices, "usage": usage}
    answer = sse_answer([body], done="[DONE]") if streaming else json_answer(body)
    fault_server.script("/v1/completions", answer)
    model = OpenAI(model=name, base_url=fault_server.url + "/v1", streaming=streaming, **KEY)

    with get_openai_callback() as info:
        call.invoke(model, "Hi")

    assert info.total_tokens == 5
    assert info.total_cost == (None if cost is None else pytest.approx(cost))
