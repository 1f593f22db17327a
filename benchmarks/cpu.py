"""CPU per streamed event beside a bare stream and the model alone, in one run: `python -m benchmarks.cpu [ROUNDS]`.

100 streams of 100 words, one every 50 ms. The bare server is Starlette with a generator that writes the same chunks.
The target is 1.2 times the sum of the bare stream and the model's own events.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from foldline.testing import Finish, ScriptedChatModel, Stall

STREAMS = 100
WORDS = 100
PAUSE = 0.05
TICK = os.sysconf("SC_CLK_TCK")


def script(request: Any) -> Iterator[Any]:
    """Yield the words."""
    for number in range(WORDS):
        yield Stall(PAUSE)
        yield f"word{number} "
    yield Finish("stop", usage={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})


model = ScriptedChatModel(script=script, model="words")


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for_port(port: int) -> None:
    """Wait until a server listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nobody listens at {port}")


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


async def read_stream(port: int, delay: float) -> int:
    """Read one stream; return its events."""
    await asyncio.sleep(delay)
    message = {"role": "user", "content": "hello there"}
    body = json.dumps({"model": "words", "stream": True, "messages": [message]}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
    data = await reader.read()
    writer.close()
    assert data.count(b"word") >= WORDS
    return data.count(b"data:")


async def read_streams(port: int) -> int:
    """Read all streams, begun within a third of a second; return the number of events."""
    streams = (read_stream(port, number / STREAMS / 3) for number in range(STREAMS))
    return sum(await asyncio.gather(*streams))


def measure(port: int, pid: int) -> float:
    """Return a server's microseconds of CPU per event."""
    begin = cpu_of(pid)
    events = asyncio.run(read_streams(port))
    return (cpu_of(pid) - begin) / events * 1e6


async def _model_alone() -> float:
    async def read() -> int:
        count = 0
        stream = await model.astream_v2([{"role": "user", "content": "hello there"}])
        async for _ in stream:
            count += 1
        await stream.aclose()
        return count

    await read()
    begin = time.process_time()
    events = sum(await asyncio.gather(*(read() for _ in range(STREAMS))))
    return (time.process_time() - begin) / events * 1e6


def serve_floor(port: int) -> None:
    """Run the bare server."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def chat(request: Request) -> StreamingResponse:
        await request.json()

        async def chunks() -> AsyncIterator[bytes]:
            for number in range(WORDS):
                await asyncio.sleep(PAUSE)
                delta = {"content": f"word{number} "}
                choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
                chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                         "choices": [choice]}  # fmt: skip
                yield b"data: " + json.dumps(chunk).encode() + b"\n\n"
            yield b"data: {}\n\ndata: [DONE]\n\n"

        return StreamingResponse(chunks(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="warning")


def main() -> None:
    """Measure some rounds, the sides in turn."""
    if sys.argv[1:2] == ["floor"]:
        serve_floor(int(sys.argv[2]))
        return
    if sys.argv[1:2] == ["model"]:
        import uvloop

        print(uvloop.run(_model_alone()))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    ours, floor = free_port(), free_port()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        serve = [
            "foldline.cli", "serve", "words=benchmarks.cpu:model", "--port", str(ours),
            "--log", str(Path(folder) / "runs.db"), "--no-trace",
        ]  # fmt: skip
        commands = [serve, ["benchmarks.cpu", "floor", str(floor)]]
        servers = [subprocess.Popen([sys.executable, "-m", *command]) for command in commands]
        try:
            for port in (ours, floor):
                wait_for_port(port)
                asyncio.run(read_streams(port))  # the first requests load what is loaded late
            for _ in range(rounds):
                figures = [measure(ours, servers[0].pid), measure(floor, servers[1].pid)]
                alone = [sys.executable, "-m", "benchmarks.cpu", "model"]
                figures.append(float(subprocess.check_output(alone)))
                ratios.append(figures[0] / (figures[1] + figures[2]))
                print(
                    f"foldline serve {figures[0]:.0f} µs per event, bare stream {figures[1]:.0f}, model alone "
                    f"{figures[2]:.0f}: {ratios[-1]:.2f} times their sum",
                    flush=True,
                )
        finally:
            for server in servers:
                server.terminate()
                server.wait(60)
    print(f"median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
