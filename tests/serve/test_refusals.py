"""A refusal on every chat wire: in the form of the wire, read by the SDKs, and accepted in a history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from pydantic import BaseModel

from tests.serve.process import ServeProcess, sse


class Recipe(BaseModel):
    name: str


@pytest.fixture
def client(server: ServeProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(server: ServeProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def asking(text: str) -> Any:
    return [{"role": "user", "content": text}]


def test_chat_completions_have_it_in_their_field(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(model="chat", messages=asking("refuse")).choices[0]

    assert (choice.message.refusal, choice.message.content) == ("I will not.", None)
    assert choice.finish_reason == "stop"


def test_a_parsed_completion_is_read_as_a_refusal(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="chat", messages=asking("refuse"), response_format=Recipe
    )

    assert answer.choices[0].message.refusal == "I will not."
    assert answer.choices[0].message.parsed is None


def test_a_streamed_completion_has_slices_of_it(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="chat", messages=asking("refuse")) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()

    assert "refusal.delta" in kinds
    assert "refusal.done" in kinds
    assert final.choices[0].message.refusal == "I will not."


def test_a_completion_without_words_says_so_by_its_reason(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="chat", messages=asking("refuse silently"))

    assert answer.choices[0].finish_reason == "content_filter"


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ],
)
def test_a_history_of_completions_may_have_it(client: openai.OpenAI, turn: Any) -> None:
    messages: Any = [*asking("cook"), turn, *asking("what was refused?")]

    answer = client.chat.completions.create(model="chat", messages=messages)

    assert answer.choices[0].message.content == "['No.']"


@pytest.mark.parametrize("streams", [False, True])
def test_responses_have_it_as_a_part(client: openai.OpenAI, streams: bool) -> None:
    if streams:
        with client.responses.stream(model="chat", input="refuse") as stream:
            kinds = [event.type for event in stream]
            answer: Any = stream.get_final_response()
        assert "response.refusal.delta" in kinds
        assert "response.refusal.done" in kinds
    else:
        answer = client.responses.create(model="chat", input="refuse")

    (part,) = answer.output[0].content
    assert (part.type, part.refusal) == ("refusal", "I will not.")
    assert answer.output_text == ""
    assert answer.status == "completed"


def test_a_history_of_responses_may_have_it(client: openai.OpenAI) -> None:
    refused = client.responses.create(model="chat", input="refuse")
    items: Any = [item.model_dump() for item in refused.output]

    answer = client.responses.create(
        model="chat", input=[*asking("cook"), *items, *asking("what was refused?")]
    )

    assert answer.output_text == "['I will not.']"


@pytest.mark.parametrize("streams", [False, True])
def test_messages_have_it_as_their_stop_reason(claude: anthropic.Anthropic, streams: bool) -> None:
    options: Any = {"model": "chat", "max_tokens": 99, "messages": asking("refuse")}
    if streams:
        with claude.messages.stream(**options) as stream:
            message: Any = stream.get_final_message()
    else:
        message = claude.messages.create(**options)

    assert message.stop_reason == "refusal"
    assert message.stop_details.explanation == "I will not."
    assert message.stop_details.category == "bio"


def test_vercel_shows_it_as_text_with_its_reason(server: ServeProcess) -> None:
    body = {"id": "t-refusal", "messages": [_ui_message("refuse")]}
    response = httpx.post(f"{server.url}/api/chat/chat", json=body)
    chunks = [data for _, data in sse(response.text) if data != "[DONE]"]

    assert [c["delta"] for c in chunks if c["type"] == "text-delta"] == ["I will not."]
    assert [c["type"] for c in chunks].count("text-end") == 1
    assert chunks[-1]["finishReason"] == "content-filter"


def _ui_message(text: str) -> Any:
    return {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}


def test_agui_shows_it_as_text_and_names_it(server: ServeProcess) -> None:
    body = {
        "threadId": "t-refusal",
        "runId": "r1",
        "messages": [{"id": "m1", "role": "user", "content": "refuse"}],
    }
    events = [data for _, data in sse(httpx.post(f"{server.url}/agui/chat", json=body).text)]

    assert "I will not." in [event.get("delta") for event in events]
    (custom,) = [event for event in events if event["type"] == "CUSTOM"]
    assert (custom["name"], custom["value"]["refusal"]) == ("refusal", "I will not.")
    assert events[-1]["outcome"] == {"type": "success"}


def test_mcp_returns_its_words(server: ServeProcess) -> None:
    params = {"name": "chat", "arguments": {"message": "refuse"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"accept": "application/json, text/event-stream"}
    answer = httpx.post(f"{server.url}/mcp", json=request, headers=headers)

    assert "I will not." in answer.text
