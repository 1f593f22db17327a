"""Sizes and clocks over HTTP/2: floods, bombs, stalls, and requests that the server does not take."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from typing import Any

import hpack
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from foldline.exceptions import (
    LimitExceededError,
    MalformedStreamError,
    ModelError,
    ModelTimeoutError,
    SecurityError,
)
from foldline.transports import HttpOptions, SizeLimits, Timeouts, transport_for
from tests.servers.hostile_http2 import OK, Behaviour, HostileServer, Peer
from tests.transports.conftest import Caller
from tests.transports.http2_calls import HELLO, STREAM_1, answer, call, frames


def in_frames(block: bytes) -> Behaviour:
    parts = [block[start : start + 16_000] for start in range(0, len(block), 16_000)]
    rest = [ContinuationFrame(1, part) for part in parts[1:]]
    (rest or [None])[-1].flags.add("END_HEADERS")  # type: ignore[union-attr]
    return frames(HeadersFrame(1, parts[0]), *rest, before=True)


BOMB = hpack.Encoder().encode((*OK, ("x", "v" * 4000))) + b"\xbe" * 20_000
"""4 KB in the header table, and 20,000 times a reference to them."""
LARGE = hpack.Encoder().encode((*OK, *((f"x-{n}", "v" * 500) for n in range(200))), huffman=False)
TOO_LARGE: dict[str, Behaviour] = {
    "many headers": in_frames(LARGE),
    "an HPACK bomb": in_frames(BOMB),
    "endless empty continuations": lambda peer: (
        peer.send(HeadersFrame(peer.request(), b"")),
        peer.flood(ContinuationFrame(1, b"")),
    ),
    "endless full continuations": lambda peer: (
        peer.send(HeadersFrame(peer.request(), LARGE[:9000])),
        peer.flood(ContinuationFrame(1, LARGE[:16000])),
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_headers_over_the_limit(name: str, blocking: bool) -> None:
    result = call(TOO_LARGE[name], blocking)
    assert (result.pieces, type(result.error)) == ([], LimitExceededError)
    assert "the headers" in str(result.error)
    assert result.server.flooded < 4_000_000


def test_the_limits_of_the_request(blocking: bool) -> None:
    few = call(answer(headers=(*OK, ("x", "v" * 600))), blocking, limits=SizeLimits(headers=500))
    assert type(few.error) is LimitExceededError
    redirect = call(
        answer(headers=((":status", "302"), ("location", "https://b.example"))), blocking
    )
    assert type(redirect.error) is SecurityError
    zipped = (*OK, ("content-encoding", "gzip"))
    good = call(answer(gzip.compress(b"hello"), headers=zipped), blocking)
    assert (good.pieces, good.error) == (HELLO, None)
    cut = call(answer(gzip.compress(b"hello" * 99)[:-9], headers=zipped), blocking)
    assert type(cut.error) is MalformedStreamError
    bomb = call(answer(gzip.compress(bytes(10**7)), headers=zipped), blocking)
    assert type(bomb.error) is LimitExceededError


def test_a_body_over_the_limit(blocking: bool) -> None:
    def behave(peer: Peer) -> None:
        peer.headers(peer.request())
        peer.flood(DataFrame(1, b"x" * 10_000))

    with HostileServer(behave) as server:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))
        with pytest.raises(LimitExceededError):
            Caller(transport, blocking=blocking).read(
                server.url, limits=SizeLimits(message=100_000)
            )
        assert server.wait(lambda: not server.open_count())


# Requests that the server does not take


def refuse(peer: Peer, *, ends: bool, window: int, then: str) -> None:
    peer.grants_window = False
    stream = peer.headers_of_request({4: window})
    peer.send(WindowUpdateFrame(0, window_increment=2**24))
    peer.answer(stream, b"too large", headers=((":status", "413"),), end=ends)
    if then == "reset":
        peer.send(RstStreamFrame(stream))
    if not ends:
        time.sleep(0.05)
        peer.data(stream, b"!", end=True)
    if then == "close":
        time.sleep(0.05)
    else:
        peer.stay()


@pytest.mark.parametrize("window", [0, 65_535, 2**24], ids=["none", "small", "large"])
@pytest.mark.parametrize(
    ("ends", "then"),
    [(True, "wait"), (True, "reset"), (True, "close"), (False, "wait"), (False, "close")],
)
def test_F_Y06_an_answer_before_the_request_is_sent(
    ends: bool, then: str, window: int, blocking: bool
) -> None:
    with HostileServer(lambda peer: refuse(peer, ends=ends, window=window, then=then)) as server:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))
        answer = Caller(transport, blocking=blocking).read(server.url, body=bytes(10**7))
        transport.close()
    assert answer == (413, b"too large" if ends else b"too large!")
    assert len(server.peers) == 1


# Clocks


FLOODS: dict[str, Any] = {
    "pings": PingFrame(0, b"12345678"),
    "settings": SettingsFrame(0),
    "window updates": WindowUpdateFrame(1, window_increment=1),
    "empty data": DataFrame(1, b""),
    "padding": DataFrame(1, b"", flags=["PADDED"], pad_length=9),
    "unknown frames": b"\0\0\0\xee\0" + STREAM_1,
}
INTERIM = hpack.Encoder().encode([(":status", "103")])


def stall(*items: Any) -> Callable[[bool], Behaviour]:
    def make(before: bool) -> Behaviour:
        return frames(*items, before=before)

    return make


def flood(item: Any) -> Callable[[bool], Behaviour]:
    def make(before: bool) -> Behaviour:
        def behave(peer: Peer) -> None:
            stream = peer.request()
            if not before:
                peer.headers(stream)
            peer.flood(item)

        return behave

    return make


SLOW: dict[str, Callable[[bool], Behaviour]] = {
    "silence": stall(),
    "half a header": stall(b"\0\0\x10\0"),
    "half a frame": stall(b"\0\0\x10\0\0" + STREAM_1 + b"x"),
    **{name: flood(item) for name, item in FLOODS.items()},
}


CLOCKS = [
    *(("idle", name) for name in SLOW),
    *(("first_byte", name) for name in ("silence", "half a header", "pings", "unknown frames")),
    *(("total", name) for name in ("pings", "empty data")),
]


@pytest.mark.timing
@pytest.mark.parametrize(("phase", "name"), CLOCKS)
def test_nothing_outruns_a_deadline(phase: str, name: str, blocking: bool) -> None:
    """Frames without content are no progress."""
    start = time.monotonic()
    limits = {"connect": 2, "first_byte": 9, "idle": 9, phase: 0.4}
    behaviour = SLOW[name](phase == "first_byte")
    result = call(behaviour, blocking, timeouts=Timeouts(**limits))
    assert time.monotonic() - start < 2
    assert type(result.error) is ModelTimeoutError
    assert result.error.phase == phase


@pytest.mark.timing
@pytest.mark.parametrize(
    "behaviour",
    [
        frames(*[HeadersFrame(1, INTERIM, flags=["END_HEADERS"])] * 9, before=True),
        lambda peer: (peer.headers_of_request({4: 0}), peer.stay()),
        lambda peer: peer.stay(),
        lambda _: time.sleep(1),
    ],
    ids=["interim answers", "no window for the request", "no settings", "no reading"],
)
def test_a_request_without_an_answer(behaviour: Behaviour, blocking: bool) -> None:
    timeouts = Timeouts(first_byte=0.4)
    result = call(behaviour, blocking, timeouts=timeouts, body=bytes(10**6))
    assert isinstance(result.error, ModelError)
    assert result.error.phase == "first_byte"
