"""`/v1/messages` with the unmodified `anthropic` package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from tests.serve.process import ServeProcess
from tests.serve.served import SECRET

TOOLS: Any = [
    {
        "name": "weather",
        "description": "The weather.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


@pytest.fixture
def client(server: ServeProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def asking(text: Any, **options: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return {"model": "chat", "max_tokens": 100, "messages": messages, **options}


def test_text_comes_whole_with_usage(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(**asking("hi", system="Be kind."))
    assert answer.content[0].text == "Hello there, my friend."
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.cache_read_input_tokens) == (8, 3)
    assert answer.usage.output_tokens == 7


def test_the_stream_helper_folds_reasoning_and_text(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**asking("reason, please")) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(texts) == "Forty-two."
    assert [block.type for block in final.content] == ["thinking", "text"]
    assert final.content[0].thinking == "First I think. Then I know."
    assert final.usage.output_tokens == 7


def test_parallel_tools_go_out_and_come_back(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**asking("parallel tools", tools=TOOLS)) as stream:
        first = stream.get_final_message()
    calls = [block for block in first.content if block.type == "tool_use"]
    assert [(call.id, call.input) for call in calls] == [
        ("call_1", {"city": "Oslo"}),
        ("call_2", {"city": "Rome"}),
    ]
    assert first.stop_reason == "tool_use"
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": f"{number} sunny"}
        for number, call in enumerate(calls)
    ]
    request = asking("parallel tools", tools=TOOLS)
    request["messages"] += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    assert client.messages.create(**request).content[0].text == "The tools said 0 sunny, 1 sunny."


def test_a_picture_reaches_the_model(client: anthropic.Anthropic) -> None:
    parts = [
        {"type": "text", "text": "picture"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        },
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
        },
    ]
    text = client.messages.create(**asking(parts)).content[0].text
    assert text == "I see image:image/png image:https://example.org/a.png file:application/pdf."


def test_a_broken_stream_raises(client: anthropic.Anthropic) -> None:
    texts = []
    with (  # noqa: PT012
        pytest.raises(anthropic.APIError) as excinfo,
        client.messages.stream(**asking("break")) as stream,
    ):
        for text in stream.text_stream:
            texts.append(text)  # noqa: PERF402
    assert texts == ["So far so "]
    assert SECRET not in str(excinfo.value)


@pytest.mark.parametrize("streams", [False, True])
def test_errors_before_the_first_word_are_http_errors(
    client: anthropic.Anthropic, *, streams: bool
) -> None:
    with pytest.raises(anthropic.RateLimitError) as excinfo:
        client.messages.create(**asking("rate limit"), stream=streams)
    assert excinfo.value.response.headers["retry-after"] == "7"
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**asking("bad request"), stream=streams)
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**asking("hi", model="nobody"), stream=streams)


def test_tokens_are_counted(client: anthropic.Anthropic) -> None:
    request = asking("hi " * 100)
    del request["max_tokens"]
    assert client.messages.count_tokens(**request).input_tokens > 50


def test_leaving_ends_the_run(server: ServeProcess, client: Any) -> None:
    with client.messages.stream(**asking("slow anthropic-leave")) as stream:
        next(iter(stream.text_stream))
    server.wait_for_mark("cut-anthropic-leave")


def test_an_agent_answers_with_text_alone(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(**asking("parallel tools please", model="agent"))
    assert [block.text for block in answer.content] == [
        "Looking. ",
        "The tools said Oslo is sunny, Rome is sunny.",
    ]


def test_S54_models_are_listed_in_the_form_of_the_client(server: ServeProcess) -> None:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        models = client.models.list()
        assert {"chat", "agent"} <= {model.id for model in models}
        assert client.models.retrieve("chat").type == "model"
    plain = httpx.get(f"{server.url}/v1/models").json()
    assert plain["object"] == "list"
