"""The rules of HTTP/2 over bytes alone: whatever arrives, each call gets its events in order, and one end."""

from __future__ import annotations

import random
from typing import Any

import hpack
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from foldline.transports._http2 import CallFailed, Http2State

REQUEST = [
    (b":method", b"POST"),
    (b":authority", b"a.example"),
    (b":scheme", b"https"),
    (b":path", b"/"),
]
CALLS = (1, 3, 5)


def begun() -> Http2State:
    """Return the state of a connection with three calls, whose requests are not complete."""
    state = Http2State()
    state.initiate_connection()
    state.increment_flow_control_window(1)
    for stream in CALLS:
        assert state.get_next_available_stream_id() == stream
        state.send_headers(stream, REQUEST)
        state.increment_flow_control_window(1, stream_id=stream)
    return state


def head(stream: int, *headers: tuple[str, str], end: bool = False) -> bytes:
    flags = ["END_HEADERS", *(["END_STREAM"] if end else [])]
    block = hpack.Encoder().encode(headers or ((":status", "200"),))
    return HeadersFrame(stream, block, flags=flags).serialize()


def random_frame(rng: random.Random) -> bytes:
    stream = rng.choice(CALLS)
    kinds: list[Any] = [
        lambda: head(
            stream,
            (":status", rng.choice(["200", "200", "404", "103", "abc"])),
            ("content-length", str(rng.randrange(12))),
        ),
        lambda: head(stream, end=rng.random() < 0.2),
        *[lambda: DataFrame(stream, rng.randbytes(rng.randrange(6))).serialize()] * 8,
        lambda: DataFrame(stream, b"x", flags=["END_STREAM"]).serialize(),
        lambda: RstStreamFrame(stream, error_code=rng.choice([0, 7, 8, 99])).serialize(),
        lambda: GoAwayFrame(
            0, last_stream_id=rng.choice(CALLS), error_code=rng.choice([0, 0, 2])
        ).serialize(),
        lambda: SettingsFrame(
            0, settings={rng.choice([1, 3, 4, 5, 99]): rng.choice([0, 1, 2**14, 2**31])}
        ).serialize(),
        lambda: WindowUpdateFrame(rng.choice([0, *CALLS]), window_increment=5).serialize(),
        lambda: PriorityFrame(stream, depends_on=rng.choice([0, *CALLS])).serialize(),
        lambda: rng.randbytes(rng.randrange(12)) if rng.random() < 0.2 else b"",
    ]
    return bytes(rng.choice(kinds)())


def test_any_bytes_give_each_call_its_events_and_one_end() -> None:
    rng = random.Random(7)
    kinds: set[type[Event]] = set()
    for _ in range(500):
        state, started, ended = begun(), set(), set()
        data = [head(stream) for stream in CALLS if rng.random() < 0.8]
        for piece in [*data, *(random_frame(rng) for _ in range(rng.randrange(30)))]:
            stream = rng.choice(CALLS)
            if state.local_flow_control_window(stream) >= 3:
                state.send_data(stream, b"abc")
            for event in state.receive_data(piece):
                if not isinstance(event, (ResponseReceived, DataReceived, StreamEnded, CallFailed)):
                    continue
                kinds.add(type(event))
                assert event.stream_id in CALLS
                assert event.stream_id not in ended
                if isinstance(event, CallFailed):
                    assert event.reason
                else:
                    assert isinstance(event, ResponseReceived) != (event.stream_id in started)
                    started.add(event.stream_id)
                if isinstance(event, (StreamEnded, CallFailed)):
                    ended.add(event.stream_id)
            state.data_to_send()
    assert kinds == {ResponseReceived, DataReceived, StreamEnded, CallFailed}


def test_frames_without_content_are_no_events_and_return_their_window() -> None:
    state = begun()
    state.receive_data(head(1))
    before = state.inbound_flow_control_window
    for _ in range(2000):
        empty = DataFrame(1, b"", flags=["PADDED"], pad_length=255).serialize()
        assert state.receive_data(DataFrame(1, b"").serialize() + empty) == []
    state.data_to_send()
    assert state.remote_flow_control_window(1) > 500_000
    assert before - state.inbound_flow_control_window == 2000 * 256  # returned with the next update


def test_many_small_frames_are_one_event_for_each_call() -> None:
    state = begun()
    state.receive_data(head(1) + head(3))
    frames = [DataFrame(stream, b"x", flags=["PADDED"], pad_length=1) for stream in (1, 3)]
    first, second, end = state.receive_data(
        b"".join(frame.serialize() for frame in frames) * 3000
        + DataFrame(3, b"y", flags=["END_STREAM"]).serialize()
    )
    assert isinstance(first, DataReceived)
    assert isinstance(second, DataReceived)
    assert (first.stream_id, first.data, first.flow_controlled_length) == (1, b"x" * 3000, 9000)
    assert (second.stream_id, second.data) == (3, b"x" * 3000 + b"y")
    assert isinstance(end, StreamEnded)


def test_an_abandoned_call_returns_what_was_not_read() -> None:
    state = begun()
    state.receive_data(head(1) + head(3) + DataFrame(1, bytes(9000)).serialize())
    state.receive_data(DataFrame(3, bytes(1000)).serialize())
    state.data_to_send()
    manager = state._inbound_flow_control_window_manager
    assert manager._bytes_processed == 0
    state.abandon_all_except({3, 5})
    assert manager._bytes_processed == 9000
    assert state.data_to_send() == RstStreamFrame(1, error_code=8).serialize()
    state.abandon_all_except({3, 5})
    assert manager._bytes_processed == 9000
    assert state.data_to_send() == b""


def test_after_goaway_no_further_call_begins() -> None:
    state = begun()
    (event,) = state.receive_data(GoAwayFrame(0, last_stream_id=3).serialize())
    assert isinstance(event, CallFailed)
    assert (event.stream_id, event.kind) == (5, "reset")
    assert state.is_leaving
    assert [
        type(event)
        for event in state.receive_data(
            head(1) + DataFrame(1, b"x", flags=["END_STREAM"]).serialize()
        )
    ] == [ResponseReceived, DataReceived, StreamEnded]
