"""`/v1/responses` with the unmodified `openai` package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from foldline.providers.openai import ChatOpenAI
from foldline.serve._json_body import Body
from foldline.serve._wires.responses_request import decode_items, decode_options
from foldline.serve.apps import ServedApp
from foldline.serve.settings import ServeSettings
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


GROUP: Any = {
    "type": "namespace",
    "name": "agents",
    "description": "Other agents.",
    "tools": [{"type": "function", "name": "close", "parameters": {"type": "object"}}],
}
PATCH: Any = {
    "type": "custom",
    "name": "patch",
    "description": "Change files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}


def test_S49_a_group_of_tools_reaches_the_model_by_full_names(client: openai.OpenAI) -> None:
    tools = [*TOOLS, GROUP, PATCH, {"type": "web_search"}]
    answer = client.responses.create(model="chat", input="tool names", tools=tools)
    assert answer.output_text == "['weather', 'agents__close', 'patch']"


@pytest.mark.parametrize("streams", [False, True])
def test_S49_a_call_of_a_group_goes_back_with_its_namespace(
    client: openai.OpenAI, streams: bool
) -> None:
    answer = respond(client, streams, "use a group", [GROUP])
    call = answer.output[0].model_dump()
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "agents", "close")
    assert call["arguments"] == '{"id": 7}'

    history: Any = [
        {"role": "user", "content": "use a group"},
        answer.output[0].model_dump(),
        {"type": "function_call_output", "call_id": "call_3", "output": "closed"},
    ]
    assert respond(client, streams, history, [GROUP]).output_text == "The tools said closed."


@pytest.mark.parametrize("streams", [False, True])
def test_S49_a_call_of_a_custom_tool_goes_back_as_text(
    client: openai.OpenAI, streams: bool
) -> None:
    answer = respond(client, streams, "write a patch", [PATCH])
    call = answer.output[0]
    assert (call.type, call.name, call.call_id) == ("custom_tool_call", "patch", "call_4")
    assert call.input == "*** Begin\nline \u2028 two"

    history: Any = [
        {"role": "user", "content": "write a patch"},
        call.model_dump(),
        {"type": "custom_tool_call_output", "call_id": "call_4", "output": "done"},
    ]
    assert respond(client, streams, history, [PATCH]).output_text == "The tools said done."
    chained = client.responses.create(
        model="chat",
        previous_response_id=answer.id,
        tools=[PATCH],
        input=[{"type": "custom_tool_call_output", "call_id": "call_4", "output": "later"}],
    )
    assert chained.output_text == "The tools said later."


def respond(client: openai.OpenAI, streams: bool, input: Any, tools: Any) -> Any:
    if not streams:
        return client.responses.create(model="chat", input=input, tools=tools)
    with client.responses.stream(model="chat", input=input, tools=tools) as stream:
        for _ in stream:
            pass
        return stream.get_final_response()


def test_S49_a_tool_that_a_provider_runs_is_an_error_where_it_must_be_used(
    client: openai.OpenAI,
) -> None:
    search: Any = {"type": "web_search"}
    answer = client.responses.create(model="chat", input="hi", tools=[search], tool_choice="auto")
    assert answer.output_text == "Hello there, my friend."
    with pytest.raises(openai.BadRequestError, match=r"tools\[0\].type"):
        client.responses.create(model="chat", input="hi", tools=[search], tool_choice="required")
    with pytest.raises(openai.BadRequestError, match=r"tools\[0\].type"):
        client.responses.create(model="chat", input="hi", tools=[search], tool_choice=search)


def test_S49_a_model_of_openai_gets_the_tools_in_their_own_form() -> None:
    app = ServedApp("gpt", ChatOpenAI(model="gpt-5", api_key="none"))
    body = Body(
        {"tools": [GROUP, PATCH, {"type": "web_search"}], "tool_choice": {"type": "web_search"}}
    )
    options = decode_options(body, ServeSettings(), app)
    kinds = [tool["type"] for tool in options["tools"]]
    assert kinds == ["function", "custom", "web_search"]
    assert options["tools"][1]["format"] == PATCH["format"]
    assert options["tool_choice"] == {"type": "web_search"}
    items: Any = [
        {"role": "user", "content": "go"},
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "text"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    messages = decode_items(Body({"input": items}), ServeSettings(), app)
    request = app.target.explain(messages, **options).body
    assert request["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "text"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    assert [tool["type"] for tool in request["tools"]] == ["function", "custom", "web_search"]
