"""From bytes to events: however a stream is cut the events are the same, and whatever breaks it has a type."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import ModelError, StreamTruncatedError
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.bedrock._reading import FrameReading
from foldline.transports import SizeLimits
from tests.providers.bedrock.answers import NAMES, decode_stream, decoder, events_of, stream_of
from tests.servers.event_stream import event, exception, frame

MODEL = ChatBedrockConverse(model="m", region_name="us-east-1")


def reading() -> FrameReading:
    return FrameReading(
        decoder(), MODEL._stream_error, MODEL._parse, MODEL._malformed, SizeLimits()
    )


def read(parts: list[bytes]) -> tuple[list[Any], Exception | None]:
    """The events of a stream and what broke it."""
    stream, events = reading(), []
    for part in parts:
        events += stream.feed(part)
        if stream.fault is not None:
            return events, stream.fault
    try:
        return events + stream.end(), None
    except ModelError as error:
        return events, error


def split_bytes(data: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(ends)]


places = st.lists(st.integers(0, 5000), max_size=10)


@given(st.sampled_from(NAMES), places)
def test_any_cut_gives_the_same_events(name, cuts):
    assert read(split_bytes(stream_of(name), cuts)) == (decode_stream(events_of(name)), None)


@given(st.sampled_from(NAMES), places, st.integers(0, 5000))
def test_a_stream_that_ends_anywhere_is_a_prefix_and_an_error(name, cuts, end):
    data = stream_of(name)
    tail = len(event(*events_of(name)[-1]))
    prefix = data[: end % (len(data) - tail - 1)]
    events, error = read(split_bytes(prefix, cuts))

    assert isinstance(error, ModelError)
    assert error.is_retryable
    assert events == decode_stream(events_of(name))[: len(events)]


@given(st.sampled_from(NAMES), places, st.integers(0, 5000), st.integers(1, 255))
def test_a_byte_that_changed_is_an_error_or_comes_too_late(name, cuts, place, change):
    data = bytearray(stream_of(name))
    data[place % len(data)] ^= change
    events, error = read(split_bytes(bytes(data), cuts))

    assert error is None or isinstance(error, ModelError)
    if error is None:  # in the metadata after messageStop, of which the length broke
        assert events[-1]["event"] == "message-finish"
    good = decode_stream(events_of(name))
    assert events[:-1] == good[: len(events[:-1])]


def test_after_the_end_nothing_is_read():
    stream = reading()
    events = stream.feed(stream_of("text") + exception("throttlingException", "late"))

    assert events[-1]["event"] == "message-finish"
    assert (stream.fault, stream.is_over, stream.feed(b"noise"), stream.end()) == (
        None,
        True,
        [],
        [],
    )


def test_events_before_an_exception_are_returned_first():
    data = b"".join(event(*item) for item in events_of("text")[:2])
    events, error = read([data + exception("internalServerException", "oops")])

    assert [event["event"] for event in events] == [
        "message-start",
        "content-block-start",
        "content-block-delta",
    ]
    assert "oops" in str(error)


@pytest.mark.parametrize("kind", ["", "event", "novelty"])
def test_frames_of_an_unknown_type_do_no_harm(kind):
    unknown_frame = frame({":message-type": (7, kind), ":event-type": (7, "ping")})
    events, error = read([unknown_frame, stream_of("text")])

    assert error is None
    assert events[-1]["metadata"].pop("ping", {}) == {}


def test_headers_of_another_type_do_no_harm():
    unknown_frame = frame({":message-type": (4, 5), ":event-type": (0, True)}, b"{}")

    assert read([unknown_frame, stream_of("text")])[1] is None


@pytest.mark.parametrize("payload", [b"[1]", b'"x"', b"5", b"null", b"{", b"\xff"])
def test_a_payload_that_is_no_object_is_malformed(payload):
    headers = {":message-type": (7, "event"), ":event-type": (7, "contentBlockDelta")}
    _, error = read([frame(headers, payload)])

    assert isinstance(error, ModelError)
    assert not isinstance(error, StreamTruncatedError)


def test_events_of_every_answer_follow_the_grammar():
    for name in NAMES:
        assert_valid_event_stream(read([stream_of(name)])[0])
