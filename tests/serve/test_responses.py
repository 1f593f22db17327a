"""`/v1/responses` with the unmodified `openai` package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.serve.process import ServeProcess
from tests.serve.served import SECRET
from tests.serve.test_chat_completions import PICTURE

TOOLS: Any = [
    {
        "type": "function",
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": False,
    }
]


@pytest.fixture
def client(server: ServeProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_text_comes_whole_with_usage(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="chat", input="hi", instructions="Be kind.")
    assert answer.output_text == "Hello there, my friend."
    assert answer.status == "completed"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 7)
    assert answer.usage.input_tokens_details.cached_tokens == 3
    assert answer.usage.output_tokens_details.reasoning_tokens == 2


def test_the_stream_helper_folds_reasoning_and_text(client: openai.OpenAI) -> None:
    with client.responses.stream(model="chat", input="reason, please") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == "Forty-two."
    assert final.output[0].type == "reasoning"
    assert final.output[0].summary[0].text == "First I think. Then I know."
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_text.delta") == 1


def test_parallel_tools_go_out_and_come_back(client: openai.OpenAI) -> None:
    with client.responses.stream(model="chat", input="parallel tools", tools=TOOLS) as stream:
        list(stream)
        first = stream.get_final_response()
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.call_id, call.arguments) for call in calls] == [
        ("call_1", '{"city": "Oslo"}'),
        ("call_2", '{"city": "Rome"}'),
    ]
    results: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"{number} sunny"}
        for number, call in enumerate(calls)
    ]
    second = client.responses.create(
        model="chat", input=results, tools=TOOLS, previous_response_id=first.id
    )
    assert second.output_text == "The tools said 0 sunny, 1 sunny."


def test_the_server_remembers_by_previous_response_id(client: openai.OpenAI) -> None:
    first = client.responses.create(model="chat", input="one")
    second = client.responses.create(model="chat", input="two", previous_response_id=first.id)
    third = client.responses.create(model="chat", input="remember", previous_response_id=second.id)
    assert third.output_text == "one | two | remember"
    assert client.responses.retrieve(second.id).output_text == "Hello there, my friend."
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)


def test_what_is_not_to_be_stored_is_forgotten(client: openai.OpenAI) -> None:
    import time

    first = client.responses.create(model="chat", input="one", store=False)
    time.sleep(0.3)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="chat", input="two", previous_response_id=first.id)


def test_a_picture_reaches_the_model(client: openai.OpenAI) -> None:
    parts: Any = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "picture"},
                {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA"},
            ],
        }
    ]
    answer = client.responses.create(model="chat", input=parts)
    assert answer.output_text == "I see image:image/png file:application/pdf."


def test_structured_output_is_parsed(client: openai.OpenAI) -> None:
    class Weather(BaseModel):
        city: str
        degrees: int

    response = client.responses.parse(model="chat", input="json please", text_format=Weather)
    assert response.output_parsed == Weather(city="Oslo", degrees=4)


def test_a_broken_stream_raises(client: openai.OpenAI) -> None:
    kinds = []
    with pytest.raises(openai.APIError) as excinfo:  # noqa: PT012
        for event in client.responses.create(model="chat", input="break", stream=True):
            kinds.append(event.type)  # noqa: PERF401
    assert "response.output_text.delta" in kinds
    assert "response.failed" in kinds
    assert "response.completed" not in kinds
    assert SECRET not in str(excinfo.value)


@pytest.mark.parametrize("streams", [False, True])
def test_errors_before_the_first_word_are_http_errors(
    client: openai.OpenAI, *, streams: bool
) -> None:
    with pytest.raises(openai.RateLimitError) as excinfo:
        client.responses.create(model="chat", input="rate limit", stream=streams)
    assert excinfo.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="chat", input="bad request", stream=streams)


def test_a_response_is_watched_again_from_a_number_on(client: openai.OpenAI) -> None:
    first = client.responses.create(model="chat", input="hi")
    events = list(client.responses.retrieve(first.id, stream=True))
    assert events[-1].type == "response.completed"
    remaining = list(client.responses.retrieve(first.id, stream=True, starting_after=4))
    assert [event.sequence_number for event in remaining] == list(range(5, len(events)))


def test_leaving_ends_the_run(server: ServeProcess, client: Any) -> None:
    stream = client.responses.create(model="chat", input="slow responses-leave", stream=True)
    for event in stream:
        if event.type == "response.output_text.delta":
            break
    stream.close()
    server.wait_for_mark("cut-responses-leave")


def test_an_agent_answers_with_text_alone(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="agent", input="parallel tools please")
    texts = [item.content[0].text for item in answer.output if item.type == "message"]
    assert texts == ["Looking. ", "The tools said Oslo is sunny, Rome is sunny."]
