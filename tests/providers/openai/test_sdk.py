"""The vendor's own package as a second opinion: it reads the recorded streams as we do, and accepts what we send."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import BaseModel, Field, TypeAdapter

from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.openai import ChatOpenAI
from tests.providers import recordings
from tests.providers.openai.test_decode import CHAT, RESPONSES, decoder
from tests.servers import Answer, FaultServer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def client(server: FaultServer, folder: str, name: str) -> openai.OpenAI:
    answer = Answer(
        recordings.stream_bytes(folder, name),
        headers={"content-type": "text/event-stream"},
        framing="chunked",
    )
    server.script("/v1/chat/completions", answer)
    server.script("/v1/responses", answer)
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="sk-test", max_retries=0)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["openai", "llama"])
def test_the_sdk_reads_chat_streams_as_we_do(fault_server: FaultServer, folder: str) -> None:
    for name in [n for n in recordings.names(folder, "chat-") if n != "chat-azure-filters"]:
        texts, calls, usage = [], {}, None
        with client(fault_server, folder, name) as sdk:
            for chunk in sdk.chat.completions.create(model="m", messages=[], stream=True):
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    if choice.index or choice.delta is None:
                        continue
                    texts.append(choice.delta.content or "")
                    for call in choice.delta.tool_calls or ():
                        if call.function is not None:
                            call_parts = calls.setdefault(call.index, [call.function.name, ""])
                            call_parts[1] += call.function.arguments or ""
        message = recordings.message(recordings.stream_events(decoder(name), folder, name))
        assert str(message.text) == "".join(texts), name
        if calls:
            arguments = {
                c["name"]: c["args"] for c in [*message.tool_calls, *message.invalid_tool_calls]
            }
            for tool_name, args in calls.values():
                is_complete = args.endswith("}")
                assert (
                    arguments[tool_name] == (json.loads(args) if is_complete else args)
                    or len(calls) > 1
                ), name
        assert message.usage_metadata["total_tokens"] == usage.total_tokens, name


@pytest.mark.slow
@pytest.mark.parametrize("name", RESPONSES)
def test_the_sdk_reads_responses_as_we_do(fault_server: FaultServer, name: str) -> None:
    final: Any = None
    with client(fault_server, "openai", name) as sdk:
        for event in sdk.responses.create(model="m", input=[], stream=True):
            if event.type in ("response.completed", "response.incomplete"):
                final = event.response
    message = recordings.message(recordings.stream_events(decoder(name), "openai", name))

    assert str(message.text) == final.output_text
    expected_calls = [
        (item.call_id, item.name)
        for item in final.output
        if item.type in ("function_call", "custom_tool_call")
    ]
    assert [
        (c["id"], c["name"]) for c in [*message.tool_calls, *message.invalid_tool_calls]
    ] == expected_calls
    assert message.usage_metadata["output_tokens"] == final.usage.output_tokens
    assert (
        message.usage_metadata["input_token_details"]["cache_read"]
        == final.usage.input_tokens_details.cached_tokens
    )


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(description="Where")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


CONVERSATION = [
    SystemMessage("Be brief."),
    HumanMessage(
        [
            {"type": "text", "text": "What is this?"},
            {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
            {"type": "image", "url": "https://example.com/a.png"},
            {
                "type": "file",
                "base64": "JVBERi0=",
                "mime_type": "application/pdf",
                "filename": "a.pdf",
            },
            {"type": "file", "file_id": "file-1"},
        ]
    ),
    AIMessage(
        "Let me add.", tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": "call_1"}]
    ),
    ToolMessage("3", tool_call_id="call_1"),
    HumanMessage("Thanks."),
]
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tools": {"tools": [add, Weather], "tool_choice": "add", "parallel_tool_calls": False},
    "strict": {"tools": [add], "tool_choice": "any", "strict": True},
    "schema": {"response_format": Weather},
    "json": {"response_format": {"type": "json_object"}},
    "options": {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 5,
        "user": "me",
        "service_tier": "auto",
    },
}


def accepts(kind: Any, body: dict[str, Any]) -> None:
    """Check a body by the types of the vendor's package: every value fits, and no key is made up."""
    assert set(body) <= set(kind.__annotations__) | set(kind.__mro__[0].__annotations__) | allowed(
        kind
    )
    TypeAdapter(kind).validate_python(body)


def allowed(kind: Any) -> set[str]:
    import typing_extensions

    return set(typing_extensions.get_type_hints(kind))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", CALLS)
def test_the_sdk_accepts_our_chat_bodies(case: str, stream: bool) -> None:
    model = ChatOpenAI(
        model="gpt-next", api_key="sk-test", use_responses_api=False, seed=1, n=1, store=False
    )
    explanation = model.explain(CONVERSATION, stream=stream, **CALLS[case])

    accepts(
        CompletionCreateParamsStreaming if stream else CompletionCreateParamsNonStreaming,
        explanation.body,
    )
    assert explanation.url.endswith("/chat/completions")


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", CALLS)
def test_the_sdk_accepts_our_responses_bodies(case: str, stream: bool) -> None:
    model = ChatOpenAI(
        model="gpt-next", api_key="sk-test", use_responses_api=True, verbosity="low", store=False
    )
    explanation = model.explain(CONVERSATION, stream=stream, reasoning_effort="low", **CALLS[case])

    accepts(
        ResponseCreateParamsStreaming if stream else ResponseCreateParamsNonStreaming,
        explanation.body,
    )
    assert explanation.url.endswith("/responses")
    assert explanation.body["include"] == ["reasoning.encrypted_content"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RESPONSES)
def test_the_sdk_accepts_answers_sent_back(name: str) -> None:
    answer = recordings.message(recordings.stream_events(decoder(name), "openai", name))
    results = [
        ToolMessage("ok", tool_call_id=call["id"])
        for call in [*answer.tool_calls, *answer.invalid_tool_calls]
    ]
    explanation = ChatOpenAI(api_key="sk-test").explain([HumanMessage("Hi"), answer, *results])

    accepts(ResponseCreateParamsNonStreaming, explanation.body)


@pytest.mark.parametrize("name", CHAT)
def test_the_sdk_accepts_chat_answers_sent_back(name: str) -> None:
    answer = recordings.message(recordings.stream_events(decoder(name), "openai", name))
    if name == "chat-legacy-function-call":
        answer.tool_calls[0]["id"] = "call_old"
    results = [
        ToolMessage("ok", tool_call_id=call["id"])
        for call in [*answer.tool_calls, *answer.invalid_tool_calls]
    ]
    explanation = ChatOpenAI(api_key="sk-test").explain([HumanMessage("Hi"), answer, *results])

    accepts(CompletionCreateParamsNonStreaming, explanation.body)
