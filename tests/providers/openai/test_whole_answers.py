"""Answers of chat completions that come whole: whatever is odd in them, the events are valid and nothing is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import FoldlineError, LimitExceededError
from foldline.messages import AIMessage
from foldline.protocol.fold import fold
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers._completions import CompletionsDecoder, Host
from foldline.providers._completions.wire import DELTA_FIELDS, READ_FIELDS, REPEATED_FIELDS
from foldline.providers._reading import MALFORMED_PAYLOAD_ERRORS
from foldline.providers.openai._host import OPENAI
from foldline.providers.openai_compatible import HOSTS
from foldline.transports import SizeLimits
from tests.providers import recordings
from tests.providers.test_shared_http import CHAT, model
from tests.servers import FaultServer, json_answer

# As api.openai.com sends one: fields that say nothing are there, too.
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1763251200,
    "model": "gpt-5-mini-2025-08-07",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Bears sleep in winter.",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 12,
        "total_tokens": 21,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 8, "accepted_prediction_tokens": 0},
    },
    "service_tier": "default",
    "system_fingerprint": None,
}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 10**16)
    | st.just(10**400)
    | st.floats(allow_nan=False)
    | st.sampled_from(
        ["", "text", "ü", "\ud83d", "\ud83d\ude00", "stop", "tool_calls", "eos", "0"]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["text", "type", "ü", "\ud83d", "cached_tokens"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)
NAMES = {
    "answer": sorted({*REPEATED_FIELDS, "x_groq", "timings", "citations", "ü", "\ud83d"}),
    "choice": ["index", "delta", "message", "finish_reason", "logprobs", "usage", "stop_reason"],
    "message": sorted({*DELTA_FIELDS, "more", "executed_tools"}),
    "usage": [
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "prompt_tokens_details",
        "more",
    ],
}


@st.composite
def answers(draw: st.DrawFn) -> Any:
    """An answer of which some fields are not what they should be, or not there."""
    answer = copy.deepcopy(ANSWER)
    places = {
        "usage": answer["usage"],
        "message": answer["choices"][0]["message"],
        "choice": answer["choices"][0],
        "answer": answer,
    }
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(sorted(places)))
        name = draw(st.sampled_from(NAMES[place]))
        if draw(st.booleans()):
            places[place].pop(name, None)
        else:
            places[place][name] = draw(JSON)
    if draw(st.integers(0, 9)) == 0:
        answer["choices"] = draw(JSON | st.just([places["choice"]] * 2))
    return answer


def decoder(model: str | None, host: Host = OPENAI) -> CompletionsDecoder:
    return CompletionsDecoder(host, recordings.fail, model=model, others=[])


@given(
    answers(),
    st.sampled_from([None, "", "asked-for", "ü"]),
    st.sampled_from([OPENAI, *HOSTS.values()]),
)
def test_an_odd_answer_is_a_valid_stream_or_a_fault_of_the_vendor(
    answer: Any, model: str | None, host: Host
) -> None:
    try:
        events = decoder(model, host).decode_answer(answer)
    except (FoldlineError, *MALFORMED_PAYLOAD_ERRORS):
        return
    assert_valid_event_stream(events)
    fold(events)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"service_tier": None},
        {"usage": None},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
        {"timings": {"prompt_ms": 1.5}},  # llama.cpp
        {"citations": ["https://example.com/ü"]},  # Perplexity
        {"x_groq": {"id": "req_1"}},
        {"choices": [{**ANSWER["choices"][0], "stop_reason": None}]},  # vLLM
    ],
)
def test_answers_as_hosts_send_them_are_one_text(change: dict[str, Any]) -> None:
    events = decoder("m").decode_answer({**ANSWER, **change})

    message = AIMessage.from_fold(fold(events), "v0")
    assert message.content == "Bears sleep in winter."
    assert message.finish_reason == "stop"
    metadata = {name: value for name, value in change.items() if name in ("timings", "citations")}
    assert metadata.items() <= message.response_metadata.items()


@pytest.mark.parametrize("folder", ["openai", "llama"])
def test_a_recorded_answer_is_read_whole(folder: str) -> None:
    answer = recordings.whole_answer(folder, "chat-text")
    message = AIMessage.from_fold(fold(decoder("m").decode_answer(answer)), "v0")

    assert message.content == answer["choices"][0]["message"]["content"]


def test_a_decoder_that_told_an_answer_is_over() -> None:
    decoding = decoder("m")
    decoding.decode_answer(ANSWER)

    assert decoding.feed(ANSWER) == []
    assert decoding.end(marked=True) == []


def test_E2_nothing_of_a_plain_answer_is_lost_when_its_reader_leaves(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, json_answer(ANSWER))
    answer = call.invoke(model(fault_server), "Hi")
    events = call.stream_v2(model(fault_server), "Hi")
    assert AIMessage.from_fold(fold(events), "v0").model_copy(update={"id": answer.id}) == answer
    assert "".join(chunk.text for chunk in call.stream(model(fault_server), "Hi")) == answer.text

    with model(fault_server).stream_v2("Hi") as stream:
        next(iter(stream))
    assert stream.partial.usage_metadata == answer.usage_metadata
    keys = {"id", "service_tier", "token_usage"}
    assert keys <= stream.partial.response_metadata.keys()

    with pytest.raises(LimitExceededError) as excinfo:
        call.invoke(model(fault_server, limits=SizeLimits(blocks=0)), "Hi")
    assert excinfo.value.partial.usage_metadata == answer.usage_metadata


def test_what_is_read_elsewhere_is_not_told_twice() -> None:
    finish = decoder("m").decode_answer(ANSWER)[-1]

    assert not (READ_FIELDS - {"id"}) & finish["metadata"].keys()
