"""The reader of HTTP/1.1, fed by hand: any split of the bytes gives the same answer."""

from __future__ import annotations

import contextlib
import itertools
import time

import pytest
from hypothesis import given, strategies as st

from foldline.transports import _http1
from foldline.transports._http1 import (
    BadHttp,
    CutShort,
    HeadTooLarge,
    ResponseReader,
    with_body,
    write_connect,
    write_head,
)

pytestmark = pytest.mark.timing

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nX-A: 2\r\n\r\n"
    b"5;ext=1\r\nhello\r\n1 \r\n \r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
)


def read(wire: bytes, cuts: list[int], method: str = "POST") -> tuple[ResponseReader, bytes]:
    reader, body = ResponseReader(method, 64 * 1024), b""
    edges = [0, *sorted(place % (len(wire) + 1) for place in cuts), len(wire)]
    for start, end in itertools.pairwise(edges):
        if start != end:
            body += reader.feed(wire[start:end])
    return reader, body


@given(st.lists(st.integers(0, 1000)))
def test_F_S01_any_split_of_chunks_is_the_same(cuts: list[int]) -> None:
    reader, body = read(CHUNKED, cuts)
    assert (reader.status, body, reader.done, reader.reusable) == (
        200,
        b"hello 0123456789",
        True,
        True,
    )
    assert reader.headers == [("transfer-encoding", "chunked"), ("x-a", "1"), ("x-a", "2")]


@given(st.binary(max_size=300), st.lists(st.integers(0, 1000)))
def test_any_body_of_a_known_length_comes_through(data: bytes, cuts: list[int]) -> None:
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data
    reader, body = read(wire, cuts)
    assert (body, reader.done) == (data, True)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(0, 400))
def test_F_T03_the_part_of_a_cut_chunk_is_given(pieces: list[bytes], at: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    prefix = wire[: at % len(wire)]
    reader, body = read(head + prefix, [])
    assert b"".join(pieces).startswith(body)
    assert len(body) >= len(prefix) - 6 * len(pieces) - 5
    with pytest.raises(CutShort):
        reader.end()


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waited_for_but_never_crashes(data: bytes) -> None:
    for prefix in (
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    ):
        reader = ResponseReader("POST", 1024)
        try:
            reader.feed(prefix + data)
            reader.end()
        except (BadHttp, HeadTooLarge, CutShort):
            continue


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/2 200 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 200 OK\r\nX : 1",
        b"HTTP/1.1 200 OK\r\nX: 1\r\n folded",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1e3",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
        b"HTTP/1.1 101 Switching Protocols",
    ],
)
def test_a_head_that_could_be_read_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(BadHttp):
        ResponseReader("POST", 1024).feed(head + b"\r\n\r\n")


def test_what_comes_before_the_answer_is_passed_over() -> None:
    wire = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    reader, body = read(wire + b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", [])
    assert (reader.status, body, reader.headers) == (200, b"ok", [("content-length", "2")])


@pytest.mark.parametrize(
    ("wire", "method"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "POST"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "POST"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "POST"),
    ],
)
def test_answers_without_a_body_are_done_at_once(wire: bytes, method: str) -> None:
    reader, body = read(wire, [], method)
    assert (body, reader.done, reader.reusable) == (b"", True, True)


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nmore",
    ],
)
def test_a_connection_in_doubt_is_not_used_again(wire: bytes) -> None:
    reader, body = read(wire, [])
    assert (body, reader.done, reader.reusable) == (b"x", True, False)


def test_F_S09_endless_lines_are_stopped() -> None:
    with pytest.raises(HeadTooLarge):
        ResponseReader("POST", 1000).feed(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2000)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with pytest.raises(BadHttp, match="size"):
        ResponseReader("POST", 1000).feed(chunked + b"1" * 9000)
    with pytest.raises(HeadTooLarge):
        ResponseReader("POST", 1000).feed(chunked + b"0\r\n" + b"T: x\r\n" * 2000)
    with pytest.raises(BadHttp, match="longer"):
        ResponseReader("POST", 1000).feed(chunked + b"1\r\nxyz\r\n")


def test_a_request_is_written_for_a_server_and_for_a_proxy() -> None:
    url = "http://h:81/a?b=c#d"
    head = write_head("POST", url, {"x": "1"}, absolute_url=False)
    assert with_body("POST", head, b"hi") == (
        b"POST /a?b=c HTTP/1.1\r\nHost: h:81\r\nx: 1\r\nContent-Length: 2\r\n\r\nhi"
    )
    head = write_head("GET", url, {}, absolute_url=True)
    assert with_body("GET", head, b"") == b"GET http://h:81/a?b=c HTTP/1.1\r\nHost: h:81\r\n\r\n"
    assert write_connect("::1", 443, "http://p").startswith(b"CONNECT [::1]:443 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "line", [b"a:" + b" " * 60_000 + b"\0", b"a:" + b" \t" * 30_000 + b"x", b"a" * 60_000]
)
def test_F_U08_a_header_made_to_be_slow_is_not(line: bytes):
    reader = ResponseReader("POST", 64 * 1024)
    start = time.process_time()
    with contextlib.suppress(BadHttp):
        reader.feed(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n")
    assert time.process_time() - start < 0.5


def test_a_line_that_came_before_says_the_same_again_and_no_more_are_kept_than_said(monkeypatch):
    monkeypatch.setattr(_http1, "PARSED_LINES", known_lines := {})
    answer = b"HTTP/1.1 200 OK\r\nX-A:  one \r\nSet-Cookie: secret\r\nX-Long: %b\r\n\r\n" % (
        b"l" * 200
    )
    readers = [ResponseReader("POST", 4096), ResponseReader("POST", 4096)]
    for reader in readers:
        reader.feed(answer)

    expected = [("x-a", "one"), ("set-cookie", "secret"), ("x-long", "l" * 200)]
    assert [reader.headers for reader in readers] == [expected, expected]
    assert known_lines == {"X-A:  one ": ("x-a", "one")}  # no secret, nothing long

    for place in range(_http1.MAX_CACHED_LINES + 10):
        ResponseReader("POST", 4096).feed(b"HTTP/1.1 200 OK\r\nX-Id: %d\r\n\r\n" % place)
    assert len(known_lines) <= _http1.MAX_CACHED_LINES


LF_ANSWERS = [
    b"HTTP/1.1 200 OK\nContent-Length: 2\nX: y\n\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\nX: y\r\n\nok",
    b"HTTP/1.1 200 OK\nContent-Length: 2\r\nX: y\n\r\nok",
    b"HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 2\nX: y\n\nok",
]


@given(st.sampled_from(LF_ANSWERS), st.lists(st.integers(0, 100)))
def test_F_Y19_a_head_may_end_its_lines_with_lf_alone(wire: bytes, cuts: list[int]) -> None:
    reader, body = read(wire, cuts)
    assert (reader.status, body, reader.done, reader.reusable) == (200, b"ok", True, True)
    assert reader.headers == [("content-length", "2"), ("x", "y")]


@pytest.mark.parametrize("line", [b"2\nok\r\n0\r\n\r\n", b"2\r\nok\n0\r\n\r\n"])
def test_lf_alone_between_chunks_is_refused(line: bytes) -> None:
    """Where a chunk ends must not be a matter of taste: that is how answers are smuggled."""
    with pytest.raises(BadHttp):
        read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + line, [])


def test_a_vertical_tab_is_no_blank() -> None:
    with pytest.raises(BadHttp):
        read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", [])


@pytest.mark.parametrize("trailer", [b"no colon", b"a : b", b" folded"])
def test_a_trailer_is_a_header_line(trailer: bytes) -> None:
    with pytest.raises(BadHttp):
        read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n%b\r\n\r\n" % trailer, [])
