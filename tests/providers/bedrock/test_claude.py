"""Claude on Bedrock through its own wire: InvokeModel, frames of chunks; the official client as judge."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from contextlib import aclosing
from typing import Any

import pytest
from anthropic import AnthropicBedrock

from foldline.exceptions import (
    MalformedStreamError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    StreamTruncatedError,
)
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.bedrock import ChatAnthropicBedrock, ChatAnthropicMantle, ChatOpenAIMantle
from tests.providers.anthropic.recordings import (
    PAIRS,
    decode_stream,
    message_of,
    payloads,
    stream_of,
    whole_of,
)
from tests.servers import Answer
from tests.servers.bedrock import ACCESS_KEY, BEARER, REGION, SECRET_KEY
from tests.servers.event_stream import chunk, event, exception, frame

pytestmark = pytest.mark.timing

KEYS = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
KNOWN = [name for name in PAIRS if name != "unknown-block"]


def model_of(url: str, **settings: Any) -> ChatAnthropicBedrock:
    defaults = {"model": MODEL, "base_url": url, "region_name": REGION, "max_retries": 0, **KEYS}
    return ChatAnthropicBedrock(**defaults | settings)


def events_of(name: str) -> list[tuple[str, Any]]:
    return payloads(stream_of(name))


def same(message: AIMessage, expected: AIMessage) -> None:
    assert message.content == expected.content
    assert message.tool_calls == expected.tool_calls
    assert message.usage_metadata == expected.usage_metadata
    assert message.response_metadata["model_provider"] == "anthropic"


@pytest.mark.parametrize("name", PAIRS)
def test_a_whole_answer_is_that_of_anthropic(call, stub, name):
    stub.answer = whole_of(name)
    same(
        call.invoke(model_of(stub.url, output_version="v1"), "Hi"),
        message_of(decode_stream(stream_of(name))),
    )


@pytest.mark.parametrize("name", PAIRS)
def test_a_streamed_answer_is_that_of_anthropic(call, stub, name):
    stub.events = events_of(name)
    chunks = call.stream(model_of(stub.url), "Hi")
    message = sum(chunks[1:], chunks[0])
    assert message.text == message_of(decode_stream(stream_of(name))).text
    assert_valid_event_stream(call.stream_v2(model_of(stub.url), "Hi"))


def test_the_body_names_the_version_and_the_path_the_model(call, stub):
    stub.answer, stub.events = whole_of("text"), events_of("text")
    model = model_of(
        stub.url, max_tokens=9, betas=["b-1"], thinking={"type": "enabled", "budget_tokens": 1024}
    )
    call.invoke(model, "Hi")
    call.stream(model, "Hi")
    whole_request, stream_request = stub.requests
    assert whole_request["path"] == f"/model/{MODEL.replace(':', '%3A')}/invoke"
    assert (
        stream_request["path"] == f"/model/{MODEL.replace(':', '%3A')}/invoke-with-response-stream"
    )
    assert whole_request["body"] == stream_request["body"]
    body = whole_request["body"]
    assert (body["anthropic_version"], body["anthropic_beta"]) == ("bedrock-2023-05-31", ["b-1"])
    assert not body.keys() & {"model", "stream"}
    assert not whole_request["headers"].keys() & {
        "x-api-key",
        "anthropic-version",
        "anthropic-beta",
    }


def test_a_bearer_key_is_sent_and_anthropics_is_not(call, stub, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    stub.answer = whole_of("text")
    call.invoke(model_of(stub.url, api_key=BEARER), "Hi")
    headers = stub.requests[-1]["headers"]
    assert headers["authorization"] == f"Bearer {BEARER}"
    assert "sk-ant-secret" not in str(headers)


def test_what_it_wrote_is_its_own_for_anthropic_too(call, stub):
    stub.answer = whole_of("thinking")
    answer = call.invoke(model_of(stub.url), "Hi")
    messages = [HumanMessage("Hi"), answer, HumanMessage("On")]
    for model in (ChatAnthropic(model="claude-sonnet-4-5", api_key="k"), model_of(stub.url)):
        explanation = model.explain(messages)
        assert explanation.body["messages"][1]["content"][0]["type"] == "thinking"
        assert explanation.notes == []


# -- the official client


def client_of(url: str) -> AnthropicBedrock:
    return AnthropicBedrock(api_key=BEARER, aws_region=REGION, base_url=url, max_retries=0)


@pytest.mark.parametrize("name", KNOWN)
def test_they_read_our_frames_as_we_do(stub, name):
    stub.events = events_of(name)
    options: Any = {
        "model": MODEL,
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
    }
    with client_of(stub.url) as client, client.messages.create(**options, stream=True) as stream:
        sdk_events = list(stream)
    text = "".join(
        sdk_event.delta.text
        for sdk_event in sdk_events
        if sdk_event.type == "content_block_delta" and sdk_event.delta.type == "text_delta"
    )
    message = message_of(decode_stream(stream_of(name)))
    starts = [
        sdk_event.content_block
        for sdk_event in sdk_events
        if sdk_event.type == "content_block_start"
    ]
    assert text + "".join(getattr(block, "text", "") or "" for block in starts) == message.text


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


CONVERSATIONS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": ([HumanMessage("Grüße 🎈")], {"stop": ["x"], "temperature": 0.5}),
    "media": (
        [
            HumanMessage(
                [
                    {"type": "image", "base64": "AAEC", "mime_type": "image/png"},
                    {"type": "text", "text": "?"},
                ]
            )
        ],
        {"top_k": 3},
    ),
    "tools": (
        [
            HumanMessage("Add"),
            AIMessage("", tool_calls=[{"id": "t_1", "name": "add", "args": {"a": 1, "b": 2}}]),
            ToolMessage("3", tool_call_id="t_1"),
        ],
        {"tools": [add], "tool_choice": "add"},
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_they_send_what_we_send(call, stub, name):
    stub.answer = whole_of("text")
    messages, options = CONVERSATIONS[name]
    call.invoke(model_of(stub.url, max_tokens=50), messages, **options)
    foldline_request = stub.requests[-1]
    parameters = {"max_tokens", "messages"}  # the client has parameters for few of the others
    body = {k: v for k, v in foldline_request["body"].items() if k in parameters}
    more = {k: v for k, v in foldline_request["body"].items() if k not in parameters}
    with client_of(stub.url) as client:
        client.messages.create(model=MODEL, extra_body=more, **body)
    sdk_request = stub.requests[-1]
    assert sdk_request["body"] == foldline_request["body"]
    assert sdk_request["path"].replace(":", "%3A") == foldline_request["path"]


# -- what goes wrong

STREAM_PATH = f"/model/{MODEL.replace(':', '%3A')}/invoke-with-response-stream"
STREAM_TYPE = {"content-type": "application/vnd.amazon.eventstream"}
BEGINNING = b"".join(chunk(data) for _, data in events_of("text")[:4])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (exception("throttlingException", "slow"), ModelRateLimitError),
        (exception("modelStreamErrorException", "broke"), ModelAPIError),
        (exception("internalServerException", "broke"), ModelAPIError),
        (exception("expiredTokenException", "expired"), ModelAuthenticationError),
        (
            chunk({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
            ModelOverloadedError,
        ),
        (event("chunk", {"no": "bytes"}), MalformedStreamError),
        (event("chunk", {"bytes": "###"}), MalformedStreamError),
        (event("chunk", {"bytes": "e30"}), MalformedStreamError),
        (chunk([1]), MalformedStreamError),
        (b"\x00" * 16, MalformedStreamError),
        (event("newer", {"x": 1}), StreamTruncatedError),
        (b"", StreamTruncatedError),
    ],
)  # fmt: skip
def test_a_fault_in_the_stream_comes_after_what_was_said(call, fault_server, data, expected):
    url = fault_server.url
    fault_server.script(STREAM_PATH, Answer(BEGINNING + data, headers=STREAM_TYPE))
    with pytest.raises(expected) as excinfo:
        call.stream(model_of(url, max_retries=3), "Hi")
    assert excinfo.value.partial.text
    assert fault_server.hits(STREAM_PATH) == 1


def test_every_cut_is_an_error(call, fault_server):
    frames = b"".join(chunk(data) for _, data in events_of("text"))
    answer = Answer(frames, headers=STREAM_TYPE, framing="chunked")
    for place in range(1, len(frames) - 1, len(frames) // 12):
        fault_server.script(STREAM_PATH, answer.cut(place, "fin"))
        with pytest.raises(ModelError):
            call.stream(model_of(fault_server.url), "Hi")


def test_a_wrong_checksum_is_an_error(call, fault_server):
    damaged = bytearray(chunk(events_of("text")[3][1]))
    damaged[-6] ^= 1
    fault_server.script(STREAM_PATH, Answer(BEGINNING + bytes(damaged), headers=STREAM_TYPE))
    with pytest.raises(MalformedStreamError, match="checksum"):
        call.stream(model_of(fault_server.url), "Hi")
    assert frame({}, b"")


def test_200_with_an_error_is_an_error(call, stub):
    stub.answer = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    with pytest.raises(ModelOverloadedError, match="busy"):
        call.invoke(model_of(stub.url), "Hi")


def test_a_wrong_key_shows_none(call, stub):
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.invoke(model_of(stub.url, aws_secret_access_key="another-secret"), "Hi")
    assert ACCESS_KEY not in f"{excinfo.value} {excinfo.value.body}"


def test_a_call_can_be_cancelled(fault_server):
    fault_server.drop_all()  # idle connections of the tests before
    fault_server.script(
        STREAM_PATH, Answer([BEGINNING, ("stall", None)], headers=STREAM_TYPE, framing="chunked")
    )

    async def body() -> None:
        async with aclosing(model_of(fault_server.url).astream("Hi")) as chunks:
            assert await anext(chunks)
        task = asyncio.create_task(model_of(fault_server.url, streaming=True).ainvoke("Hi"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())
    assert fault_server.wait_for_open(0, timeout=5.0) == 0


# -- profiles, counting, writing


def test_profiles_are_those_of_anthropic():
    assert model_of("http://x").profile["reasoning"]["form"] == "budget"
    arn = "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc"
    model = model_of("http://x", model=arn, base_model="anthropic.claude-opus-4-6-v1:0")
    assert model.profile["max_output_tokens"] == 128_000


def test_tokens_are_counted(call, stub):
    stub.answer = {"inputTokens": 9}
    assert call.run(model_of(stub.url), "count_tokens_exactly", "Hi") == 9
    body = stub.requests[-1]["body"]["input"]["invokeModel"]["body"]
    assert json.loads(b64decode(body))["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("kind", [ChatAnthropicBedrock, ChatAnthropicMantle, ChatOpenAIMantle])
def test_models_are_written_and_read(kind):
    model = kind(model="m", temperature=0.5, **KEYS)
    text = dumps(model)
    assert SECRET_KEY not in text
    read = loads(text, allowed_objects="all")
    assert (type(read), read.model, read.temperature) == (kind, "m", 0.5)


# -- Mantle


def test_claude_on_mantle_is_the_messages_api_signed_by_aws(call, stub):
    stub.answer = whole_of("text")
    model = ChatAnthropicMantle(
        base_url=f"{stub.url}/anthropic", region_name=REGION, max_retries=0, **KEYS
    )
    assert call.invoke(model, "Hi").text
    request = stub.requests[-1]
    assert request["path"] == "/anthropic/v1/messages"
    assert "/bedrock-mantle/aws4_request" in request["headers"]["authorization"]
    assert request["headers"]["anthropic-version"] == "2023-06-01"


def test_openai_on_mantle_is_chat_completions_signed_by_aws(call, stub):
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Hello"},
        "finish_reason": "stop",
    }
    stub.answer = {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}
    model = ChatOpenAIMantle(base_url=f"{stub.url}/v1", region_name=REGION, max_retries=0, **KEYS)
    assert call.invoke(model, "Hi").text == "Hello"
    assert stub.requests[-1]["path"] == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("name", "path"), [("openai.gpt-oss-20b", "/v1"), ("openai.gpt-5.2", "/openai/v1")]
)
def test_where_mantle_is(name, path):
    explanation = ChatOpenAIMantle(model=name, region_name=REGION, api_key="k").explain("Hi")
    assert explanation.url == f"https://bedrock-mantle.{REGION}.api.aws{path}/chat/completions"
