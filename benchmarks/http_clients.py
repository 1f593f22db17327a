"""CPU time of one HTTP call: the native transport beside httpx2 and aiohttp, in one run on one machine.

    python -m benchmarks.http_clients        prints a table; a client that is not installed is left out

Each client posts a short body to the stub over kept connections and reads the answer; no JSON is parsed. CPU time is
that of this process, the server has its own. Of three rounds, taken in turn, the lowest counts.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from foldline._io.drive import drive
from foldline.transports import NativeTransport, Request
from foldline.transports.httpx import HttpxTransport

Post = Callable[[], Awaitable[bytes]]
BODY = b'{"model": "text-1", "messages": []}'
HEADERS = {"content-type": "application/json", "authorization": "Bearer sk-stub"}
ROUNDS = 3
CALLS = 2000
IN_FLIGHT = 500


def post_by(transport: NativeTransport | HttpxTransport, url: str, *, blocking: bool) -> Post:
    async def post() -> bytes:
        request = Request(url=url, headers=HEADERS, body=BODY)
        async with transport.open(request, blocking=blocking) as response:
            return await response.read()

    return post


@asynccontextmanager
async def native(url: str) -> AsyncIterator[Post]:
    transport = NativeTransport()
    yield post_by(transport, url, blocking=False)
    await transport.aclose()


@asynccontextmanager
async def through_httpx2(url: str) -> AsyncIterator[Post]:
    transport = HttpxTransport()
    yield post_by(transport, url, blocking=False)
    await transport.aclose()


@asynccontextmanager
async def bare_httpx2(url: str) -> AsyncIterator[Post]:
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(limits=limits, timeout=600) as client:

        async def post() -> bytes:
            return (await client.post(url, content=BODY, headers=HEADERS)).content

        yield post


@asynccontextmanager
async def bare_aiohttp(url: str) -> AsyncIterator[Post]:
    import aiohttp  # type: ignore[import-not-found, unused-ignore]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def post() -> bytes:
            async with session.post(url, data=BODY, headers=HEADERS) as response:
                return bytes(await response.read())

        yield post


CLIENTS = {
    "foldline, native": native,
    "foldline, httpx2": through_httpx2,
    "httpx2": bare_httpx2,
    "aiohttp": bare_aiohttp,
}


async def measure(post: Post) -> tuple[float, float]:
    """Return microseconds of CPU per call: one after another, and 500 in flight."""
    for _ in range(50):
        await post()
    start = time.process_time()
    for _ in range(CALLS):
        await post()
    alone = (time.process_time() - start) / CALLS
    await asyncio.gather(*(post() for _ in range(IN_FLIGHT)))
    start = time.process_time()
    for _ in range(2):
        await asyncio.gather(*(post() for _ in range(IN_FLIGHT)))
    return alone * 1e6, (time.process_time() - start) / (2 * IN_FLIGHT) * 1e6


def measure_sync(transport: NativeTransport | HttpxTransport, url: str) -> float:
    """Return microseconds of CPU per sync call."""
    post = post_by(transport, url, blocking=True)
    for _ in range(50):
        drive(post())  # type: ignore[arg-type]
    start = time.process_time()
    for _ in range(CALLS):
        drive(post())  # type: ignore[arg-type]
    transport.close()
    return (time.process_time() - start) / CALLS * 1e6


async def run_async(name: str, url: str) -> tuple[float, float]:
    async with CLIENTS[name](url) as post:
        return await measure(post)


def main() -> None:
    """Measure every client, and print the table."""
    command = [sys.executable, "-m", "benchmarks.stub"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stub:
        assert stub.stdout is not None
        assert stub.stdin is not None
        url = f"http://127.0.0.1:{int(stub.stdout.readline())}/v1/chat/completions"
        lowest: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name in CLIENTS:
                try:
                    figures = [*asyncio.run(run_async(name, url))]
                except ImportError:
                    continue
                if name.startswith("foldline"):
                    transport = NativeTransport() if "native" in name else HttpxTransport()
                    figures.append(measure_sync(transport, url))
                before = lowest.setdefault(name, figures)
                lowest[name] = [min(pair) for pair in zip(before, figures, strict=True)]
        stub.stdin.close()
    sys.stdout.write(
        "| CPU per call, µs | async | async, 500 in flight | sync |\n|---|---|---|---|\n"
    )
    for name, figures in lowest.items():
        cells = [f"{figure:,.0f}" for figure in figures] + ["–"] * (3 - len(figures))
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
