"""Frames of AWS's event streams: botocore reads what our stub writes, and our decoder reads the same."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from struct import pack
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer, ParserError
from hypothesis import given, strategies as st

from foldline.exceptions import LimitExceededError, MalformedStreamError, ModelError
from foldline.providers.bedrock._event_stream import EventStreamDecoder, Frame
from tests.servers.event_stream import event, exception, frame

HEADERS: dict[str, tuple[int, Any]] = {
    "yes": (0, True),
    "no": (1, False),
    "byte": (2, -5),
    "short": (3, -300),
    "integer": (4, 70_000),
    "long": (5, -(1 << 40)),
    "blob": (6, b"\x00\xff"),
    "text": (7, "grüß"),
    "time": (8, datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)),
    "uuid": (9, UUID(int=7)),
}
STREAM = (
    event("messageStart", {"role": "assistant"})
    + event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hällo"}})
    + exception("throttlingException", "slow down")
)
names = st.text(min_size=1, max_size=20)
values = st.one_of(
    st.just((0, True)),
    st.just((1, False)),
    st.integers(-128, 127).map(lambda value: (2, value)),
    st.integers(-(1 << 15), (1 << 15) - 1).map(lambda value: (3, value)),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda value: (4, value)),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda value: (5, value)),
    st.binary(max_size=40).map(lambda value: (6, value)),
    st.text(max_size=40).map(lambda value: (7, value)),
    st.uuids().map(lambda value: (9, value)),
)


def read_theirs(data: bytes) -> list[Any]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


def test_headers_of_every_type_are_read():
    (read,) = EventStreamDecoder().feed(frame(HEADERS, b"payload"))

    assert read.headers == {name: value for name, (_, value) in HEADERS.items()}
    assert read.payload == b"payload"
    assert (read.text_header("text"), read.text_header("byte"), read.text_header("none")) == (
        "grüß",
        "-5",
        "",
    )


def test_botocore_reads_the_frames_of_the_stub():
    (message,) = read_theirs(frame(HEADERS, b"payload"))
    times = {name: value for name, (_, value) in HEADERS.items()}

    assert message.payload == b"payload"
    assert message.headers["time"] == round(times.pop("time").timestamp() * 1000)
    assert message.headers["uuid"] == times.pop("uuid").bytes
    assert {name: message.headers[name] for name in times} == times


@given(st.dictionaries(names, values, max_size=5), st.binary(max_size=200))
def test_both_read_every_frame_alike(headers, payload):
    data = frame(headers, payload)
    (message,), (botocore_frame,) = EventStreamDecoder().feed(data), read_theirs(data)

    assert message.payload == botocore_frame.payload == payload
    plain = {
        name: value.bytes if isinstance(value, UUID) else value
        for name, value in message.headers.items()
    }
    assert plain == botocore_frame.headers


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_frames_are_the_same_however_the_bytes_are_cut(cuts):
    places = [0, *sorted(cuts), len(STREAM)]
    decoder = EventStreamDecoder()
    frames: list[Frame] = []
    for start, end in pairwise(places):
        frames += decoder.feed(STREAM[start:end])

    assert frames == EventStreamDecoder().feed(STREAM)
    assert decoder.is_clean


@given(st.integers(0, len(STREAM) - 1), st.integers(1, 255), st.integers(1, 50))
def test_a_byte_that_changed_is_never_read_as_data(place, change, size):
    broken = bytearray(STREAM)
    broken[place] ^= change
    decoder, frames = EventStreamDecoder(), []
    try:
        for start in range(0, len(broken), size):
            frames += decoder.feed(bytes(broken[start : start + size]))
    except MalformedStreamError:
        pass

    good = EventStreamDecoder().feed(STREAM)
    assert frames == good[: len(frames)]
    assert len(frames) < len(good)
    assert decoder.error is not None
    with pytest.raises(MalformedStreamError):
        decoder.feed(b"")


@given(st.binary(max_size=300))
def test_noise_makes_a_typed_error_or_waits_for_more(data):
    decoder = EventStreamDecoder()
    decoder.feed(data)

    assert decoder.error is None or isinstance(decoder.error, ModelError)


@given(st.binary(max_size=60))
def test_headers_of_noise_under_a_good_checksum_make_a_typed_error(block):
    prelude = pack(">II", len(block) + 16, len(block))
    message = prelude + pack(">I", crc32(prelude)) + block
    data = message + pack(">I", crc32(message))
    decoder = EventStreamDecoder()
    frames = decoder.feed(data)

    assert frames or isinstance(decoder.error, MalformedStreamError)
    if frames and not any(b"\x08" <= block[i : i + 1] <= b"\x09" for i in range(len(block))):
        assert read_theirs(data)[0].headers == frames[0].headers


def test_frames_before_a_fault_are_returned():
    decoder = EventStreamDecoder()

    assert len(decoder.feed(STREAM + b"\x00" * 16)) == 3
    with pytest.raises(MalformedStreamError, match="prelude"):
        decoder.feed(b"more")


def test_a_large_frame_is_refused_before_it_is_read():
    prelude = pack(">II", 1 << 30, 0)
    decoder = EventStreamDecoder()
    decoder.feed(prelude + pack(">I", crc32(prelude)))

    assert isinstance(decoder.error, LimitExceededError)


@pytest.mark.parametrize("sizes", [(15, 0), (0, 0), (20, 5), (16, 1 << 31)])
def test_lengths_that_contradict_each_other_are_refused(sizes):
    prelude = pack(">II", *sizes)
    decoder = EventStreamDecoder()
    decoder.feed(prelude + pack(">I", crc32(prelude)) + bytes(8))

    assert isinstance(decoder.error, MalformedStreamError)


def test_a_limit_of_ones_own_holds_for_the_payload():
    decoder = EventStreamDecoder(max_payload=10)
    decoder.feed(frame({}, b"x" * 11))

    assert isinstance(decoder.error, LimitExceededError)


def test_a_header_that_comes_twice_is_refused_as_botocore_refuses_it():
    block = (bytes([1]) + b"a" + bytes([0])) * 2
    prelude = pack(">II", len(block) + 16, len(block))
    message = prelude + pack(">I", crc32(prelude)) + block
    data = message + pack(">I", crc32(message))
    decoder = EventStreamDecoder()
    decoder.feed(data)

    assert isinstance(decoder.error, MalformedStreamError)
    with pytest.raises(ParserError):
        read_theirs(data)


def test_a_header_of_an_unknown_type_is_refused():
    decoder = EventStreamDecoder()
    decoder.feed(frame({"a": (12, b"x")}))

    assert isinstance(decoder.error, MalformedStreamError)


def test_a_date_beyond_the_calendar_stays_a_number():
    (read,) = EventStreamDecoder().feed(frame({"time": (8, 1 << 60)}))

    assert read.headers["time"] == 1 << 60
