"""Calls to a server that breaks HTTP/2, and common behaviours of such a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from foldline.transports import (
    HttpOptions,
    Request,
    Timeouts,
    Transport,
    transport_for,
)
from tests.servers.hostile_http2 import OK, Behaviour, Headers, HostileServer, Peer
from tests.transports.conftest import Caller

KEY = "key-that-must-not-be-shown"
QUICK = Timeouts(connect=5, first_byte=5, idle=5)
HELLO = [b"hello"]
STREAM_1 = (1).to_bytes(4, "big")


@dataclass
class Call:
    """What came of a call."""

    pieces: list[bytes]
    error: Any
    server: HostileServer


def call(behaviour: Behaviour, blocking: bool, **fields: Any) -> Call:
    with HostileServer(behaviour) as server:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))
        caller = Caller(transport, blocking=blocking)
        headers = {"authorization": f"Bearer {KEY}"}
        url = f"{server.url}/v1/chat?key={KEY}"
        options = {"headers": headers, "body": b"{}", "timeouts": QUICK, **fields}
        pieces, error = caller.stream(url, **options)
        transport.close()
        assert server.wait(lambda: not server.open_count())
    assert (
        KEY not in f"{error!r} {error} {vars(error) if error else ''} {error and error.__cause__!r}"
    )
    return Call(pieces, error, server)


def frames(*items: Any, before: bool = False) -> Behaviour:
    """Send frames after a request, and after the headers unless `before`."""

    def behave(peer: Peer) -> None:
        stream = peer.request()
        if not before:
            peer.headers(stream)
        peer.send(*items)
        peer.stay()

    return behave


def answer(*pieces: bytes, headers: Headers = OK) -> Behaviour:
    def behave(peer: Peer) -> None:
        peer.answer(peer.request(), *pieces, headers=headers)
        peer.stay()

    return behave


async def read(
    transport: Transport,
    url: str,
    *,
    blocking: bool = False,
    timeouts: Timeouts = QUICK,
    body: bytes = b"{}",
) -> bytes:
    request = Request(url=url, body=body, timeouts=timeouts)
    async with transport.open(request, blocking=blocking) as response:
        return await response.read()


def run(
    behaviour: Behaviour, body: Callable[[Transport, HostileServer], Coroutine[Any, Any, Any]]
) -> Any:
    """Run an async body on a transport; afterwards no connection is open, and no task runs."""

    async def whole() -> Any:
        transport = transport_for(HttpOptions(http2=True, ca=server.ca_pem))
        result = await body(transport, server)
        await transport.aclose()
        assert len(asyncio.all_tasks()) == 1
        return result

    with HostileServer(behaviour) as server:
        result = asyncio.run(whole())
        assert server.wait(lambda: not server.open_count())
    return result


def echo(peer: Peer, settings: dict[int, int] | None = None) -> None:
    """Answer every request with its path."""
    while True:
        stream = peer.request(settings)
        peer.answer(stream, peer.server.asked[-1].headers[":path"].encode())
