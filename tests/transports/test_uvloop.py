"""The same on uvloop, which web servers use: streams, TLS, clocks and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from foldline.exceptions import ModelConnectionError, ModelTimeoutError
from foldline.transports import HttpOptions, Request, Timeouts, Transport
from tests.servers import Answer, FaultServer

pytestmark = [pytest.mark.timing, pytest.mark.slow]


def test_a_transport_works_on_uvloop(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    fault_server.script("/s", Answer([b"a", b"b", ("wait", 0.02), b"c"], framing="chunked"))
    fault_server.script("/stall", Answer([b"a", ("stall", None)], framing="chunked"))
    transport = live(HttpOptions(ca=fault_server.ca_pem))

    async def read(url: str, **fields: Timeouts) -> bytes:
        async with transport.open(Request(url=url, **fields), blocking=False) as response:
            return await response.read()

    async def body() -> None:
        for base in (fault_server.url, fault_server.https_url):
            assert await read(base + "/s") == b"abc"
            with pytest.raises(ModelTimeoutError, match="idle"):
                await read(base + "/stall", timeouts=Timeouts(idle=0.1))
            task = asyncio.create_task(read(base + "/stall"))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(ModelConnectionError):
            await read("http://127.0.0.1:1/")

    uvloop.run(body())
    transport.close()
    assert fault_server.wait_for_open(0) == 0
