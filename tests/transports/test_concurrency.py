"""One transport, used from many places: threads, loops, forks, more calls than slots, and the end of the program."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from foldline._io.drive import drive
from foldline.exceptions import ModelTimeoutError
from foldline.transports import HttpOptions, Request, Transport, default_transport
from tests.servers import Answer, FaultServer
from tests.transports.conftest import LIVE, Caller

pytestmark = pytest.mark.timing


async def echo(transport: Transport, url: str, text: str, *, blocking: bool) -> str:
    async with transport.open(
        Request(url=f"{url}/echo", body=text.encode()), blocking=blocking
    ) as response:
        return str(json.loads(await response.read())["body"])


def test_F_C04_twenty_loops_one_transport_twenty_requests(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    transport = live()
    for turn in range(20):
        assert (
            asyncio.run(echo(transport, fault_server.url, f"t{turn}", blocking=False)) == f"t{turn}"
        )
    assert fault_server.hits("/echo") == 20


def test_F_C04_eight_threads_with_loops_of_their_own(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    transport = live()

    def work(thread: int) -> list[str]:
        async def body() -> list[str]:
            calls = (
                echo(transport, fault_server.url, f"{thread}-{i}", blocking=False) for i in range(5)
            )
            return await asyncio.gather(*calls)

        return [text for _ in range(3) for text in asyncio.run(body())]

    with ThreadPoolExecutor(8) as threads:
        for thread, texts in enumerate(threads.map(work, range(8))):
            assert texts == [f"{thread}-{i}" for i in range(5)] * 3
    assert fault_server.hits("/echo") == 8 * 15


def test_F_C06_sixty_four_threads_mix_nothing_up(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    transport = live()

    def work(number: int) -> bool:
        text = f"{number}-" + "x" * (number * 7 % 3000)
        return drive(echo(transport, fault_server.url, text, blocking=True)) == text

    with ThreadPoolExecutor(64) as threads:
        assert all(threads.map(work, range(640)))
    assert fault_server.hits("/echo") == 640


def test_a_blocking_call_inside_a_running_loop(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    transport = live()

    async def notebook_cell() -> str:
        answer = drive(echo(transport, fault_server.url, "hi", blocking=True))
        await asyncio.sleep(0)
        return answer + await echo(transport, fault_server.url, " there", blocking=False)

    assert asyncio.run(notebook_cell()) == "hi there"


def in_child(kind: str, url: str, number: int, errors: multiprocessing.Value) -> None:  # type: ignore[valid-type]
    transport = TRANSPORTS[kind]
    for turn in range(25):
        text = f"{number}-{turn}"
        blocking = bool(turn % 2)
        body = echo(transport, url, text, blocking=blocking)
        try:
            same = (drive(body) if blocking else asyncio.run(body)) == text
        except Exception as error:  # noqa: BLE001
            print(repr(error), file=sys.stderr)
            same = False
        if not same:
            with errors.get_lock():
                errors.value += 1


TRANSPORTS: dict[str, Transport] = {}


def test_F_C05_a_forked_child_gets_right_answers(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    """4 children × 25 calls after use in the parent."""
    transport = live()
    assert drive(echo(transport, fault_server.url, "parent", blocking=True)) == "parent"
    assert asyncio.run(echo(transport, fault_server.url, "parent", blocking=False)) == "parent"
    TRANSPORTS["it"] = transport
    forks = multiprocessing.get_context("fork")
    errors = forks.Value("i", 0)
    children = [
        forks.Process(target=in_child, args=("it", fault_server.url, n, errors)) for n in range(4)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(20)
    assert [child.exitcode for child in children] == [0] * 4
    assert errors.value == 0
    assert drive(echo(transport, fault_server.url, "again", blocking=True)) == "again"
    assert fault_server.hits("/echo") == 103


def test_F_H07_a_connection_the_server_closed_while_idle_costs_nothing(
    live: Callable[..., Transport], blocking: bool, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer(b"x", close_after=0.02))
    transport = live()

    async def body() -> list[bytes]:
        read = []
        for _ in range(5):
            async with transport.open(Request(url=url, body=b"{}"), blocking=blocking) as response:
                read.append(await response.read())
            await asyncio.sleep(0.08) if not blocking else time.sleep(0.08)
        return read

    assert Caller(transport, blocking=blocking).run(body()) == [b"x"] * 5
    assert fault_server.hits("/a") == 5


def test_connections_are_reused(
    live: Callable[..., Transport], blocking: bool, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer([b"x", b"y"], framing="chunked"))
    transport = live()

    async def body() -> None:
        for _ in range(5):
            async with transport.open(Request(url=url), blocking=blocking) as response:
                assert await response.read() == b"xy"

    Caller(transport, blocking=blocking).run(body())
    assert len({request.connection for request in fault_server.requests("/a")}) == 1


@pytest.mark.slow
def test_F_C14_more_calls_than_slots_wait_and_then_say_so(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer([b"x", ("wait", 0.3), b"y"], framing="chunked"))
    patient = live(HttpOptions(max_connections=4, pool_timeout=10))
    hasty = live(HttpOptions(max_connections=1, pool_timeout=0.1))

    async def read(transport: Transport, blocking: bool) -> bytes:
        async with transport.open(Request(url=url), blocking=blocking) as response:
            return await response.read()

    async def at_once(transport: Transport, many: int) -> list[bytes | BaseException]:
        calls = (read(transport, blocking=False) for _ in range(many))
        return await asyncio.gather(*calls, return_exceptions=True)

    assert asyncio.run(at_once(patient, 12)) == [b"xy"] * 12
    first, other = sorted(asyncio.run(at_once(hasty, 2)), key=repr)
    assert isinstance(first, ModelTimeoutError)
    assert (first.phase, other) == ("pool", b"xy")
    with ThreadPoolExecutor(12) as threads:
        assert set(threads.map(lambda _: drive(read(patient, blocking=True)), range(12))) == {b"xy"}


def test_five_hundred_at_once(live: Callable[..., Transport], fault_server: FaultServer) -> None:
    # The pool of httpx2 is quadratic in what waits: 500 take five seconds of CPU.
    many = 100 if live.kind == "httpx" else 500  # type: ignore[attr-defined]
    transport = live()

    async def body() -> list[str]:
        calls = (echo(transport, fault_server.url, f"n{i}", blocking=False) for i in range(many))
        return await asyncio.gather(*calls)

    assert asyncio.run(body()) == [f"n{i}" for i in range(many)]


PROGRAM = """
import asyncio, sys, threading, time
from foldline._io.drive import drive, drive_each
from foldline.transports import Request, NativeTransport
from foldline.transports.httpx import HttpxTransport

kind, url, way = sys.argv[1:]
transport = {"native": NativeTransport, "httpx": HttpxTransport}[kind]()

async def pieces(blocking):
    async with transport.open(Request(url=url), blocking=blocking) as response:
        async for chunk in response.chunks():
            print("got", flush=True)
            yield chunk

async def read(blocking):
    async for _ in pieces(blocking):
        pass

if way == "blocking":
    drive(read(True))
elif way == "async":
    asyncio.run(read(False))
elif way == "exit":
    stream = drive_each(pieces(True))
    next(stream)
    sys.exit(0)
elif way == "daemon":
    threading.Thread(target=lambda: drive(read(True)), daemon=True).start()
    time.sleep(0.7)
"""


@pytest.mark.parametrize("way", ["blocking", "async"])
@pytest.mark.parametrize("kind", [*LIVE])
def test_F_C13_ctrl_c_ends_a_stalled_stream_at_once(
    kind: str, way: str, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer([b"hello", ("stall", None)], framing="chunked"))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, url, way],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stdout.readline() == "got\n"
    time.sleep(0.1)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=5)
    assert errors.strip().endswith("KeyboardInterrupt")
    assert program.returncode == -signal.SIGINT
    assert "Fatal" not in errors


@pytest.mark.parametrize("way", ["exit", "daemon"])
@pytest.mark.parametrize("kind", [*LIVE])
def test_F_C13_a_program_ends_cleanly_with_a_stream_open(
    kind: str, way: str, fault_server: FaultServer
) -> None:
    url = fault_server.script(
        "/a", Answer([b"hello", ("repeat", [500, 0.01, b"more"])], framing="chunked")
    )
    program = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, kind, url, way],
        capture_output=True, text=True, timeout=10, check=False,
    )  # fmt: skip
    assert program.stdout.startswith("got\n")
    assert (program.returncode, program.stderr) == (0, "")


def test_the_default_transport_is_one_for_all_threads() -> None:
    transports: list[Transport] = []
    threads = [
        threading.Thread(target=lambda: transports.append(default_transport())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(transport) for transport in transports}) == 1


def test_F_C03_cancelled_by_a_scope_of_anyio(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer([b"x", ("stall", None)], framing="chunked"))
    transport = live()

    async def body() -> list[bool]:
        cancelled = []
        for _ in range(5):
            with anyio.move_on_after(0.05) as scope:
                async with transport.open(Request(url=url), blocking=False) as response:
                    await response.read()
            cancelled.append(scope.cancelled_caught)
        return cancelled

    assert asyncio.run(body()) == [True] * 5
    assert fault_server.wait_for_open(0) == 0
    assert drive(echo(transport, fault_server.url, "still", blocking=True)) == "still"


@pytest.mark.usefixtures("no_blocking")
def test_F_C11_nothing_blocks_the_loop(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    transport = live(HttpOptions(ca=fault_server.ca_pem))
    for base in (fault_server.url, fault_server.https_url):
        assert asyncio.run(echo(transport, base, "hi", blocking=False)) == "hi"


WITHOUT_HTTPX = """
import os, sys
sys.modules["httpcore2"] = None
from foldline._io.drive import drive
from foldline.exceptions import MissingExtraError
from foldline.transports import HttpOptions, Request, default_transport, transport_for

async def ask():
    async with default_transport().open(Request(url=sys.argv[1]), blocking=True) as response:
        return await response.read()

print(drive(ask()), flush=True)
if os.fork() == 0:
    print(drive(ask()), flush=True)
    os._exit(0)
os.wait()
for options in ({"http2": True}, {"proxy": "https://proxy.example"}, {"proxy": "socks5://proxy.example"}):
    try:
        transport_for(HttpOptions(**options))
    except MissingExtraError as error:
        print(error)
"""


def test_without_httpx2_the_default_works_and_the_rest_names_the_extra(
    fault_server: FaultServer,
) -> None:
    program = subprocess.run(
        [sys.executable, "-c", WITHOUT_HTTPX, fault_server.url + "/ok"],
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    answer, of_the_child, *missing = program.stdout.splitlines()
    assert (answer, of_the_child) == ("b'ok'", "b'ok'")
    assert len(missing) == 3
    for message in missing:
        assert 'pip install "foldline[httpx]"' in message


FORKED_EARLY = """
import os, sys
from foldline._io.drive import drive, drive_each
from foldline.transports import NativeTransport, Request

transport = NativeTransport()

async def pieces(url):
    async with transport.open(Request(url=url), blocking=True) as response:
        async for chunk in response.chunks():
            yield chunk

list(drive_each(pieces(sys.argv[1] + "/ok")))
stream = drive_each(pieces(sys.argv[2]))
first = next(stream)
child = os.fork()
if child == 0:
    list(drive_each(pieces(sys.argv[1] + "/ok")))
    stream.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(first + b"".join(stream))
print(list(drive_each(pieces(sys.argv[1] + "/ok"))))
"""


def test_F_C05_a_child_that_closes_its_copy_does_not_end_the_parents_stream(
    fault_server: FaultServer,
) -> None:
    url = fault_server.script("/a", Answer([b"one ", ("wait", 0.8), b"two"], framing="chunked"))
    program = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKED_EARLY, fault_server.url, url],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert (program.stdout, program.stderr) == ("b'one two'\n[b'ok']\n", "")
