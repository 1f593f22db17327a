"""Calls that share an HTTP/2 connection, or follow one another on it: none breaks, delays or starves another."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from hyperframe.frame import (
    GoAwayFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)

from foldline.exceptions import (
    MalformedStreamError,
    ModelConnectionError,
    ModelTimeoutError,
    StreamInterruptedError,
)
from foldline.transports import Request, Timeouts, Transport, _http2
from tests.faults.cancellation import Stepped
from tests.servers.hostile_http2 import OK, Asked, Behaviour, HostileServer, Peer
from tests.transports.http2_calls import echo, read, run


def by_path(server: HostileServer) -> list[Asked]:
    return sorted(server.asked, key=lambda asked: asked.headers[":path"])


async def three(transport: Transport, server: HostileServer) -> list[Any]:
    """Return the outcomes of three calls, in the order in which the server numbers them."""
    calls = (read(transport, f"{server.url}/{number}") for number in range(3))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    pairs = zip((asked.stream for asked in by_path(server)), outcomes, strict=True)
    return [outcome for _, outcome in sorted(pairs, key=lambda pair: pair[0])]


def with_three(act: Callable[[Peer], None]) -> Behaviour:
    """Act when three requests have arrived, then answer the first and the last."""

    def behave(peer: Peer) -> None:
        streams = sorted(peer.request() for _ in range(3))
        act(peer)
        time.sleep(0.05)
        for stream in (streams[0], streams[2]):
            peer.answer(stream, b"ok")
        peer.stay()

    return behave


# One call fails


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda peer: peer.send(RstStreamFrame(3, error_code=2)), ModelConnectionError),
        (lambda peer: peer.answer(3, b"x", headers=(("x", "y"),)), MalformedStreamError),
        (
            lambda peer: peer.answer(3, b"x", headers=(*OK, ("content-length", "2"))),
            StreamInterruptedError,
        ),
        (
            lambda peer: peer.send(WindowUpdateFrame(3, window_increment=2**31 - 1)),
            MalformedStreamError,
        ),
    ],
    ids=["reset", "no status", "too short", "window"],
)
def test_a_call_that_fails_leaves_the_others(
    act: Callable[[Peer], None], error: type[Exception]
) -> None:
    first, second, third = run(with_three(act), three)
    assert (first, type(second), third) == (b"ok", error, b"ok")


def test_a_call_that_breaks_the_connection_ends_the_others_at_once() -> None:
    """They may be sent again; only the one that broke the protocol may not."""

    def behave(peer: Peer) -> None:
        for stream in [peer.request() for _ in range(3)]:
            peer.headers(stream)
        peer.headers(3)
        peer.stay()

    start = time.monotonic()
    first, second, third = run(behave, three)
    assert time.monotonic() - start < 3
    assert type(second) is MalformedStreamError
    assert type(first) is type(third) is StreamInterruptedError
    assert "another call" in str(first)


def test_goaway_below_some_of_the_calls() -> None:
    """The last one was not processed, and says so; the others are finished; the next call uses a new connection."""

    def behave(peer: Peer) -> None:
        if peer.number > 1:
            echo(peer)
        streams = sorted(peer.request() for _ in range(3))
        peer.send(GoAwayFrame(0, last_stream_id=streams[1]))
        time.sleep(0.05)
        for stream in streams[:2]:
            peer.answer(stream, b"ok")
        peer.stay()

    async def body(transport: Transport, server: HostileServer) -> Any:
        results = await three(transport, server)
        return results, await read(transport, f"{server.url}/next"), server.asked

    (first, second, third), after, asked = run(behave, body)
    assert (first, second, after) == (b"ok", b"ok", b"/next")
    assert type(third) is ModelConnectionError
    assert "not processed" in str(third)
    assert len(asked) == 4


# Calls that are left early, and calls that are not read


def windows_of(peer: Peer) -> Counter[int]:
    """Return the windows that the client has granted: of the connection (0) and of each call."""
    windows: Counter[int] = Counter({0: 65_535, 1: 65_535, 3: 65_535})
    for frame in peer.frames:
        if isinstance(frame, WindowUpdateFrame):
            windows[frame.stream_id] += frame.window_increment
    return windows


def fill(peer: Peer, stream: int) -> int:
    """Send data until a window is used up; return how much."""
    sent = min(windows_of(peer)[0], windows_of(peer)[stream])
    peer.data(stream, bytes(sent))
    return sent


def test_the_server_learns_at_once_that_a_call_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its window returns, so that the others do not starve; the connection is not closed before they end."""
    monkeypatch.setattr(_http2, "CONNECTION_WINDOW", 2**17)
    monkeypatch.setattr(_http2, "STREAM_WINDOW", 2**17)

    def behave(peer: Peer) -> None:
        for _ in range(2):
            peer.request()
        left, kept = (asked.stream for asked in by_path(peer.server))
        peer.headers(left)
        peer.headers(kept)
        sent = fill(peer, left)
        while windows_of(peer)[0] - sent < 100_000:
            peer.frame()
        peer.data(left, bytes(50_000))  # sent before the reset arrives
        peer.data(kept, bytes(50_000), end=True)
        peer.stay()

    async def body(transport: Transport, server: HostileServer) -> Any:
        async def leave() -> None:
            async with (
                transport.open(Request(url=f"{server.url}/1"), blocking=False) as response,
                aclosing(response.chunks()) as chunks,
            ):
                async for _ in chunks:
                    await asyncio.sleep(0.1)  # the other call stores the rest of the window
                    break

        _, answer = await asyncio.gather(leave(), read(transport, f"{server.url}/2"))
        return answer, server.peers

    answer, peers = run(behave, body)
    assert answer == bytes(50_000)
    assert len(peers) == 1
    assert peers[0].resets()[0][1] == 8


def test_F_C09_an_answer_that_is_not_read_leaves_a_window_for_the_others() -> None:
    sizes: list[int] = []

    def behave(peer: Peer) -> None:
        slow = peer.request()
        peer.headers(slow)
        sizes.append(fill(peer, slow))
        peer.answer(peer.request(), b"ok")
        peer.stay()

    async def body(transport: Transport, server: HostileServer) -> Any:
        async with transport.open(Request(url=server.url), blocking=False):
            return await read(transport, server.url), windows_of(server.peers[0])[0]

    answer, window = run(behave, body)
    assert answer == b"ok"
    assert window > 100 * sizes[0]


@pytest.mark.timing
def test_a_request_that_is_cut_off_in_its_body_leaves_the_others() -> None:
    """Its frames are written whole: the others share the bytes of the connection."""

    def behave(peer: Peer) -> None:
        kept = peer.request()
        peer.answer(kept, b"o", end=False)
        peer.grants_window = False
        large = peer.headers_of_request()
        for stream in (0, large):
            peer.send(WindowUpdateFrame(stream, window_increment=2**30))
        time.sleep(0.6)  # read nothing, so that the client's buffers are full
        while not peer.resets():
            peer.frame()
        peer.data(kept, b"k", end=True)
        peer.stay()

    async def body(transport: Transport, server: HostileServer) -> Any:
        kept = asyncio.create_task(read(transport, server.url))
        await asyncio.sleep(0.1)
        start = time.monotonic()
        timeouts = Timeouts(first_byte=0.3)
        with pytest.raises(ModelTimeoutError):
            await read(transport, server.url, timeouts=timeouts, body=bytes(30_000_000))
        return time.monotonic() - start, await kept, len(server.peers)

    seconds, answer, connections = run(behave, body)
    assert seconds < 0.6
    assert (answer, connections) == (b"ok", 1)


@pytest.mark.parametrize("size", [2, 30_000_000], ids=["reading", "writing"])
def test_a_transport_closed_meanwhile_ends_its_calls(size: int) -> None:
    def behave(peer: Peer) -> None:
        stream = peer.headers_of_request()
        for number in (0, stream):
            peer.send(WindowUpdateFrame(number, window_increment=2**30))
        if size == 2:
            peer.headers(stream)
        time.sleep(0.3)

    async def body(transport: Transport, server: HostileServer) -> Any:
        call = asyncio.create_task(read(transport, server.url, body=bytes(size)))
        await asyncio.sleep(0.15)
        await transport.aclose()
        return (await asyncio.gather(call, return_exceptions=True))[0]

    error = run(behave, body)
    assert type(error) is (StreamInterruptedError if size == 2 else ModelConnectionError)


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_F_C03_cancelled_at_every_await_the_others_go_on(twice: bool) -> None:
    def behave(peer: Peer) -> None:
        while True:
            stream = peer.request()
            path = peer.server.asked[-1].headers[":path"].encode()
            peer.answer(stream, path, bytes(20_000), path)

    async def body(transport: Transport, server: HostileServer) -> int:
        await read(transport, server.url)
        point, is_cut, large = 0, True, bytes(30_000)
        while is_cut:
            point += 1
            cut = Stepped(read(transport, server.url, body=large), point, twice=twice)
            before = [
                asyncio.create_task(read(transport, f"{server.url}/{number}", body=large))
                for number in range(2)
            ]
            cancelled = asyncio.ensure_future(_hosted(cut))
            after = [
                asyncio.create_task(read(transport, f"{server.url}/{number}"))
                for number in range(2, 4)
            ]
            for number, answer in enumerate(await asyncio.gather(*before, *after)):
                assert answer.strip(b"\0").replace(bytes(20_000), b"") == f"/{number}".encode() * 2
            (outcome,) = await asyncio.gather(cancelled, return_exceptions=True)
            is_cut = cut.is_cut
            assert isinstance(outcome, asyncio.CancelledError) == is_cut
        return point

    assert run(behave, body) > 15


async def _hosted(stepped: Stepped) -> Any:
    return await stepped.run()
