"""`/v1/chat/completions`, `/v1/models` and `/v1/embeddings` with the unmodified `openai` package."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from foldline.serve._wires.logprobs import completion_logprobs
from tests.serve.process import ServeProcess, sse
from tests.serve.served import SECRET

PICTURE = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n1234").decode()
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


@pytest.fixture
def client(server: ServeProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, text: Any, **options: Any) -> Any:
    messages: Any = [{"role": "user", "content": text}]
    return client.chat.completions.create(**{"model": "chat", "messages": messages, **options})


def test_text_comes_whole(client: openai.OpenAI) -> None:
    answer = ask(client, "hi")
    assert answer.choices[0].message.content == "Hello there, my friend."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens == 11
    assert answer.usage.completion_tokens == 7
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
    assert answer.usage.completion_tokens_details.reasoning_tokens == 2


def test_several_answers_to_one_request(client: openai.OpenAI, server: ServeProcess) -> None:
    answer = ask(client, "hi", n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {"Hello there, my friend."}
    assert answer.usage.total_tokens == 3 * 18
    runs = httpx.get(f"{server.url}/runs?limit=3").json()["runs"]
    assert answer.id.removeprefix("chatcmpl-") in [run["run_id"] for run in runs]
    assert [run["status"] for run in runs] == ["success"] * 3
    with pytest.raises(openai.BadRequestError, match="n must be"):
        ask(client, "hi", n=129)


def test_several_answers_are_streamed_side_by_side(client: openai.OpenAI) -> None:
    chunks = list(ask(client, "hi", n=2, stream=True, stream_options={"include_usage": True}))
    texts = ["", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == ["Hello there, my friend."] * 2
    assert chunks[-1].usage.total_tokens == 2 * 18
    assert len({chunk.id for chunk in chunks}) == 1
    messages: Any = [{"role": "user", "content": "parallel tools"}]
    with client.chat.completions.stream(
        model="chat", messages=messages, tools=TOOLS, n=2
    ) as stream:
        final = stream.get_final_completion()
    assert [len(choice.message.tool_calls or ()) for choice in final.choices] == [2, 2]


def test_one_of_several_answers_that_breaks_is_an_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIError):
        list(ask(client, "break", n=2, stream=True))
    with pytest.raises(openai.RateLimitError):
        ask(client, "rate limit", n=2, stream=True)


def test_leaving_ends_all_of_several_answers(client: openai.OpenAI, server: ServeProcess) -> None:
    stream = ask(client, "slow several", n=2, stream=True)
    next(iter(stream))
    stream.close()
    server.wait_for_mark("cut-several", 5)
    end = time.monotonic() + 3
    while server.count_marks("cut-several") < 2:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_logprobs_are_passed_on(client: openai.OpenAI) -> None:
    choice = ask(client, "logprobs", logprobs=True, top_logprobs=2).choices[0]
    token = choice.logprobs.content[0]
    assert (token.token, token.logprob, len(token.top_logprobs)) == ("Hi", -0.1, 2)
    messages: Any = [{"role": "user", "content": "logprobs"}]
    with client.chat.completions.stream(model="chat", messages=messages, logprobs=True) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].logprobs is not None
    assert [entry.token for entry in final.choices[0].logprobs.content or ()] == ["Hi"]
    assert ask(client, "logprobs").choices[0].logprobs is None
    with pytest.raises(openai.BadRequestError, match="top_logprobs"):
        ask(client, "logprobs", top_logprobs=2)


def test_logprobs_of_google_have_the_same_form() -> None:
    logprobs = completion_logprobs(
        {
            "logprobs": {
                "chosenCandidates": [{"token": "Hi", "tokenId": 3, "logProbability": -0.5}],
                "topCandidates": [{"candidates": [{"token": "Ho", "logProbability": -1.5}]}],
            }
        }
    )
    assert logprobs["content"][0]["logprob"] == -0.5
    assert logprobs["content"][0]["top_logprobs"][0]["token"] == "Ho"
    assert completion_logprobs({"logprobs": 3}) is None


def test_text_comes_in_chunks_with_usage(client: openai.OpenAI) -> None:
    chunks = list(ask(client, "hi", stream=True, stream_options={"include_usage": True}))
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(text or "" for text in texts) == "Hello there, my friend."
    assert len([text for text in texts if text]) == 4
    assert chunks[-1].usage.total_tokens == 18
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"


def test_parallel_tools_go_out_and_come_back(client: openai.OpenAI) -> None:
    answer = ask(client, "parallel tools please", tools=TOOLS)
    calls = answer.choices[0].message.tool_calls
    assert [(call.id, call.function.arguments) for call in calls] == [
        ("call_1", '{"city": "Oslo"}'),
        ("call_2", '{"city": "Rome"}'),
    ]
    assert answer.choices[0].finish_reason == "tool_calls"
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"{place} sunny"}
        for call, place in zip(calls, ["1", "2"], strict=True)
    ]
    messages: Any = [
        {"role": "user", "content": "parallel tools please"},
        answer.choices[0].message.model_dump(exclude_none=True),
        *results,
    ]
    last = client.chat.completions.create(model="chat", messages=messages, tools=TOOLS)
    assert last.choices[0].message.content == "The tools said 1 sunny, 2 sunny."


def test_the_stream_helper_folds_tools_and_text(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "parallel tools please"}]
    with client.chat.completions.stream(model="chat", messages=messages, tools=TOOLS) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    assert events.count("tool_calls.function.arguments.done") == 2
    assert final.choices[0].message.content == "Looking. "
    assert [call.function.name for call in final.choices[0].message.tool_calls or []] == [
        "weather",
        "weather",
    ]


def test_reasoning_is_beside_the_text(client: openai.OpenAI) -> None:
    message = ask(client, "reason, please").choices[0].message
    assert message.content == "Forty-two."
    assert message.reasoning_content == "First I think. Then I know."
    chunks = list(ask(client, "reason, please", stream=True))
    thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in chunks]
    assert "".join(thought or "" for thought in thoughts) == "First I think. Then I know."


def test_a_picture_and_a_file_reach_the_model(client: openai.OpenAI) -> None:
    parts = [
        {"type": "text", "text": "describe the picture"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {
            "type": "file",
            "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a"},
        },
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
    ]
    assert ask(client, parts).choices[0].message.content == (
        "I see image:image/png image:https://example.org/cat.png file:application/pdf audio:audio/mpeg."
    )


def test_structured_output_is_parsed(client: openai.OpenAI) -> None:
    class Weather(BaseModel):
        city: str
        degrees: int

    completion = client.chat.completions.parse(
        model="chat",
        messages=[{"role": "user", "content": "json please"}],
        response_format=Weather,
    )
    assert completion.choices[0].message.parsed == Weather(city="Oslo", degrees=4)


def test_options_reach_the_model_and_unknown_fields_do_not(client: openai.OpenAI) -> None:
    answer = ask(
        client,
        "options",
        temperature=0.5,
        max_completion_tokens=99,
        stop=["END"],
        extra_body={"base_url": "http://evil", "api_key": "x", "extra_headers": {"a": "b"}},
    )
    content = answer.choices[0].message.content
    assert content == "[('max_tokens', 99), ('temperature', 0.5)]['END']"


def test_a_broken_stream_raises_after_what_was_said(client: openai.OpenAI) -> None:
    pieces = []
    with pytest.raises(openai.APIError) as excinfo:  # noqa: PT012
        for chunk in ask(client, "break", stream=True):
            pieces.append(chunk.choices[0].delta.content)  # noqa: PERF401
    assert pieces == ["So far so "]
    assert "ModelError" in str(excinfo.value)
    assert SECRET not in str(excinfo.value)


@pytest.mark.parametrize("streams", [False, True])
def test_errors_before_the_first_word_are_http_errors(
    client: openai.OpenAI, *, streams: bool
) -> None:
    with pytest.raises(openai.RateLimitError) as excinfo:
        ask(client, "rate limit", stream=streams)
    assert excinfo.value.response.headers["retry-after"] == "7"
    assert SECRET not in excinfo.value.response.text
    with pytest.raises(openai.BadRequestError) as bad_request:
        ask(client, "bad request", stream=streams)
    assert "refused the request as invalid" in str(bad_request.value)
    assert "this is wrong" not in str(bad_request.value)
    assert SECRET not in bad_request.value.response.text
    with pytest.raises(openai.NotFoundError):
        ask(client, "hi", model="nobody", stream=streams)


def test_a_whole_answer_that_fails_is_an_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as excinfo:
        ask(client, "crash")
    assert excinfo.value.status_code == 500
    assert SECRET not in excinfo.value.response.text


def test_leaving_ends_the_run_and_closes_the_model(server: ServeProcess, client: Any) -> None:
    stream = ask(client, "slow chat-leave", stream=True)
    next(iter(stream))
    start = time.time()
    stream.close()
    assert server.wait_for_mark("cut-chat-leave") - start < 1.5


def test_leaving_a_whole_answer_ends_the_run(server: ServeProcess) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": "slow whole-leave"}]}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=0.5)
    server.wait_for_mark("cut-whole-leave")


def test_an_agent_answers_with_text_alone(client: openai.OpenAI) -> None:
    answer = ask(client, "parallel tools please", model="agent")
    message = answer.choices[0].message
    assert message.content == "Looking. \n\nThe tools said Oslo is sunny, Rome is sunny."
    assert message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens == 22
    chunks = list(ask(client, "parallel tools please", model="agent", stream=True))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == message.content


def test_an_agent_that_asks_a_person_is_an_error_here(client: openai.OpenAI) -> None:
    with pytest.raises(openai.ConflictError) as excinfo:
        ask(client, "delete it", model="agent")
    assert "/resume" in str(excinfo.value)


def test_a_graph_and_a_chain_answer_too(client: openai.OpenAI) -> None:
    graph_text = ask(client, "hi", model="graph").choices[0].message.content
    assert graph_text == "Hello there, my friend.\n\nSigned."
    chunks = list(ask(client, "Mars", model="chain", stream=True))
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert len([text for text in texts if text]) == 4
    assert "".join(text or "" for text in texts) == "Hello there, my friend."


def test_models_are_listed(client: openai.OpenAI) -> None:
    owners = {model.id: model.owned_by for model in client.models.list()}
    assert owners["chat"] == "scripted"
    assert set(owners) == {"chat", "priced", "agent", "graph", "chain", "double", "vectors"}
    assert client.models.retrieve("chat").id == "chat"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_embeddings_come_in_both_forms(client: openai.OpenAI) -> None:
    response = client.embeddings.create(model="vectors", input=["one two", "three"])
    assert [item.embedding for item in response.data] == [[7.0, 1.0, 0.5], [5.0, 0.0, 0.5]]
    plain = client.embeddings.create(model="vectors", input="one", encoding_format="float")
    assert plain.data[0].embedding == [3.0, 0.0, 0.5]
    with pytest.raises(openai.InternalServerError) as excinfo:
        client.embeddings.create(model="vectors", input="crash")
    assert SECRET not in excinfo.value.response.text
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="chat", input="x")


def test_the_end_marker_comes_only_after_a_good_end(server: ServeProcess) -> None:
    url = f"{server.url}/v1/chat/completions"
    good = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    assert sse(httpx.post(url, json=good).text)[-1][1] == "[DONE]"
    bad = {**good, "messages": [{"role": "user", "content": "break"}]}
    assert "error" in sse(httpx.post(url, json=bad).text)[-1][1]
