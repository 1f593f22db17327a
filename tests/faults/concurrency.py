"""Many at once, and one after another: loops, forks, threads and thousands of open streams on one model.

Run as a program (`python -m tests.faults.concurrency 5000`) it holds that many streams open in its own process, with
as many file descriptors as the system allows, and prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

from foldline.language_models import BaseChatModel
from foldline.providers.openai import ChatOpenAI
from foldline.transports import NativeTransport
from tests.conftest import open_files
from tests.servers import Answer, FaultServer
from tests.servers.client import ROOT

WAVE = 250
"""Streams opened at once, until as many are open as wanted."""


def echo_model(server: FaultServer, **fields: Any) -> BaseChatModel:
    """A model that returns its input."""
    settings = {
        "transport": NativeTransport(),
        "max_retries": 0,
        "use_responses_api": False,
        **fields,
    }
    return ChatOpenAI(model="m", api_key="k", base_url=f"{server.url}/say/v1", **settings)


def says(model: BaseChatModel, text: str, way: int) -> bool:
    """Ask in one of six ways and compare."""
    ways: list[Callable[[], str]] = [
        lambda: str(model.invoke(text).text),
        lambda: "".join(str(chunk.text) for chunk in model.stream(text)),
        lambda: str(model.stream_v2(text).output.text),
        lambda: str(asyncio.run(_invoke(model, text)).text),
        lambda: asyncio.run(_stream_text(model, text)),
        lambda: str(asyncio.run(_streamed_v2(model, text)).text),
    ]
    return ways[way % len(ways)]() == text


async def _invoke(model: BaseChatModel, text: str) -> Any:
    return await model.ainvoke(text)


async def _stream_text(model: BaseChatModel, text: str) -> str:
    async with aclosing(model.astream(text)) as chunks:
        return "".join([str(chunk.text) async for chunk in chunks])


async def _streamed_v2(model: BaseChatModel, text: str) -> Any:
    return await (await model.astream_v2(text))


def loops(server: FaultServer, times: int = 20) -> tuple[int, int]:
    """One model in loop after loop: right answers, and requests that the server saw."""
    model = echo_model(server)
    before = server.stats()["seen"]
    right = sum(says(model, f"loop {turn}", 3 + turn % 3) for turn in range(times))
    return right, server.stats()["seen"] - before


def forks(server: FaultServer, children: int = 4, times: int = 25) -> tuple[int, int]:
    """Fork after use: wrong answers of the children, and how many there were."""
    model = echo_model(server)
    assert all(says(model, f"parent {way}", way) for way in range(6))
    context = multiprocessing.get_context("fork")
    right = context.Value("i", 0)

    def work(number: int) -> None:
        for turn in range(times):
            if says(model, f"child {number} {turn}", turn):
                with right.get_lock():
                    right.value += 1

    processes = [context.Process(target=work, args=(number,)) for number in range(children)]
    for child in processes:
        child.start()
    for child in processes:
        child.join(60)
    still = says(model, "parent again", 0)
    return children * times - right.value + (not still), children * times


def threads(server: FaultServer, many: int = 64, times: int = 10) -> tuple[int, int]:
    """Threads on one model, every way mixed: wrong answers, and how many there were."""
    model = echo_model(server)

    def work(number: int) -> bool:
        return says(model, f"{number} " + "x" * (number * 7 % 3000), number)

    with ThreadPoolExecutor(many) as pool:
        right = sum(pool.map(work, range(many * times)))
    return many * times - right, many * times


def resident() -> int:
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def hold(many: int) -> dict[str, Any]:
    """Hold streams open in another process; return its counts."""
    program = subprocess.run(
        [sys.executable, "-m", "tests.faults.concurrency", str(many)],
        capture_output=True, text=True, timeout=600, cwd=ROOT, check=False,
    )  # fmt: skip
    assert program.returncode == 0, program.stderr
    return dict(json.loads(program.stdout.splitlines()[-1]))


def chunk(text: str, finish: str | None = None) -> bytes:
    """One event of chat completions."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    data = {"id": "c", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(data)}\n\n".encode()


async def _hold(server: FaultServer, many: int) -> dict[str, Any]:
    model = ChatOpenAI(
        model="m", api_key="k", base_url=f"{server.url}/v1", transport=NativeTransport(),
        use_responses_api=False, max_retries=0,
    )  # fmt: skip
    numbers: set[int] = set()
    failed: list[str] = []

    async def read_stream(number: int) -> bool:
        text = ""
        try:
            async with aclosing(model.astream("Hi")) as chunks:
                async for piece in chunks:
                    text += str(piece.text)
                    numbers.add(number)
        except Exception as error:  # noqa: BLE001  counted
            failed.append(repr(error))
        return text == "begun and ended"

    server.open_gate()
    await model.ainvoke("Hi")  # warm up
    await model.transport.aclose()
    server.reset()
    _teach(server)
    files, memory = len(open_files()), resident()
    tasks: list[asyncio.Future[bool]] = []
    while len(tasks) < many:  # in waves: this is about holding, not about how fast a kernel accepts
        wave = min(WAVE, many - len(tasks))
        tasks += [asyncio.ensure_future(read_stream(len(tasks) + place)) for place in range(wave)]
        while len(numbers) + len(failed) < len(tasks):
            await asyncio.sleep(0.02)
    open_count, memory_growth = server.open_connections(), resident() - memory
    server.open_gate()
    right = sum(await asyncio.gather(*tasks))
    await model.transport.aclose()
    await asyncio.sleep(0.2)
    files_left = max(len(open_files()) - files, 0)
    return {"streams": many, "held_open": open_count, "right": right, "failed": len(failed),
            "why": failed[:1], "bytes_per_stream": memory_growth // many, "files_left": files_left}  # fmt: skip


def _teach(server: FaultServer) -> None:
    steps = [chunk("begun"), ("gate", None), chunk(" and ended"), chunk("", "stop"), b"data: [DONE]\n\n"]  # fmt: skip
    answer = Answer(steps, headers={"content-type": "text/event-stream"}, framing="chunked")
    server.script("/v1/chat/completions", answer)


def main() -> None:
    """Hold as many streams open as the argument says."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with FaultServer.start() as server:  # a child: it inherits the limit
        _teach(server)
        print(json.dumps(asyncio.run(_hold(server, int(sys.argv[1])))))


if __name__ == "__main__":
    main()
