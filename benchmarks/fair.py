"""How long others wait while models stream without pauses: `python -m benchmarks.fair [STREAMS]`.

It starts a server with a model that sends 4,096 pieces of 256 characters at once, reads 30 of its streams, and asks for
`/healthz` on a new connection every 20 ms meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.cpu import free_port, wait_for_port
from foldline.testing import Finish, ScriptedChatModel

PIECES = 4_096
ROUNDS = 3


def pieces(request: Any) -> Iterator[Any]:
    """Yield 1 MiB of text without a pause."""
    for _ in range(PIECES):
        yield "x" * 255 + " "
    yield Finish("stop", usage={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})


flood = ScriptedChatModel(script=pieces, model="flood")


class Round:
    """One round: the streams and the probes."""

    def __init__(self, port: int, count: int) -> None:
        self.port = port
        self.count = count
        self.waits: list[float] = []
        self.firsts: list[float] = []
        self.complete = 0

    async def stream(self) -> None:
        """Read one stream."""
        message = {"role": "user", "content": "x"}
        body = json.dumps({"model": "flood", "stream": True, "messages": [message]}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        begin = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        tail, is_first = b"", True
        while data := await reader.read(1 << 18):
            if is_first and b"data:" in data:
                self.firsts.append(time.monotonic() - begin)
                is_first = False
            tail = (tail + data)[-400:]
        writer.close()
        self.complete += b"[DONE]" in tail

    async def probe(self) -> None:
        """Ask for `/healthz` once."""
        begin = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        await reader.read()
        self.waits.append(time.monotonic() - begin)
        writer.close()

    async def run(self) -> str:
        """Run it; return the figures."""
        begin = time.monotonic()
        streams = [asyncio.ensure_future(self.stream()) for _ in range(self.count)]
        probes = []
        while not all(stream.done() for stream in streams):
            probes.append(asyncio.ensure_future(self.probe()))
            await asyncio.sleep(0.02)
        await asyncio.gather(*streams, *probes)
        waits = sorted(self.waits)
        p50, p99 = waits[len(waits) // 2] * 1000, waits[int(len(waits) * 0.99)] * 1000
        return (
            f"{self.complete} of {self.count} streams whole in {time.monotonic() - begin:.1f} s; first piece within "
            f"{max(self.firsts):.2f} s; /healthz p50 {p50:.0f} ms, p99 {p99:.0f} ms, most {waits[-1] * 1000:.0f} ms"
        )


def main() -> None:
    """Measure some rounds."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "foldline", "serve", "flood=benchmarks.fair:flood",
            "--port", str(port), "--log", str(Path(folder) / "runs.db"), "--no-trace",
        ]  # fmt: skip
        server = subprocess.Popen(command)
        try:
            wait_for_port(port)
            for _ in range(ROUNDS):
                print(asyncio.run(Round(port, count).run()), flush=True)
        finally:
            server.terminate()
            server.wait(60)


if __name__ == "__main__":
    main()
