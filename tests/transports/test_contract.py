"""The contract of every transport, replay included, sync and async."""

from __future__ import annotations

import gzip
import zlib

import pytest

from foldline.exceptions import (
    LimitExceededError,
    MalformedStreamError,
    ModelConnectionError,
    ModelTimeoutError,
    SecurityError,
    StreamInterruptedError,
    UsageError,
)
from foldline.transports import Request, SizeLimits, Timeouts
from tests.servers import Answer, FaultServer, json_answer, redirect
from tests.servers.script import gzip_answer
from tests.transports.conftest import Caller

pytestmark = pytest.mark.timing

PIECES = [b"hello ", b"wide ", b"world"]
TEXT = b"".join(PIECES)


def test_an_answer_is_read_whole(caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script(
        "/a", json_answer({"ok": True}, status=201, headers={"X-Request-Id": "r1"})
    )

    async def body() -> tuple[int, str, bytes]:
        async with caller.open(Request(url=url, body=b'{"q": 1}')) as response:
            return response.status, response.headers["x-request-id"], await response.read()

    assert caller.run(body()) == (201, "r1", b'{"ok": true}')


def test_the_request_arrives_as_written(caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script("/a", Answer(b"x"))
    caller.read(url + "?alt=sse", headers={"Authorization": "Bearer k"}, body=b'{"q": 1}')
    (request,) = fault_server.requests()
    assert (request.method, request.target, request.json()) == ("POST", "/a?alt=sse", {"q": 1})
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_every_framing_gives_the_body(
    caller: Caller, fault_server: FaultServer, framing: str
) -> None:
    url = fault_server.script("/a", Answer(PIECES, framing=framing, pause=0.005))
    pieces, error = caller.stream(url)
    assert (b"".join(pieces), error) == (TEXT, None)


def test_an_empty_answer_is_empty(caller: Caller, fault_server: FaultServer) -> None:
    assert caller.read(fault_server.script("/a", Answer())) == (200, b"")
    assert caller.read(fault_server.script("/b", Answer(status=204, framing="close"))) == (204, b"")


def test_a_status_is_an_answer_and_its_body_is_kept_to_the_limit(
    caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer(b"e" * 200_000, status=529))

    async def body() -> tuple[int, int]:
        async with caller.open(Request(url=url)) as response:
            return response.status, len(await response.read_error())

    assert caller.run(body()) == (529, 64 * 1024)


def test_an_error_body_that_breaks_off_is_still_given(
    caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer(PIECES, status=500, framing="chunked").cut(8))

    async def body() -> bytes:
        async with caller.open(Request(url=url)) as response:
            return await response.read_error()

    assert caller.run(body()) == TEXT[:8]


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("at", [0, 3, 6, 11, 16])
def test_F_T03_a_cut_gives_all_bytes_before_it_and_then_says_so(
    caller: Caller, fault_server: FaultServer, how: str, framing: str, at: int
) -> None:
    fault_server.script("/cut", Answer(PIECES, framing=framing))
    pieces, error = caller.stream(f"{fault_server.url}/cut?cut={at}&how={how}")
    assert b"".join(pieces) == TEXT[:at]
    assert isinstance(error, StreamInterruptedError)


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_F_H05_a_connection_that_ends_before_headers(
    caller: Caller, fault_server: FaultServer, how: str
) -> None:
    url = fault_server.script("/a", Answer(before=[(how, None)]))
    _, error = caller.stream(url)
    assert isinstance(error, ModelConnectionError)
    assert error.is_retryable


def test_F_H05_refused_unknown_and_untrusted_hosts(
    caller: Caller, fault_server: FaultServer
) -> None:
    for url in ("http://127.0.0.1:1/x", "http://nowhere.invalid/x", fault_server.https_url + "/ok"):
        _, error = caller.stream(url)
        assert isinstance(error, ModelConnectionError), url


def test_F_H05_a_handshake_that_never_comes_is_a_connect_timeout(
    caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.url.replace("http:", "https:") + "/x"
    _, error = caller.stream(url, timeouts=Timeouts(connect=0.2))
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "connect"


def test_F_H05_headers_that_never_come_are_a_first_byte_timeout(
    caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer(before=[("stall", None)]))
    _, error = caller.stream(url, timeouts=Timeouts(first_byte=0.2, idle=0.2))
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "first_byte"


def test_F_T07_a_stalled_body_is_an_idle_timeout(caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script("/a", Answer([b"hello", ("stall", None)], framing="chunked"))
    pieces, error = caller.stream(url, timeouts=Timeouts(idle=0.2))
    assert pieces == [b"hello"]
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "idle"


@pytest.mark.parametrize("first_byte", [None, 5.0])
def test_F_T09_a_drip_beyond_the_deadline_is_a_total_timeout(
    caller: Caller, fault_server: FaultServer, first_byte: float | None
) -> None:
    url = fault_server.script("/a", Answer([("repeat", [200, 0.02, b"x"])], framing="chunked"))
    pieces, error = caller.stream(url, timeouts=Timeouts(first_byte=first_byte, total=0.25))
    assert pieces
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "total"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_F_H08_a_redirect_is_refused_and_nothing_goes_to_its_target(
    caller: Caller, fault_server: FaultServer, status: int
) -> None:
    target = fault_server.other_url + "/target"
    url = fault_server.script("/a", redirect(target, status))
    _, error = caller.stream(url, headers={"Authorization": "Bearer k"}, body=b"{}")
    assert isinstance(error, SecurityError)
    assert fault_server.other_url in str(error)
    assert fault_server.hits("/target") == 0


def test_F_H08_a_redirect_to_the_same_origin_is_refused_too(
    caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", redirect("/b"))
    _, error = caller.stream(url)
    assert isinstance(error, SecurityError)
    assert fault_server.hits("/b") == 0


def test_F_T11_gzip_is_undone(caller: Caller, fault_server: FaultServer) -> None:
    two = gzip.compress(b"one ") + gzip.compress(b"two")
    fault_server.script("/two", Answer(two, headers={"Content-Encoding": "GZIP"}))
    for name, compressed in (("/zlib", zlib.compress(TEXT)), ("/raw", zlib.compress(TEXT)[2:-4])):
        fault_server.script(name, Answer(compressed, headers={"Content-Encoding": "deflate"}))
    assert caller.read(fault_server.script("/a", gzip_answer(TEXT)))[1] == TEXT
    assert caller.read(fault_server.url + "/two")[1] == b"one two"
    assert caller.read(fault_server.url + "/zlib")[1] == TEXT
    assert caller.read(fault_server.url + "/raw")[1] == TEXT


@pytest.mark.parametrize("fault", [{"keep": 20}, {"corrupt": 15}, {"corrupt": 1}, {"corrupt": -6}])
def test_F_T11_gzip_cut_short_or_corrupt_is_malformed(
    caller: Caller, fault_server: FaultServer, fault: dict[str, int]
) -> None:
    url = fault_server.script("/a", gzip_answer(TEXT * 3, **fault))
    _, error = caller.stream(url)
    assert isinstance(error, MalformedStreamError)


def test_F_T11_a_coding_nobody_asked_for_is_malformed(
    caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer(b"\x1b", headers={"Content-Encoding": "br"}))
    _, error = caller.stream(url)
    assert isinstance(error, MalformedStreamError)


def test_F_T11_a_flood_of_empty_gzip_members_is_stopped(
    caller: Caller, fault_server: FaultServer
) -> None:
    body = gzip.compress(b"") * 5000 + gzip.compress(TEXT)
    url = fault_server.script("/a", Answer(body, headers={"content-encoding": "gzip"}))
    _, error = caller.stream(url)
    assert isinstance(error, LimitExceededError)
    assert "members" in str(error)


def test_F_T11_a_gzip_bomb_is_stopped(caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script("/a", gzip_answer(b"\0" * 20_000_000))
    pieces, error = caller.stream(url)
    assert isinstance(error, LimitExceededError)
    assert sum(map(len, pieces)) < 5_000_000


@pytest.mark.parametrize(
    "headers",
    [
        {f"x{i}": "y" * 7000 for i in range(10)},
        {f"x{i}": "y" * 100_000 for i in range(10)},
        {"x": "y" * 70_000},
    ],
    ids=["ten", "a megabyte", "one"],
)
def test_headers_beyond_the_limit(
    caller: Caller, fault_server: FaultServer, headers: dict[str, str]
) -> None:
    url = fault_server.script("/a", Answer(b"x", headers=headers))
    _, error = caller.stream(url)
    assert isinstance(error, LimitExceededError)


def test_a_body_beyond_the_limit(caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script("/a", Answer(b"x" * 5000))
    with pytest.raises(LimitExceededError, match="4000"):
        caller.read(url, limits=SizeLimits(message=4000))


@pytest.mark.parametrize(
    "wire",
    [
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\nhello",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
    ],
)
def test_what_is_not_http_is_malformed(
    caller: Caller, fault_server: FaultServer, wire: bytes
) -> None:
    url = fault_server.script("/a", Answer([wire], framing="raw"))
    _, error = caller.stream(url)
    assert isinstance(error, MalformedStreamError)


def test_a_body_can_be_read_once_and_only_inside_its_context(
    caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer(b"x"))

    async def body() -> None:
        async with caller.open(Request(url=url)) as response:
            await response.read()
            with pytest.raises(UsageError, match="read it once"):
                await response.read()
        async with caller.open(Request(url=url)) as response:
            pass
        with pytest.raises(UsageError, match="read it once"):
            await response.read()

    caller.run(body())


@pytest.mark.slow
def test_a_large_request_and_a_large_answer(caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script("/a", Answer([b"y" * 100_000] * 50, framing="chunked"))
    _, answer = caller.read(url, body=b'"' + b"x" * 5_000_000 + b'"')
    assert answer == b"y" * 5_000_000
    assert len(fault_server.requests()[0].body) == 5_000_002


@pytest.mark.parametrize("coding", ["none", "identity", "utf-8", "UTF8", ""])
def test_F_Y19_a_coding_that_changes_nothing_is_accepted(
    caller: Caller, fault_server: FaultServer, coding: str
) -> None:
    answer = Answer([b"hel", b"lo"], framing="chunked", headers={"Content-Encoding": coding})
    assert caller.read(fault_server.script("/a", answer)) == (200, b"hello")
    assert b"".join(caller.stream(fault_server.url + "/a")[0]) == b"hello"


def test_F_Y19_a_server_that_ends_lines_with_lf_alone(
    live_caller: Caller, fault_server: FaultServer
) -> None:
    wire = b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello"
    url = fault_server.script("/a", Answer([wire, ("stall", None)], framing="raw"))
    assert live_caller.read(url) == (200, b"hello")
