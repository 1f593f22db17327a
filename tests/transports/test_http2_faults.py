"""A server that breaks HTTP/2, or uses its rarer rules: one call, streamed, sync and async.

Every fault ends with a typed error, in time, and after the data that arrived before it; no request is sent twice.
"""

from __future__ import annotations

import time

import hpack
import pytest
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)

from foldline.exceptions import (
    MalformedStreamError,
    ModelConnectionError,
    StreamInterruptedError,
)
from tests.servers.hostile_http2 import OK, Behaviour, Peer
from tests.transports.http2_calls import HELLO, KEY, STREAM_1, answer, call, frames

# The server ends a call, or the connection

CODES = {
    0: "NO_ERROR",
    2: "INTERNAL_ERROR",
    7: "REFUSED_STREAM",
    8: "CANCEL",
    11: "ENHANCE_YOUR_CALM",
    99: "code 99",
}


@pytest.mark.parametrize("code", CODES)
def test_a_call_reset_before_its_answer_may_be_sent_again(code: int, blocking: bool) -> None:
    result = call(frames(RstStreamFrame(1, error_code=code), before=True), blocking)
    assert type(result.error) is ModelConnectionError
    assert result.error.is_retryable
    assert CODES[code] in str(result.error)
    assert ("not processed" in str(result.error)) == (code == 7)
    assert len(result.server.asked) == 1


@pytest.mark.parametrize("code", CODES)
def test_a_call_reset_in_its_answer_is_interrupted(code: int, blocking: bool) -> None:
    result = call(frames(DataFrame(1, b"hello"), RstStreamFrame(1, error_code=code)), blocking)
    assert (result.pieces, type(result.error)) == (HELLO, StreamInterruptedError)
    assert CODES[code] in str(result.error)


def test_a_server_that_wants_http1_is_not_asked_again(blocking: bool) -> None:
    result = call(frames(RstStreamFrame(1, error_code=13), before=True), blocking)
    assert type(result.error) is ModelConnectionError
    assert not result.error.is_retryable
    assert "HttpOptions(http2=False)" in str(result.error)


@pytest.mark.parametrize("code", [0, 2, 11])
@pytest.mark.parametrize("last", [0, 1])
def test_goaway_before_the_answer(code: int, last: int, blocking: bool) -> None:
    goaway = GoAwayFrame(0, last_stream_id=last, error_code=code, additional_data=b"too_many_pings")

    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(goaway)
        if code == 0:
            return  # and the connection is closed
        peer.stay()

    result = call(behave, blocking)
    assert type(result.error) is ModelConnectionError
    assert result.error.is_retryable
    assert ("not processed" in str(result.error)) == (last == 0)
    assert ("too_many_pings" in str(result.error)) == (code != 0 or last == 0)
    assert len(result.server.asked) == 1


@pytest.mark.parametrize("last", [1, 2**31 - 1])
def test_goaway_without_an_error_lets_the_answer_end(last: int, blocking: bool) -> None:
    """RFC 9113, 6.8: the calls up to the last one are finished."""

    def behave(peer: Peer) -> None:
        stream = peer.request()
        peer.send(GoAwayFrame(0, last_stream_id=last))
        time.sleep(0.02)
        peer.answer(stream, b"hel", end=False)
        peer.send(GoAwayFrame(0, last_stream_id=1))
        time.sleep(0.02)
        peer.data(stream, b"lo", end=True)
        peer.stay()

    result = call(behave, blocking)
    assert (b"".join(result.pieces), result.error) == (b"hello", None)


def test_goaway_in_the_answer_and_the_end_of_the_connection(blocking: bool) -> None:
    def behave(peer: Peer) -> None:
        peer.answer(peer.request(), b"hello", end=False)
        peer.send(GoAwayFrame(0, last_stream_id=1))

    result = call(behave, blocking)
    assert (result.pieces, type(result.error)) == (HELLO, StreamInterruptedError)


def test_goaway_with_an_error_in_the_answer(blocking: bool) -> None:
    note = f"wrong {KEY}".encode()
    last = GoAwayFrame(0, last_stream_id=1, error_code=2, additional_data=note)
    result = call(frames(DataFrame(1, b"hello"), last), blocking)
    assert (result.pieces, type(result.error)) == (HELLO, StreamInterruptedError)
    assert "INTERNAL_ERROR: wrong ***" in str(result.error)


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_connection_that_ends_in_the_answer(how: str, blocking: bool) -> None:
    def behave(peer: Peer) -> None:
        peer.answer(peer.request(), b"hello", end=False)
        time.sleep(0.05)
        if how == "rst":
            peer.reset()

    result = call(behave, blocking)
    assert (result.pieces, type(result.error)) == (HELLO, StreamInterruptedError)


# What breaks the protocol


def status(*headers: tuple[str, str]) -> Behaviour:
    return answer(b"hello", headers=headers)


def headers_frame(*headers: tuple[str, str], end: bool = False) -> HeadersFrame:
    flags = ["END_HEADERS", *(["END_STREAM"] if end else [])]
    return HeadersFrame(1, hpack.Encoder().encode(headers), flags=flags)


PUSHED = hpack.Encoder().encode(
    [(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", "localhost")]
)
BROKEN_BEFORE: dict[str, Behaviour] = {
    "no status": status(("x", "y")),
    "a status that is no number": status((":status", "abc")),
    "an empty status": status((":status", "")),
    "a status with five digits": status((":status", "20000")),
    "a status below 100": status((":status", "-1")),
    "a status with an underscore": status((":status", "2_00")),
    "two statuses": status((":status", "200"), (":status", "500")),
    "a status after a header": status(("x", "y"), (":status", "200")),
    "a pseudo-header of a request": status(*OK, (":path", "/")),
    "switched protocols": status((":status", "101")),
    "a line break in a value": status(*OK, ("x", "a\r\nset-cookie: b")),
    "a NUL in a value": status(*OK, ("x", "a\0b")),
    "a line break in a name": status(*OK, ("x\r\ny", "a")),
    "an empty name": status(*OK, ("", "a")),
    "a content-length that is no number": status(*OK, ("content-length", KEY)),
    "data before headers": frames(DataFrame(1, b"x", flags=["END_STREAM"]), before=True),
    "a pushed answer": frames(PushPromiseFrame(1, 2, PUSHED, flags=["END_HEADERS"]), before=True),
    "an unknown call": frames(DataFrame(99, b"what"), before=True),
    "a call that depends on itself": frames(PriorityFrame(1, depends_on=1), before=True),
    "a frame size below the minimum": lambda peer: (peer.request({5: 100}), peer.stay()),
    "a window of more than 2 GiB": frames(WindowUpdateFrame(0, window_increment=2**31 - 1), before=True),
    "a call's window of more than 2 GiB": frames(WindowUpdateFrame(1, window_increment=2**31 - 1), before=True),
    "a window update of 0": frames(b"\0\0\4\x08\0" + STREAM_1 + b"\0\0\0\0", before=True),
    "HTTP/1": frames(f"HTTP/1.1 200 OK\r\nx: {KEY}\r\n\r\n".encode(), before=True),
    "no frames at all": lambda peer: (peer.read_preface(), peer.send(b"\xff" * 50), peer.stay()),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_BEFORE)
def test_an_answer_that_breaks_http2(name: str, blocking: bool) -> None:
    result = call(BROKEN_BEFORE[name], blocking)
    assert (result.pieces, type(result.error)) == ([], MalformedStreamError)
    assert not result.error.is_retryable
    assert len(result.server.asked) <= 1


BROKEN_AFTER: dict[str, Behaviour] = {
    "more than its content-length": answer(b"hello", headers=(*OK, ("content-length", "3"))),
    "invalid padding": frames(DataFrame(1, b"hello"), b"\0\0\2\0\x08" + STREAM_1 + b"\xffa"),
    "trailers without an end": frames(DataFrame(1, b"hello"), headers_frame(("x", "y"))),
    "a frame that is too long": frames(DataFrame(1, b"hello"), DataFrame(1, b"x" * 20_000)),
}


@pytest.mark.parametrize("name", BROKEN_AFTER)
def test_a_body_that_breaks_http2(name: str, blocking: bool) -> None:
    """What came before the fault is kept, also if it arrived together with it."""
    result = call(BROKEN_AFTER[name], blocking)
    assert (result.pieces, type(result.error)) == (HELLO, MalformedStreamError)


def test_less_than_its_content_length(blocking: bool) -> None:
    result = call(answer(b"hello", headers=(*OK, ("content-length", "9"))), blocking)
    assert (result.pieces, type(result.error)) == (HELLO, StreamInterruptedError)
    assert "5 bytes" in str(result.error)


# What a server may do


def interim(peer: Peer) -> None:
    stream = peer.request()
    for _ in range(50):
        peer.headers(stream, ((":status", "103"), ("link", "x")))
    peer.answer(stream, b"hello")
    peer.stay()


def without_settings(peer: Peer) -> None:
    peer.read_preface()
    peer.answer(peer.request(), b"hello")
    peer.stay()


FINE: dict[str, Behaviour] = {
    "padding": frames(DataFrame(1, b"hello", pad_length=50, flags=["PADDED", "END_STREAM"])),
    "trailers": frames(DataFrame(1, b"hello"), headers_frame(("x", "y"), end=True)),
    "50 interim answers": interim,
    "no settings": without_settings,
    "no header table": lambda peer: (peer.answer(peer.request({1: 0}), b"hello"), peer.stay()),
    "no calls allowed, said too late": lambda peer: (
        peer.answer(peer.request({3: 0}), b"hello"),
        peer.stay(),
    ),
    "an unknown frame": frames(
        b"\0\0\3\xee\0" + STREAM_1 + b"abc", DataFrame(1, b"hello", flags=["END_STREAM"])
    ),
    "data after the end": frames(
        DataFrame(1, b"hello", flags=["END_STREAM"]), DataFrame(1, b"more")
    ),
    "a reset after the end": frames(
        DataFrame(1, b"hello", flags=["END_STREAM"]), RstStreamFrame(1)
    ),
    "empty frames": frames(
        DataFrame(1, b""), DataFrame(1, b"hello"), DataFrame(1, b"", flags=["END_STREAM"])
    ),
    "names in upper case": status(*OK, ("X-Upper", "y"), ("connection", "close")),
}


@pytest.mark.parametrize("name", FINE)
def test_an_answer_that_is_valid_or_harmless(name: str, blocking: bool) -> None:
    result = call(FINE[name], blocking)
    assert (result.pieces, result.error) == (HELLO, None)
