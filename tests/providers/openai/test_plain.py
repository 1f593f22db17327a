"""An answer that is one text and came whole is told at once: with the events that its decoder would give."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers import recordings
from weft.exceptions import WeftError
from weft.protocol.grammar import assert_valid_event_stream
from weft.providers._completions import CompletionsDecoder
from weft.providers._completions.plain import plain_answer
from weft.providers._completions.wire import DELTA_FIELDS, HEAD, ROUTINE
from weft.providers._reading import ODD
from weft.providers.openai.host import OPENAI

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
    "answer": sorted({*ROUTINE, "x_groq", "timings", "citations", "ü", "\ud83d"}),
    "choice": ["index", "delta", "message", "finish_reason", "logprobs", "usage", "more"],
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


def decoder(model: str | None) -> CompletionsDecoder:
    return CompletionsDecoder(OPENAI, recordings.fail, model=model, others=[])


def at_length(answer: Any, model: str | None) -> list[Any]:
    decoding = decoder(model)
    return decoding.feed(answer) + decoding.end(marked=True)


@given(answers(), st.sampled_from([None, "", "asked-for", "ü"]))
def test_the_short_way_leads_where_the_long_one_does(answer: Any, model: str | None) -> None:
    told = plain_answer(copy.deepcopy(answer), "openai", model)

    if told is None:
        return
    # As JSON, for which 1 is not True; the order of names is nobody's business.
    expected = at_length(answer, model)
    assert json.dumps(told, sort_keys=True) == json.dumps(expected, sort_keys=True)
    assert_valid_event_stream(told)


@given(answers())
def test_the_short_way_stumbles_over_nothing(answer: Any) -> None:
    """What is odd is left to the decoder, which says what is wrong with it."""
    try:
        at_length(copy.deepcopy(answer), "m")
    except (WeftError, *ODD):
        assert plain_answer(answer, "openai", "m") is None


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"service_tier": None},
        {"usage": None},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
        {"timings": {"prompt_ms": 1.5}},  # llama.cpp
        {"citations": ["https://example.com/ü"]},  # Perplexity
    ],
)
def test_answers_as_hosts_send_them_go_the_short_way(change: dict[str, Any]) -> None:
    told = plain_answer({**ANSWER, **change}, "openai", "m")

    assert told is not None
    assert json.dumps(told, sort_keys=True) == json.dumps(
        at_length({**ANSWER, **change}, "m"), sort_keys=True
    )


def test_a_recorded_answer_goes_the_short_way() -> None:
    for folder, name in [("openai", "chat-text"), ("llama", "chat-text")]:
        answer = recordings.whole(folder, name)
        decoding = decoder("m")
        assert decoding.whole(answer) == at_length(answer, "m")
        assert decoding._first is None


def test_a_decoder_that_told_an_answer_is_over() -> None:
    decoding = decoder("m")
    decoding.whole(ANSWER)

    assert decoding.feed(ANSWER) == []
    assert decoding.end(marked=True) == []
    assert decoding.heard() == {"usage": None, "metadata": {}}


def test_what_is_read_elsewhere_is_not_told_twice() -> None:
    told = plain_answer(ANSWER, "openai", "m")

    assert told is not None
    assert not (HEAD - {"id"}) & told[-1]["metadata"].keys()
