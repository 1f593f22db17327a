"""Undocumented streams of hosts: no content is lost, and no chunk is taken for another kind."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import ValidationError

from foldline.exceptions import ModelError, ModelRateLimitError
from foldline.messages import AIMessage
from foldline.protocol.fold import fold
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers._completions import CompletionsDecoder
from foldline.providers.openai._host import OPENAI
from foldline.providers.openai_compatible import (
    ChatDeepSeek,
    ChatGroq,
    ChatMistralAI,
    ChatOllama,
    ChatOpenAICompatible,
)
from tests.providers import recordings
from tests.providers.test_shared_http import CHAT, HELLO, STOP, chunk, model
from tests.servers import FaultServer, sse_answer

pytestmark = pytest.mark.timing


def decode_message(*chunks: dict[str, Any], others: list[Any] | None = None) -> AIMessage:
    """The message of a stream."""
    decoder = CompletionsDecoder(OPENAI, recordings.fail, others=others)
    events = [event for data in chunks for event in decoder.feed(data)] + decoder.end(marked=True)
    assert_valid_event_stream(events)
    return AIMessage.from_fold(fold(events), "v1")


def at(index: Any, delta: dict[str, Any], **fields: Any) -> dict[str, Any]:
    data = chunk(delta)
    data["choices"][0] |= {"index": index, **fields}
    return data


def details(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "reasoning.text", "index": 0, "text": text, **more}
    return chunk({"reasoning": text, "reasoning_details": [part]})


def test_T16_reasoning_in_slices_adds_up_to_what_was_said(
    call: Any, fault_server: FaultServer
) -> None:
    stream = [details("th"), details("ink"), details("", signature="sig"), STOP]
    fault_server.script(CHAT, sse_answer(stream, done="[DONE]"))
    chunks = call.stream(model(fault_server, output_version="v1"), "Hi")
    total = chunks[0]
    for piece in chunks[1:]:
        total += piece

    (block,) = [block for block in total.content_blocks if block["type"] == "reasoning"]
    assert block["reasoning"] == "think"
    (part,) = block["extras"]["reasoning_details"]
    assert (part["text"], part["signature"]) == ("think", "sig")


def test_slices_of_reasoning_details_do_not_grow_into_one_another(
    fault_server: FaultServer,
) -> None:
    """It took 7 s for 2,000 slices: each was added to the whole text so far."""
    stream = [*(details("a word ") for _ in range(2_000)), STOP]
    fault_server.script(CHAT, sse_answer(stream, done="[DONE]"))
    start = time.process_time()
    chunks = list(model(fault_server).stream("Hi"))
    assert time.process_time() - start < 3
    assert len(chunks) >= 2_000


@pytest.mark.parametrize(
    "failure",
    [
        {"object": "error", "message": "engine died", "type": "InternalServerError", "code": 500},
        {"detail": "engine died"},
        {"choices": [{"index": 0, "delta": {}, "error": {"message": "engine died"}}]},
    ],
)
def test_F_T04_an_error_in_another_place_is_an_error(failure: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="engine died"):
        decode_message(*HELLO, failure)


def test_F_T04_an_error_of_a_choice_has_its_class(call: Any, fault_server: FaultServer) -> None:
    failed = at(0, {}, finish_reason="error", error={"code": 429, "message": "slow down"})
    fault_server.script(CHAT, sse_answer([*HELLO, failed], done="[DONE]"))
    with pytest.raises(ModelRateLimitError, match="slow down") as excinfo:
        call.stream(model(fault_server), "Hi")
    assert excinfo.value.partial.text == "Hello"


@pytest.mark.parametrize("index", ["0", 1, "1"])
def test_the_only_choice_is_the_answer_whatever_its_index(index: Any) -> None:
    stop = at(index, {}, finish_reason="stop")
    message = decode_message(at(index, {"content": "Hel"}), at(index, {"content": "lo"}), stop)
    assert message.text == "Hello"
    assert message.finish_reason == "stop"


def test_choices_of_mixed_indexes_are_kept_apart() -> None:
    others: list[Any] = []
    message = decode_message(at("1", {"content": "A"}), at(2, {"content": "B"}), others=others)
    assert (message.text, [other_message.text for other_message in others]) == ("A", ["B"])


@pytest.mark.parametrize(
    "chunk",
    [
        at(0, {}, logprobs=5),
        at(0, {}, finish_reason=["stop"]),
        at(0, {"tool_calls": [None]}),
        {**chunk({}), "choices": [None]},
    ],
)
def test_what_says_nothing_costs_no_answer(chunk: dict[str, Any]) -> None:
    assert decode_message(*HELLO, chunk, STOP).text == "Hello"


def test_content_may_be_a_list_of_texts() -> None:
    assert decode_message(chunk({"content": ["Hel", "lo"]}), STOP).text == "Hello"


@pytest.mark.parametrize("args", [[1], 5, True])
def test_F_U03_arguments_that_are_no_object_make_an_invalid_call(args: Any) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": args}}
    message = decode_message(chunk({"tool_calls": [call]}), STOP)
    assert message.tool_calls == []
    assert [tool_call["name"] for tool_call in message.invalid_tool_calls] == ["f"]


def test_E5_a_call_of_free_text_is_whole_before_it_is_told() -> None:
    first = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "ab"}}
    second = {"index": 0, "custom": {"input": "cd"}}
    message = decode_message(chunk({"tool_calls": [first]}), chunk({"tool_calls": [second]}), STOP)
    assert [(tool_call["name"], tool_call["args"]) for tool_call in message.tool_calls] == [
        ("f", {"__arg1": "abcd"})
    ]
    assert message.invalid_tool_calls == []


def test_what_a_later_slice_repeats_is_said_once() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    slices = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}, "extra_content": extra},
        {"index": 0, "function": {"arguments": "{}"}, "extra_content": extra},
    ]
    message = decode_message(*(chunk({"tool_calls": [tool_slice]}) for tool_slice in slices), STOP)
    assert message.tool_calls[0]["extras"]["extra_content"] == extra


def test_a_message_beside_an_empty_delta_is_not_said_again() -> None:
    last = at(0, {}, finish_reason="stop", message={"role": "assistant", "content": "Hello"})
    assert decode_message(*HELLO, last).text == "Hello"


def test_what_was_open_at_first_is_heard_later() -> None:
    first = {**HELLO[0], "system_fingerprint": None, "service_tier": None}
    later = {**HELLO[1], "system_fingerprint": "fp", "service_tier": "default"}
    metadata = decode_message(first, later, STOP).response_metadata
    assert (metadata["system_fingerprint"], metadata["service_tier"]) == ("fp", "default")


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning": {"text": "think"}},
        {"reasoning": [{"text": "th"}, "ink"]},
        {"reasoning_content": [{"type": "text", "text": "think"}]},
        {"reasoning_details": {"type": "reasoning.text", "text": "think"}},
    ],
)
def test_reasoning_of_any_shape_is_reasoning(delta: dict[str, Any]) -> None:
    message = decode_message(chunk(delta), STOP)
    assert [block["reasoning"] for block in message.content_blocks] == ["think"]


def test_the_end_may_have_blanks_around_it(call: Any, fault_server: FaultServer) -> None:
    answer = sse_answer([*HELLO, STOP, b"data:  [DONE] \n\n"])
    fault_server.script(CHAT, answer)
    assert "".join(chunk.text for chunk in call.stream(model(fault_server), "Hi")) == "Hello"


def test_F_V08_the_key_of_one_host_is_not_taken_for_another() -> None:
    with pytest.raises(
        ValidationError, match="mistral_api_key is the key of another host"
    ) as excinfo:
        ChatGroq(model="m", mistral_api_key="sk-canary")
    assert "sk-canary" not in str(excinfo.value)
    assert ChatGroq(model="m", groq_api_key="k").api_key.get_secret_value() == "k"
    model = ChatOpenAICompatible(
        provider="mine", base_url="http://h/v1", model="m", mine_api_key="k"
    )
    assert model.api_key.get_secret_value() == "k"


def test_an_address_is_one_under_every_name() -> None:
    for chat in (
        ChatDeepSeek(model="m", api_key="k", api_base="https://proxy.corp/v1"),
        ChatMistralAI(model="m", api_key="k", endpoint="https://proxy.corp/v1"),
    ):
        assert chat.explain("Hi").url == "https://proxy.corp/v1/chat/completions"


@pytest.mark.parametrize("url", ["http://localhost:11434", "http://localhost:11434/"])
def test_ollama_may_be_named_by_its_machine(url: str) -> None:
    assert ChatOllama(model="m", base_url=url).explain("Hi").url == (
        "http://localhost:11434/v1/chat/completions"
    )
