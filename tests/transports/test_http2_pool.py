"""The connections of HTTP/2: when a new one is made, and whose calls share it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from typing import Any

import pytest
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    PingFrame,
    SettingsFrame,
)

from foldline._io.drive import drive
from foldline.exceptions import (
    ModelConnectionError,
    ModelTimeoutError,
)
from foldline.transports import HttpOptions, Timeouts, Transport, transport_for
from tests.servers.hostile_http2 import Asked, HostileServer, Peer
from tests.transports.conftest import Caller
from tests.transports.http2_calls import echo, read, run

# Idle connections


@pytest.mark.parametrize(
    ("last_words", "connections"),
    [
        ([], 3),
        ([GoAwayFrame(0, last_stream_id=1)], 3),
        ([GoAwayFrame(0, last_stream_id=1, error_code=2)], 3),
        ([PingFrame(0, b"12345678"), SettingsFrame(0)], 1),
        ([b"\xff" * 99], 3),
    ],
    ids=["closed", "goaway", "goaway with an error", "ping", "garbage"],
)
@pytest.mark.parametrize("together", [True, False], ids=["with the answer", "later"])
def test_F_H07_an_idle_connection_is_looked_at_before_it_is_used(
    last_words: list[Any], connections: int, together: bool, blocking: bool
) -> None:
    def behave(peer: Peer) -> None:
        while True:
            stream = peer.request()
            peer.headers(stream)
            end = DataFrame(stream, b"ok", flags=["END_STREAM"])
            if together:
                peer.send(end, *last_words)
            else:
                peer.send(end)
                peer.send(*last_words)
            if not last_words:
                return

    with HostileServer(behave) as server:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))

        async def body() -> None:
            for _ in range(3):
                assert await read(transport, server.url, blocking=blocking) == b"ok"
                time.sleep(0.05)
            if not blocking:
                await transport.aclose()

        Caller(transport, blocking=blocking).run(body())
        transport.close()
        assert len(server.asked) == 3
        assert len(server.peers) == connections
        assert server.wait(lambda: not server.open_count())


def test_F_H07_a_request_that_the_server_may_have_read_is_not_sent_again(blocking: bool) -> None:
    def behave(peer: Peer) -> None:
        peer.answer(peer.request(), b"ok")
        peer.request()  # read, and the connection closed

    with HostileServer(behave) as server:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))

        async def body() -> None:
            assert await read(transport, server.url, blocking=blocking) == b"ok"
            with pytest.raises(ModelConnectionError):
                await read(transport, server.url, blocking=blocking)

        Caller(transport, blocking=blocking).run(body())
        transport.close()
        assert len(server.asked) == 2


# How many calls


def test_a_server_that_names_no_number_gets_many_calls_at_a_time() -> None:
    """The engine alone sends them one after another."""

    def behave(peer: Peer) -> None:
        streams = [peer.request() for _ in range(20)]
        for stream in streams:
            peer.answer(stream, b"ok")
        peer.stay()

    async def body(transport: Transport, server: HostileServer) -> Any:
        calls = (read(transport, server.url) for _ in range(20))
        return await asyncio.gather(*calls), len(server.peers)

    assert run(behave, body) == ([b"ok"] * 20, 1)


@pytest.mark.parametrize(("limit", "connections"), [(1, 6), (2, 3), (6, 1)])
def test_more_calls_than_the_server_allows_use_more_connections(
    limit: int, connections: int
) -> None:
    """A long answer must not delay the calls behind it."""

    def behave(peer: Peer) -> None:
        streams = [peer.request({3: limit}) for _ in range(limit)]
        peer.server.wait(lambda: len(peer.server.asked) == 6)
        for stream in streams:
            peer.answer(stream, b"ok")
        peer.stay()

    async def body(transport: Transport, server: HostileServer) -> Any:
        calls = (read(transport, server.url) for _ in range(6))
        return await asyncio.gather(*calls), len(server.peers)

    assert run(behave, body) == ([b"ok"] * 6, connections)


@pytest.mark.timing
def test_waiting_for_a_slot_is_not_connecting() -> None:
    """A call that found the connection full waits for a slot of the pool, then has all its time to connect."""

    def behave(peer: Peer) -> None:
        stream = peer.request({3: 1})
        time.sleep(0.6)
        peer.headers(stream)
        end = DataFrame(stream, b"ok", flags=["END_STREAM"])
        peer.send(end, GoAwayFrame(0, last_stream_id=stream))
        peer.stay()

    async def both(transport: Transport, url: str) -> list[bytes]:
        timeouts = Timeouts(connect=0.4)
        calls = (read(transport, url, timeouts=timeouts) for _ in range(2))
        return await asyncio.gather(*calls)

    with HostileServer(behave) as server:
        options = HttpOptions(http2=True, ca=server.ca_pem, max_connections=1)
        assert asyncio.run(both(transport_for(options), server.url)) == [b"ok"] * 2


def test_a_number_that_is_lowered_meanwhile() -> None:
    def behave(peer: Peer) -> None:
        if peer.number > 1:
            echo(peer)
        streams = [peer.request({3: 4}) for _ in range(4)]
        peer.send(SettingsFrame(0, settings={3: 1}))
        for stream in streams:
            peer.answer(stream, b"ok")
        echo(peer)

    async def body(transport: Transport, server: HostileServer) -> Any:
        calls = (read(transport, server.url) for _ in range(4))
        first = await asyncio.gather(*calls)
        calls = (read(transport, f"{server.url}/{number}") for number in range(4))
        return first, await asyncio.gather(*calls)

    assert run(behave, body) == ([b"ok"] * 4, [b"/0", b"/1", b"/2", b"/3"])


def test_a_burst_of_calls() -> None:
    async def body(transport: Transport, server: HostileServer) -> Any:
        calls = (read(transport, f"{server.url}/{number}") for number in range(250))
        return await asyncio.gather(*calls), len(server.peers), len(server.asked)

    answers, connections, requests = run(echo, body)
    assert answers == [f"/{number}".encode() for number in range(250)]
    assert (connections, requests) == (3, 250)


# Connecting


@pytest.mark.timing
def test_the_calls_that_wait_for_a_connection_keep_their_own_clocks() -> None:
    """Of the engine alone, they connect one after another, each with its own time limit."""

    async def timed(transport: Transport, url: str, limit: float) -> tuple[str, float]:
        start = time.monotonic()
        with pytest.raises(ModelTimeoutError) as raised:
            await read(transport, url, timeouts=Timeouts(connect=limit))
        return raised.value.phase, time.monotonic() - start

    async def body() -> list[tuple[str, float]]:
        transport = transport_for(HttpOptions(http2=True))
        limits = (0.2, 1, 1, 1)
        return await asyncio.gather(*(timed(transport, url, limit) for limit in limits))

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://localhost:{silent.getsockname()[1]}"
        results = asyncio.run(body())
    assert [phase for phase, _ in results] == ["connect"] * 4
    assert results[0][1] < 0.8
    assert max(seconds for _, seconds in results) < 1.8


def test_the_call_that_connects_is_cancelled_and_the_others_connect() -> None:
    async def body(transport: Transport, server: HostileServer) -> Any:
        tasks = [
            asyncio.create_task(read(transport, f"{server.url}/{number}")) for number in range(3)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third = run(echo, body)
    assert (type(first), second, third) == (asyncio.CancelledError, b"/1", b"/2")


def test_a_server_that_agrees_on_http1(blocking: bool) -> None:
    def behave(peer: Peer) -> None:
        received = b""
        while not peer.server.stopping.is_set():
            try:
                data = peer.connection.recv(65536)
            except TimeoutError:
                continue
            if not data:
                return
            received += data
            if received.endswith(b"\r\n\r\n{}"):
                peer.server.asked.append(Asked(peer.number, 0, {}, b""))
                peer.connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                received = b""

    with HostileServer(behave, protocols=("http/1.1",)) as server:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))

        async def body() -> list[bytes]:
            if blocking:
                return [await read(transport, server.url, blocking=True) for _ in range(5)]
            return await asyncio.gather(*(read(transport, server.url) for _ in range(5)))

        assert Caller(transport, blocking=blocking).run(body()) == [b"ok"] * 5
        transport.close()
        assert len(server.asked) == 5


# Threads, loops and processes


def test_threads_and_loops_share_a_transport() -> None:
    results: list[Any] = []

    def work(number: int) -> None:
        for blocking in (True, False, True, False):
            body = read(transport, f"{server.url}/{number}", blocking=blocking)
            results.append(drive(body) if blocking else asyncio.run(body))

    with HostileServer(echo) as server:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        transport.close()
        assert sorted(results) == sorted(
            f"/{number}".encode() for number in range(8) for _ in "1234"
        )
        assert len(server.asked) == 32
        assert server.wait(lambda: not server.open_count())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_F_C05_a_forked_child_uses_connections_of_its_own() -> None:
    async def after_fork(transport: Transport, server: HostileServer) -> Any:
        await read(transport, f"{server.url}/async")
        drive(read(transport, f"{server.url}/sync", blocking=True))
        child = os.fork()
        if child == 0:
            try:
                same = drive(read(transport, f"{server.url}/child", blocking=True)) == b"/child"
                transport.close()
            finally:
                os._exit(0 if same else 1)
        parent = [
            await read(transport, f"{server.url}/parent"),
            drive(read(transport, f"{server.url}/parent", blocking=True)),
        ]
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        connections = {
            asked.connection for asked in server.asked if asked.headers[":path"] != "/child"
        }
        return parent, status, len(server.asked), len(connections)

    assert run(echo, after_fork) == ([b"/parent"] * 2, 0, 5, 2)
