"""CPU of a streamed event and of a request, beside their peers in one run: `python -m benchmarks.cpu [ROUNDS]`.

Events: 100 streams of 100 words, one every 50 ms. The bare server is Starlette with a generator that writes the same
chunks; the model alone yields the same events without a server. The target is 1.2 times their sum.

Requests: answers that are not streamed, of a model of OpenAI's that is a stub on this machine. The call alone is the
same call without a server; the bare server is Starlette with an endpoint that returns such an answer. The target is 2.5
times the call alone.
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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from benchmarks.serve_stub import serve_stub
from foldline.providers.openai import ChatOpenAI
from foldline.testing import Finish, ScriptedChatModel, Stall

STREAMS = 100
WORDS = 100
PAUSE = 0.05
REQUESTS = 800
CONNECTIONS = 8
TICK = os.sysconf("SC_CLK_TCK")
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
}
Server: TypeAlias = "subprocess.Popen[bytes]"


def script(request: Any) -> Iterator[Any]:
    """Yield the words."""
    for number in range(WORDS):
        yield Stall(PAUSE)
        yield f"word{number} "
    yield Finish("stop", usage={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})


model = ScriptedChatModel(script=script, model="words")
UPSTREAM = int(os.environ.get("BENCH_UPSTREAM", "9"))
call = ChatOpenAI(
    model="stub",
    api_key="x",
    base_url=f"http://127.0.0.1:{UPSTREAM}/v1",
    use_responses_api=False,
)
"""A model whose answers come from `benchmarks.serve_stub` at once."""


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


def cpu_of(pid: int) -> tuple[float, float]:
    """Return the seconds of CPU of a process, and of its main thread."""
    return _seconds(Path(f"/proc/{pid}/stat")), _seconds(Path(f"/proc/{pid}/task/{pid}/stat"))


def _seconds(path: Path) -> float:
    fields = path.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def request_bytes(model_name: str, *, streams: bool) -> bytes:
    """Return a request to Chat Completions."""
    message = {"role": "user", "content": "hello there"}
    body = json.dumps({"model": model_name, "stream": streams, "messages": [message]}).encode()
    ending = "close" if streams else "keep-alive"
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        f"connection: {ending}\r\n\r\n"
    ).encode() + body


async def read_stream(port: int, delay: float) -> int:
    """Read one stream; return its events."""
    await asyncio.sleep(delay)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("words", streams=True))
    data = await reader.read()
    writer.close()
    assert data.count(b"word") >= WORDS
    return data.count(b"data:")


async def read_streams(port: int) -> int:
    """Read all streams, begun within a third of a second; return the number of events."""
    streams = (read_stream(port, number / STREAMS / 3) for number in range(STREAMS))
    return sum(await asyncio.gather(*streams))


async def read_answers(port: int) -> int:
    """Send requests over a few connections, one after another; return their number."""
    request = request_bytes("call", streams=False)

    async def send(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head, head
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            assert b"Hello." in await reader.readexactly(int(length))
        writer.close()

    await asyncio.gather(*(send(REQUESTS // CONNECTIONS) for _ in range(CONNECTIONS)))
    return REQUESTS


def measure(load: Callable[[int], Coroutine[Any, Any, int]], port: int, pid: int) -> Cost:
    """Return a server's CPU for each event or request of a load."""
    begin = cpu_of(pid)
    count = asyncio.run(load(port))
    total, main_thread = (
        (now - then) / count * 1e6 for now, then in zip(cpu_of(pid), begin, strict=True)
    )
    return Cost(total, main_thread)


class Cost(NamedTuple):
    """Microseconds of CPU."""

    total: float
    main_thread: float

    def __str__(self) -> str:
        return f"{self.total:.0f} ({self.main_thread:.0f} in the main thread)"


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


async def _call_alone() -> float:
    async def send(count: int) -> None:
        for _ in range(count):
            await call.ainvoke([{"role": "user", "content": "hello there"}])

    await send(4)
    begin = time.process_time()
    await asyncio.gather(*(send(REQUESTS // CONNECTIONS) for _ in range(CONNECTIONS)))
    return (time.process_time() - begin) / REQUESTS * 1e6


def measure_alone(name: str, environment: dict[str, str]) -> float:
    """Return the microseconds of the model or the call in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.cpu", name]
    return float(subprocess.check_output(command, env=environment))


def serve_floor(port: int) -> None:
    """Run the bare server."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    async def chat(request: Request) -> Response:
        if not (await request.json())["stream"]:
            return JSONResponse(ANSWER)

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


def start_servers(ours: int, floor: int, folder: str, environment: dict[str, str]) -> list[Server]:
    """Start foldline's server and the bare one."""
    serve = [
        "foldline", "serve", "words=benchmarks.cpu:model", "call=benchmarks.cpu:call", "--port", str(ours),
        "--log", str(Path(folder) / "runs.db"), "--no-trace",
    ]  # fmt: skip
    commands = [serve, ["benchmarks.cpu", "floor", str(floor)]]
    return [
        subprocess.Popen([sys.executable, "-m", *command], env=environment) for command in commands
    ]


def run_rounds(rounds: int, ports: list[int], pids: list[int], environment: dict[str, str]) -> None:
    """Measure some rounds, the sides in turn; print each, and the medians of the ratios."""
    event_ratios, request_ratios = [], []
    for _ in range(rounds):
        ours, floor = (measure(read_streams, *side) for side in zip(ports, pids, strict=True))
        alone = measure_alone("model", environment)
        event_ratios.append(ours.total / (floor.total + alone))
        print(
            f"event: foldline serve {ours} µs, bare stream {floor.total:.0f}, model alone {alone:.0f}: "
            f"{event_ratios[-1]:.2f} times their sum",
            flush=True,
        )
        ours, floor = (measure(read_answers, *side) for side in zip(ports, pids, strict=True))
        alone = measure_alone("call", environment)
        request_ratios.append(ours.total / alone)
        print(
            f"request: foldline serve {ours} µs, bare answer {floor.total:.0f}, call alone {alone:.0f}: "
            f"{request_ratios[-1]:.2f} times the call",
            flush=True,
        )
    print(
        f"medians: event {statistics.median(event_ratios):.2f}, request {statistics.median(request_ratios):.2f}"
    )


def main() -> None:
    """Start the servers and measure them; with the name of a side, be that side."""
    if sys.argv[1:2] == ["floor"]:
        serve_floor(int(sys.argv[2]))
        return
    if sys.argv[1:2] == ["stub"]:
        asyncio.run(serve_stub(int(sys.argv[2]), 100))
        return
    if sys.argv[1:2] in (["model"], ["call"]):
        import uvloop

        print(uvloop.run(_model_alone() if sys.argv[1] == "model" else _call_alone()))
        return
    upstream, ours, floor = (free_port() for _ in range(3))
    environment = {**os.environ, "BENCH_UPSTREAM": str(upstream)}
    stub = [sys.executable, "-m", "benchmarks.cpu", "stub", str(upstream)]
    with tempfile.TemporaryDirectory() as folder:
        servers = start_servers(ours, floor, folder, environment)
        servers.append(subprocess.Popen(stub))
        try:
            wait_for_port(upstream)
            for port in (ours, floor):
                wait_for_port(port)
                for load in (read_streams, read_answers):  # they load what is loaded late
                    asyncio.run(load(port))
            rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
            run_rounds(rounds, [ours, floor], [server.pid for server in servers[:2]], environment)
        finally:
            for server in servers:
                server.terminate()
                server.wait(60)


if __name__ == "__main__":
    main()
