"""Models that stream without pauses hold up nobody, and readers that are slow or gone cost bounded memory."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
import threading
import time
import tracemalloc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from foldline._io.timers import STEP, Timers
from foldline._io.turns import Turns
from foldline.serve import create_app
from foldline.serve._draining import make_server
from foldline.serve._keys import Caller
from foldline.serve._live_runs import EVENT_SIZE, MOST_UNLOGGED, LiveRun
from foldline.serve._sse import SendLimit, SseResponse
from foldline.serve.app import ServeApp
from foldline.serve.apps import RunRequest
from foldline.serve.settings import MEBIBYTE
from foldline.testing import ScriptedChatModel
from tests.serve.flooding import PIECE, PIECES, flood
from tests.serve.in_process import post_in_process
from tests.serve.process import ServeProcess
from tests.serve.test_load import request_bytes

STREAMS = 30
ASK = [{"role": "user", "content": "hi"}]


def flooding_app(**settings: Any) -> ServeApp:
    return create_app({"flood": flood}, studio=False, **settings)


@asynccontextmanager
async def opened(app: ServeApp) -> AsyncIterator[ServeApp]:
    async with app.router.lifespan_context(app):
        yield app


async def start(app: ServeApp) -> LiveRun:
    server = app.server
    return await server.host.start(
        Caller(""), server.apps["flood"], RunRequest("hi"), wire="native"
    )


async def settle(app: ServeApp) -> None:
    """Wait until no run is under way, and the tasks of those that were have ended."""
    while app.server.host.live:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)


# -- turns


def test_S19_who_finds_the_turn_spent_waits_in_line():
    order: list[str] = []

    async def work(turns: Turns, name: str, slices: int) -> None:
        for _ in range(slices):
            await turns.spend(16)
            order.append(name)

    async def main() -> None:
        turns = Turns()
        await asyncio.gather(work(turns, "long", 8), work(turns, "short", 2))

    asyncio.run(main())

    assert [index for index, name in enumerate(order) if name == "short"] == [3, 5]


def test_S19_a_waiter_that_is_cancelled_spends_nothing_and_holds_up_nobody():
    async def main() -> bool:
        turns = Turns()
        waiters = [asyncio.ensure_future(turns.spend(16)) for _ in range(5)]
        await asyncio.sleep(0)
        waiters[2].cancel()  # the first in line
        others = [waiter for waiter in waiters if waiter is not waiters[2]]
        await asyncio.wait_for(asyncio.gather(*others), 60)
        return waiters[2].cancelled()

    assert asyncio.run(main())


def test_S19_other_tasks_run_between_the_events_of_a_model_without_pauses():
    async def main() -> int:
        turns = 0
        async with opened(flooding_app()) as app:
            run = await start(app)
            while not run.is_over:
                turns += 1
                await asyncio.sleep(0)
        return turns

    assert asyncio.run(main()) > PIECES / 32


def test_S19_a_follower_gets_at_most_32_events_at_once_and_all_of_them():
    async def main() -> list[list[int]]:
        async with opened(flooding_app()) as app:
            run = await start(app)
            return [[seq for seq, _ in batch] async for batch in run.follow(0, None)]

    batches = asyncio.run(main())

    assert max(len(batch) for batch in batches) <= 32
    seqs = [seq for batch in batches for seq in batch]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) > PIECES


@pytest.mark.slow
def test_S19_a_commit_of_many_runs_takes_at_most_32_events_of_each():
    sizes: list[tuple[int, int]] = []

    async def main() -> None:
        async with opened(flooding_app()) as app:
            log = app.server.host.log
            keep = log.keep

            def note(batches: Any) -> set[str]:
                sizes.append((len(batches), max(len(batch.events) for batch in batches)))
                return keep(batches)

            log.keep = note  # type: ignore[method-assign]
            runs = await asyncio.gather(*(start(app) for _ in range(STREAMS)))
            for run in runs:
                await run.wait_for_end()

    asyncio.run(main())

    assert max(size for count, size in sizes if count >= 30) <= 34
    assert max(size for _, size in sizes) <= 1_024


def test_S19_a_run_waits_for_a_log_that_is_far_behind():
    async def main() -> tuple[int, int]:
        async with opened(flooding_app()) as app:
            gate = threading.Event()
            log = app.server.host.log
            keep = log.keep
            run = await start(app)

            def slow(batches: Any) -> set[str]:
                gate.wait(60)
                return keep(batches)

            log.keep = slow  # type: ignore[method-assign]
            count = -1
            while run.count != count:  # until it goes no further
                count = run.count
                for _ in range(200):
                    await asyncio.sleep(0)
            unlogged = run.count - run.logged_count
            gate.set()
            await run.wait_for_end()
            return unlogged, run.count

    unlogged, count = asyncio.run(main())

    assert unlogged <= MOST_UNLOGGED + 32
    assert count > PIECES


# -- the whole server


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("flooded")
    (folder / "serve.toml").write_text(
        "[serve]\nstudio = false\ndrain_delay = 0\nsend_timeout = 0.5\n"
    )
    apps = ["flood=tests.serve.flooding:flood", "chat=tests.serve.served:chat"]
    options = ("--config", str(folder / "serve.toml"), "--no-trace")
    process = ServeProcess(folder, apps=apps, options=options).start()
    yield process
    process.stop()


class Flood:
    """Streams without pauses, and probes on new connections meanwhile."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.latencies: list[float] = []
        self.firsts: list[float] = []
        self.complete = 0

    async def _stream(self) -> None:
        begin = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = {"model": "flood", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        writer.write(request_bytes("/v1/chat/completions", body))
        tail, count = b"", 0
        while data := await reader.read(1 << 18):
            if not count and b"data:" in data:
                self.firsts.append(time.monotonic() - begin)
            count += data.count(b"xxx ")
            tail = (tail + data)[-400:]
        writer.close()
        self.complete += b"[DONE]" in tail

    async def _probe(self) -> None:
        begin = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        data = await reader.read()
        self.latencies.append(time.monotonic() - begin)
        writer.close()
        assert b"200" in data

    async def run(self) -> None:
        streams = [asyncio.ensure_future(self._stream()) for _ in range(STREAMS)]
        probes = []
        while not all(stream.done() for stream in streams):
            probes.append(asyncio.ensure_future(self._probe()))
            await asyncio.sleep(0.02)
        await asyncio.gather(*streams, *probes)


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.timeout(300)
def test_S19_probes_are_answered_while_30_models_stream_without_pauses(flooded: ServeProcess):
    """Alone on two cores the 99th percentile is 20 to 70 ms (`docs/serve-deployment.md` has the command)."""
    flood = Flood(flooded.port)
    asyncio.run(flood.run())
    ordered = sorted(flood.latencies)

    assert flood.complete == STREAMS
    assert ordered[int(len(ordered) * 0.99)] < 0.4
    assert max(flood.firsts) < 2.0


def test_S19a_the_server_freezes_what_is_loaded_and_collects_rarely(
    monkeypatch: pytest.MonkeyPatch,
):
    calls: list[Any] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "set_threshold", lambda *numbers: calls.append(numbers))
    monkeypatch.setattr(sys, "setswitchinterval", calls.append)
    app = flooding_app()
    make_server(app, {"port": 0})
    app.server.host.log.close()

    assert calls == ["freeze", (100_000, 50, 1_000), 0.001]


# -- slow readers


def test_S22_a_run_keeps_a_bounded_tail_in_memory_and_followers_behind_it_are_fed_from_the_log():
    async def main() -> tuple[LiveRun, list[Any], list[Any]]:
        async with opened(flooding_app(stream_buffer=100_000)) as app:
            run = await start(app)
            await run.wait_for_end()
            late = [item async for batch in run.follow(0, None) for item in batch]
            return run, late, app.server.host.log.events(run.info.id, 0, 10_000)

    run, late, logged = asyncio.run(main())

    assert sum(len(event) + EVENT_SIZE for event in run.events) <= 100_000
    assert late == logged
    assert [seq for seq, _ in late] == list(range(1, run.count + 1))


def test_S22_a_stream_of_1_mib_that_nobody_reads_costs_little_more_than_its_text():
    async def main() -> float:
        async with opened(flooding_app()) as app:
            run = await start(app)  # loads what is loaded late
            await run.wait_for_end()
            del run
            flood.requests.clear()
            gc.collect()
            tracemalloc.start()
            run = await start(app)
            follower = run.follow(0, None)
            await anext(follower)
            await run.wait_for_end()
            await settle(app)
            flood.requests.clear()  # a scripted model keeps its requests, and they their answers
            size, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            await follower.aclose()
            return size / MEBIBYTE

    assert asyncio.run(main()) < 1.5


def test_S22_a_run_that_has_ended_is_freed_without_a_collection_of_garbage():
    kept: list[weakref.ref[LiveRun]] = []

    async def main() -> list[bool]:
        app = create_app({"chat": ScriptedChatModel(script=["Hello."] * 2)}, studio=False)
        async with opened(app):
            start = app.server.host.start

            async def noting(*args: Any, **options: Any) -> LiveRun:
                run = await start(*args, **options)
                kept.append(weakref.ref(run))
                return run

            app.server.host.start = noting  # type: ignore[method-assign]
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                for streams in (False, True):
                    body = {"model": "chat", "messages": ASK, "stream": streams}
                    answer = await client.post("/v1/chat/completions", json=body)
                    assert answer.status_code == 200
                    del answer
            await settle(app)
            return [run() is None for run in kept]

    gc.disable()
    try:
        assert asyncio.run(main()) == [True, True]
    finally:
        gc.enable()


class Exchange:
    """A request as the server of HTTP has it: it knows its scope, and its answer is sent by it."""

    def __init__(self, body: bytes) -> None:
        self.status = 0
        self.body = body
        self.scope = {
            "type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "client": ("::1", 1),
            "headers": [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())],
        }  # fmt: skip

    async def receive(self) -> Any:
        if not self.body:
            await asyncio.Event().wait()
        body, self.body = self.body, b""
        return {"type": "http.request", "body": body}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


@pytest.mark.parametrize("streams", [False, True])
def test_S22_a_request_that_was_answered_is_freed_without_a_collection_of_garbage(streams: bool):
    async def main() -> bool:
        app = create_app({"chat": ScriptedChatModel(script=["Hello."])}, studio=False)
        async with opened(app):
            body = json.dumps({"model": "chat", "messages": ASK, "stream": streams})
            exchange = Exchange(body.encode())
            await app(exchange.scope, exchange.receive, exchange.send)
            assert exchange.status == 200
            await settle(app)
            kept = weakref.ref(exchange)
            del exchange
            return kept() is None

    gc.disable()
    try:
        assert asyncio.run(main())
    finally:
        gc.enable()


def test_S22_a_follower_that_falls_behind_and_catches_up_misses_nothing():
    async def main() -> tuple[int, list[int]]:
        async with opened(flooding_app(stream_buffer=50_000)) as app:
            run = await start(app)
            seqs: list[int] = []
            async for batch in run.follow(0, None):
                seqs += [seq for seq, _ in batch]
                if len(seqs) < 200:
                    while run.dropped_count < len(seqs) + 500 and not run.is_over:
                        await asyncio.sleep(0)
            return run.count, seqs

    count, seqs = asyncio.run(main())

    assert seqs == list(range(1, count + 1))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_S22_an_answer_that_does_not_fit_into_the_buffer_is_whole(path: str):
    app = flooding_app(stream_buffer=10_000)
    key = "input" if path == "/v1/responses" else "messages"
    body = {"model": "flood", "max_tokens": 9, key: [{"role": "user", "content": "x"}]}
    answer = post_in_process(app, path, body)

    assert answer.status_code == 200
    assert answer.text.count(PIECE) == PIECES


def test_S22_a_reader_that_takes_nothing_is_closed_and_its_run_stops(flooded: ServeProcess):
    message = {"role": "user", "content": "gate lazy"}
    body = {"model": "flood", "messages": [message], "stream": True}
    before = len(flooded.stderr())
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", flooded.port))
        lazy.sendall(request_bytes("/v1/chat/completions", body))
        wait_for_status(flooded, "stopped")
        data = read_rest(lazy)

    assert b"data:" in data
    assert b"[DONE]" not in data
    assert "Traceback" not in flooded.stderr()[before:]


def wait_for_status(server: ServeProcess, status: str) -> None:
    """Wait until the newest run has a status."""
    deadline = time.monotonic() + 60
    shown = ""
    while shown != status:
        assert time.monotonic() < deadline, shown
        answer = httpx.get(f"{server.url}/runs?limit=1", timeout=60)
        shown = next((run["status"] for run in answer.json()["runs"]), "")
        time.sleep(0.02)


def read_rest(connection: socket.socket) -> bytes:
    """Read until the connection is closed."""
    connection.settimeout(60)
    data = b""
    with suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            data += piece
    return data


class StuckSend:
    """The `send` of a server whose client takes the head and then nothing."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, message: Any) -> None:
        self.count += 1
        if self.count > 2:
            await asyncio.Event().wait()


async def never() -> Any:
    await asyncio.Event().wait()


def test_S22_a_stream_that_is_not_taken_is_closed_as_if_the_client_had_left():
    left: list[str] = []
    sent = StuckSend()

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"data: 1\n\n"
        finally:
            left.append("closed")

    async def leave() -> None:
        left.append("left")

    async def main() -> None:
        stream = SseResponse(pieces(), on_leave=leave)
        stream.send_limit = SendLimit(Timers(), 0.1)
        await asyncio.wait_for(stream({"type": "http"}, never, sent), 60)

    asyncio.run(main())

    assert left == ["closed", "left"]
    assert sent.count == 3


def test_S22_a_stream_that_is_quiet_is_not_closed():
    sent: list[bytes] = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"one"
        await asyncio.sleep(2 * STEP)
        yield b"two"

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def main() -> None:
        stream = SseResponse(pieces())
        stream.send_limit = SendLimit(Timers(), 0.01)
        await stream({"type": "http"}, never, send)

    asyncio.run(main())

    assert sent == [b"", b"one", b"two", b""]


def test_S57_many_waits_share_one_timer_and_those_that_end_are_not_called():
    called: list[int] = []

    async def main() -> None:
        timers = Timers()
        loop = asyncio.get_running_loop()
        real, count = loop.call_later, 0

        def counting(*values: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            return real(*values, **options)

        loop.call_later = counting  # type: ignore[method-assign]
        numbers = [timers.add(0.01, lambda n=n: called.append(n)) for n in range(100)]
        for number in numbers[:50]:
            timers.remove(number)
        assert count == 1
        while len(called) < 50:
            await asyncio.sleep(0.01)

    asyncio.run(main())

    assert called == list(range(50, 100))
