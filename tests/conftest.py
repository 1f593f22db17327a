"""Fixtures of every test: `call` (sync and async), `no_leaks`, `no_blocking`; and the network, closed for all tests.

A behaviour test takes `call` and so runs twice, once sync and once async, without saying so.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, find, settings, strategies as st

from foldline.transports import Request, _body, check_request
from foldline.transports._proxy_environment import CERTIFICATE_VARIABLES, PROXY_VARIABLES

T = TypeVar("T")

# A runner in the background may ignore Ctrl-C; programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long Hypothesis takes to draw an example depends on the machine's load, not on foldline.
# `scripts/test --all` takes the large one, with `--hypothesis-profile=large`.
for profile, examples in {"small": 25, "large": 200}.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("small")

NOBODYS = re.compile(
    r"(^|\.)(invalid|test|example|localhost|example\.(com|net|org))$|^(192\.0\.2|198\.51\.100|203\.0\.113)\."
)
"""Hosts reserved for examples and tests: no request to them can reach anybody."""
PATIENCE = 10.0
"""Seconds that threads and file descriptors get to go away before they count as leaked."""


class SyncCalls:
    """Calls a runnable's sync methods."""

    mode = "sync"
    is_async = False

    def invoke(self, runnable: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return runnable.invoke(input, config, **kwargs)

    def stream(self, runnable: Any, input: Any, config: Any = None, **kwargs: Any) -> list[Any]:
        return list(runnable.stream(input, config, **kwargs))

    def batch(
        self, runnable: Any, inputs: list[Any], config: Any = None, **kwargs: Any
    ) -> list[Any]:
        return runnable.batch(inputs, config, **kwargs)

    def batch_as_completed(
        self, runnable: Any, inputs: list[Any], config: Any = None, **kwargs: Any
    ) -> list[Any]:
        return list(runnable.batch_as_completed(inputs, config, **kwargs))

    def transform(
        self, runnable: Any, items: Iterable[Any], config: Any = None, **kwargs: Any
    ) -> list[Any]:
        return list(runnable.transform(iter(items), config, **kwargs))

    def generate(self, model: Any, prompts: list[Any], **kwargs: Any) -> Any:
        return model.generate(prompts, **kwargs)

    def stream_v2(self, model: Any, input: Any, config: Any = None, **kwargs: Any) -> list[Any]:
        """The events of one answer."""
        return list(model.stream_v2(input, config, **kwargs))

    def run(self, target: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call any other method that is sync and async: `call.run(store, "mget", keys)`; an iterator becomes a list."""
        result = getattr(target, method)(*args, **kwargs)
        return list(result) if isinstance(result, Iterator) else result


class AsyncCalls:
    """Calls the async methods, each call in an event loop of its own."""

    mode = "async"
    is_async = True

    def __init__(self) -> None:
        self.left_behind: list[str] = []

    def invoke(self, runnable: Any, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return self._finish(lambda: runnable.ainvoke(input, config, **kwargs))

    def stream(self, runnable: Any, input: Any, config: Any = None, **kwargs: Any) -> list[Any]:
        return self._finish(lambda: collect(runnable.astream(input, config, **kwargs)))

    def batch(
        self, runnable: Any, inputs: list[Any], config: Any = None, **kwargs: Any
    ) -> list[Any]:
        return self._finish(lambda: runnable.abatch(inputs, config, **kwargs))

    def batch_as_completed(
        self, runnable: Any, inputs: list[Any], config: Any = None, **kwargs: Any
    ) -> list[Any]:
        return self._finish(lambda: collect(runnable.abatch_as_completed(inputs, config, **kwargs)))

    def transform(
        self, runnable: Any, items: Iterable[Any], config: Any = None, **kwargs: Any
    ) -> list[Any]:
        return self._finish(lambda: collect(runnable.atransform(supply(items), config, **kwargs)))

    def generate(self, model: Any, prompts: list[Any], **kwargs: Any) -> Any:
        return self._finish(lambda: model.agenerate(prompts, **kwargs))

    def stream_v2(self, model: Any, input: Any, config: Any = None, **kwargs: Any) -> list[Any]:
        """The events of one answer."""

        async def events() -> list[Any]:
            return await collect(await model.astream_v2(input, config, **kwargs))

        return self._finish(events)

    def run(self, target: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call any other method that is sync and async: `call.run(store, "mget", keys)`; an iterator becomes a list."""

        async def body() -> Any:
            result = getattr(target, f"a{method}")(*args, **kwargs)
            return await collect(result) if isinstance(result, AsyncIterator) else await result

        return self._finish(body)

    def _finish(self, start: Callable[[], Awaitable[T]]) -> T:
        """Run to the end in a new loop, and record the tasks that are still running then."""

        async def body() -> T:
            try:
                return await start()
            finally:
                await asyncio.sleep(0)  # let tasks that were cancelled just now go
                others = asyncio.all_tasks() - {asyncio.current_task()}
                self.left_behind += [repr(task) for task in others]

        return asyncio.run(body())


async def collect(stream: Any) -> list[Any]:
    return [item async for item in stream]


async def supply(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


@pytest.fixture(params=[SyncCalls, AsyncCalls], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> SyncCalls | AsyncCalls:
    return request.param()


class Baseline:
    """How many threads and file descriptors there were; `mark()` counts afresh, after a warm-up."""

    def __init__(self) -> None:
        self.mark()

    def mark(self) -> None:
        gc.collect()
        self.threads = set(threading.enumerate())
        self.files = open_files()

    def check(self) -> None:
        """Wait until everything that came since has gone, or say what has not."""
        deadline, looks = time.monotonic() + PATIENCE, 0
        while (leaks := self._grown()) and time.monotonic() < deadline:
            if looks % 10 == 0:  # a collection stops every thread, those we wait for too
                gc.collect()
            looks += 1
            time.sleep(0.02)
        assert not leaks, f"left behind: {leaks}"

    def _grown(self) -> list[str]:
        threads = [repr(thread) for thread in set(threading.enumerate()) - self.threads]
        files = open_files()
        new_files = [f"{fd} -> {files[fd]}" for fd in files if fd not in self.files]
        return threads + (new_files if len(files) > len(self.files) else [])


def open_files() -> dict[str, str]:
    """File descriptor -> its target, where the system knows it."""
    folder = Path("/proc/self/fd")
    targets = {}
    for entry in os.listdir(folder) if folder.exists() else []:
        try:
            targets[entry] = os.readlink(folder / entry)
        except OSError:  # the descriptor of the listing itself
            continue
    return targets


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest) -> Iterator[Baseline]:
    """Threads, file descriptors and tasks are back where they were when the test ends."""
    baseline = Baseline()
    yield baseline
    baseline.check()
    if "call" in request.fixturenames:
        caller = request.getfixturevalue("call")
        assert not getattr(caller, "left_behind", []), "tasks were left behind"


@pytest.fixture
def no_blocking() -> Iterator[None]:
    """A call that blocks the thread of a running event loop fails the test."""
    with blockbuster_ctx():
        yield


class NetworkRefusedError(BaseException):
    """A test tried to leave this machine. Not an `Exception`, so that no retry swallows it."""


def is_loopback(address: object) -> bool:
    """Whether an address of `socket.connect` stays on this machine; a path (Unix socket) always does."""
    if not isinstance(address, tuple):
        return True
    host = str(address[0]).split("%")[0]
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_connection(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto") and not is_loopback(arguments[1]):
        raise NetworkRefusedError(f"tests may only connect to this machine, not to {arguments[1]}")


def refuse_request(request: Request) -> None:
    """Python's audit events do not see the sockets of a client written in Rust, so look at the address.

    Reserved names (`.invalid`, `example.com`) pass: tests of proxies and of failing DNS need them.
    """
    host = urlsplit(request.url).hostname or ""
    if not (is_loopback((host, 0)) or NOBODYS.search(host)):
        raise NetworkRefusedError(f"tests may only connect to this machine, not to {host}")
    check_request(request)


def pytest_configure() -> None:
    """Shut the network for this process, and forget the machine's settings for HTTP.

    Programs that a test starts (pip, a server) may connect.
    """
    sys.addaudithook(refuse_connection)
    for name in (*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES), *CERTIFICATE_VARIABLES):
        os.environ.pop(name, None)  # of the machine: the tests set their own
    _body.check_request = refuse_request


def pytest_collection_finish() -> None:
    """Take all that is there out of collections: it is most of the heap, and it stays.

    In a new environment Hypothesis makes its tables of Unicode at the first text
    it draws, which takes seconds.
    """
    find(st.text(), lambda _: True, settings=settings(database=None))
    gc.collect()
    gc.freeze()
