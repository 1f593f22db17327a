"""Calls over TLS that are cancelled or interrupted free their connections at once, as plain ones do."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any

import pytest

from foldline._io.drive import drive
from foldline.transports import HttpOptions, Request, Transport
from tests.servers import Answer, FaultServer
from tests.transports.test_leaks import SILENT, STALLED, freed, sockets

pytestmark = pytest.mark.timing

Make = Callable[..., Transport]
TIMES = 10
ANSWERS = pytest.mark.parametrize("answer", [STALLED, SILENT], ids=["body", "headers"])


@pytest.fixture(autouse=True)
def no_collector(fault_server: FaultServer) -> Iterator[None]:
    """No collector to help, and no connection left of an earlier test."""
    fault_server.drop_all()
    fault_server.wait_for_open(0)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def read(transport: Transport, url: str, *, blocking: bool) -> None:
    async with (
        transport.open(Request(url=url), blocking=blocking) as response,
        aclosing(response.chunks()) as chunks,
    ):
        async for _ in chunks:
            pass


@contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Raise `KeyboardInterrupt` in this thread, as Ctrl-C does, whatever it waits for."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.slow
@ANSWERS
def test_F_C03_a_cancelled_call_over_tls_frees_its_socket(
    live: Make, fault_server: FaultServer, answer: Answer
) -> None:
    fault_server.script("/a", answer)
    url, transport = fault_server.https_url + "/a", live(HttpOptions(ca=fault_server.ca_pem))

    async def body() -> int:
        good, before = 0, None
        for turn in range(TIMES + 1):
            task = asyncio.create_task(read(transport, url, blocking=False))
            while fault_server.hits("/a") <= turn:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            if before is None:
                await asyncio.to_thread(fault_server.wait_for_open, 0)
                before = sockets()
            good += await asyncio.to_thread(freed, fault_server, before)
        return good

    assert asyncio.run(body()) == TIMES + 1


@pytest.mark.slow
@ANSWERS
def test_F_C13_an_interrupted_call_over_tls_frees_its_socket(
    live: Make, fault_server: FaultServer, answer: Answer
) -> None:
    fault_server.script("/a", answer)
    url, transport = fault_server.https_url + "/a", live(HttpOptions(ca=fault_server.ca_pem))
    before, good = sockets(), 0
    for _ in range(TIMES):
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.05):
            drive(read(transport, url, blocking=True))
        good += freed(fault_server, before)
    assert good == TIMES


@contextmanager
def server_that_never_agrees() -> Iterator[tuple[str, Callable[[], int]]]:
    """A server that accepts connections and never answers a TLS hello: its URL, and how many are open."""
    connections: list[socket.socket] = []

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connections.append(listener.accept()[0])

    def count_open() -> int:
        still = 0
        for connection in connections:
            connection.settimeout(1)
            try:
                while connection.recv(65536):
                    pass
            except TimeoutError:
                still += 1
            except OSError:
                continue  # closed by a reset
        return still

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/", count_open
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    for connection in connections:
        connection.close()


@pytest.mark.slow
def test_F_C03_a_call_cancelled_while_it_agrees_on_tls_frees_its_socket(
    live: Make, blocking: bool
) -> None:
    transport = live()

    async def cancel(url: str) -> None:
        task = asyncio.create_task(read(transport, url, blocking=False))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with server_that_never_agrees() as (url, count_open):
        for _ in range(3):
            if blocking:
                with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
                    drive(read(transport, url, blocking=True))
            else:
                asyncio.run(cancel(url))
        assert count_open() == 0
