"""Many streams at once, readers that do not read, requests that do not end, and memory over many requests."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.language_models import FakeListChatModel
from tests.serve.process import ServeProcess

STREAMS = 500
REQUESTS = 1_500


def request_bytes(path: str, body: Any) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + data


async def read_stream(port: int, number: int) -> tuple[int, bool]:
    """Return how many pieces of text one stream gave, and whether it ended as it must."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    message = {"role": "user", "content": f"slow load-{number}"}
    body = {"model": "chat", "messages": [message], "stream": True}
    writer.write(request_bytes("/v1/chat/completions", body))
    data = await reader.read(-1)
    writer.close()
    return data.count(b'"delta":{"content":') + data.count(b'"role":"assistant"'), b"[DONE]" in data


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_500_streams_are_held_at_once_and_all_end_whole(server: ServeProcess) -> None:
    highest = 0

    async def watch() -> None:
        nonlocal highest
        async with httpx.AsyncClient() as client:
            while True:
                text = (await client.get(f"{server.url}/metrics", timeout=60)).text
                line = next(
                    line for line in text.splitlines() if line.startswith("foldline_runs_live")
                )
                highest = max(highest, int(line.split()[1]))
                await asyncio.sleep(0.2)

    async def main() -> list[tuple[int, bool]]:
        watcher = asyncio.create_task(watch())
        try:
            streams = [read_stream(server.port, number) for number in range(STREAMS)]
            return list(await asyncio.gather(*streams))
        finally:
            watcher.cancel()

    results = asyncio.run(main())
    assert set(results) == {(100, True)}
    assert highest > STREAMS * 0.9


@pytest.mark.slow
def test_a_reader_that_does_not_read_holds_up_nobody(server: ServeProcess) -> None:
    message = {"role": "user", "content": "count 30000"}
    body = {"model": "chat", "messages": [message], "stream": True}
    with socket.create_connection(("127.0.0.1", server.port)) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.sendall(request_bytes("/v1/chat/completions", body))
        time.sleep(1.0)
        ask = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=ask, timeout=20)
        assert answer.status_code == 200
    live = ""
    for _ in range(100):  # the disconnect is noticed, and its run ends
        live = httpx.get(f"{server.url}/metrics", timeout=20).text
        if "foldline_runs_live 0" in live:
            break
        time.sleep(0.1)
    assert "foldline_runs_live 0" in live


def test_requests_that_do_not_end_hold_up_nobody(server: ServeProcess) -> None:
    request = request_bytes("/v1/chat/completions", {"model": "chat", "messages": []})
    before = len(server.stderr())
    open_sockets = []
    for part in (
        b"",
        b"POST /v1/ch",
        request[:80],
        request[:-5],
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9\r\n\r\n",
    ):
        half = socket.create_connection(("127.0.0.1", server.port))
        half.sendall(part)
        open_sockets.append(half)
    assert httpx.get(f"{server.url}/readyz", timeout=20).status_code == 200
    for half in open_sockets:
        half.close()
    assert httpx.get(f"{server.url}/readyz", timeout=20).status_code == 200
    assert "Traceback" not in server.stderr()[before:]


def rss(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


plain = FakeListChatModel(responses=["Hello there."])
"""It keeps no requests, as scripted models do for tests: 8 kB of each."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_S22_memory_stays_flat_over_many_requests(tmp_path: Path) -> None:
    server = ServeProcess(tmp_path, apps=["plain=tests.serve.test_load:plain"]).start()
    assert server.process is not None
    ask = {"model": "plain", "messages": [{"role": "user", "content": "hi"}]}
    sizes = []
    try:
        with httpx.Client(timeout=30) as client:
            for _ in range(3):
                for _ in range(REQUESTS // 3):
                    client.post(f"{server.url}/v1/chat/completions", json=ask).raise_for_status()
                sizes.append(rss(server.process.pid))
    finally:
        server.stop()
    assert sizes[2] - sizes[0] < 8, sizes
