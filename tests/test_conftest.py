"""The fixtures of conftest.py do what the tests believe they do."""

import asyncio
import socket
import threading

import pytest
from blockbuster import BlockingError

from foldline._io.drive import drive
from foldline.transports import Request, default_transport

pytestmark = pytest.mark.timing


class Doubler:
    """A runnable reduced to what `call` uses."""

    def invoke(self, input, config=None, **kwargs):
        return input * 2

    async def ainvoke(self, input, config=None, **kwargs):
        return input * 2

    def stream(self, input, config=None, **kwargs):
        yield from [input, input]

    async def astream(self, input, config=None, **kwargs):
        for item in [input, input]:
            yield item

    def transform(self, items, config=None, **kwargs):
        for item in items:
            yield item * 2

    async def atransform(self, items, config=None, **kwargs):
        async for item in items:
            yield item * 2


def test_call_invokes_streams_and_transforms_sync_and_async(call):
    assert call.invoke(Doubler(), 2) == 4
    assert call.stream(Doubler(), 2) == [2, 2]
    assert call.transform(Doubler(), [1, 2]) == [2, 4]
    assert call.run(Doubler(), "invoke", 3) == 6
    assert call.run(Doubler(), "stream", 3) == [3, 3]


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80)])
def test_a_connection_to_another_machine_is_refused(address):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as connection, pytest.raises(BaseException, match="this machine"):
        connection.connect(address)


def test_a_request_to_a_provider_is_refused_by_the_default_transport():
    request = Request(url="https://api.openai.com/v1/models")

    async def ask():
        async with default_transport().open(request, blocking=True):
            pass

    with pytest.raises(BaseException, match=r"this machine, not to api\.openai\.com"):
        drive(ask())


def test_a_connection_to_this_machine_is_allowed():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        pass


@pytest.mark.slow
def test_a_thread_or_a_file_that_stays_is_a_leak(no_leaks, tmp_path, monkeypatch):
    monkeypatch.setitem(type(no_leaks).check.__globals__, "PATIENCE", 0.05)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    with pytest.raises(AssertionError, match="left behind"):
        no_leaks.check()
    stop.set()
    thread.join()

    with (tmp_path / "file").open("w"), pytest.raises(AssertionError, match="left behind"):
        no_leaks.check()


def test_a_forgotten_task_is_noticed():
    class Forgetful:
        async def ainvoke(self, input, config=None):
            self.task = asyncio.create_task(asyncio.sleep(60))

    from tests.conftest import AsyncCalls

    caller = AsyncCalls()
    caller.invoke(Forgetful(), 1)

    assert len(caller.left_behind) == 1


def test_blocking_inside_a_loop_is_noticed(no_blocking):
    async def body():
        import time

        time.sleep(0.01)

    with pytest.raises(BlockingError):
        asyncio.run(body())
