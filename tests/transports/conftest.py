"""Every live transport behind one fixture, sync and async, against the fault server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from foldline._io.drive import drive
from foldline.testing.replay import RecordingTransport, ReplayTransport
from foldline.transports import (
    HttpOptions,
    NativeTransport,
    Request,
    Timeouts,
    Transport,
)
from foldline.transports.httpx import HttpxTransport
from tests.servers.fixtures import fault_server, fault_server_process  # noqa: F401

T = TypeVar("T")

LIVE: dict[str, Callable[[HttpOptions | None], Transport]] = {
    "native": NativeTransport,
    "httpx": HttpxTransport,
}
QUICK = Timeouts(connect=2, first_byte=5, idle=5)


class Recorded:
    """Asks the server through a recorder, then answers from the recording: replay under the same contract."""

    def __init__(self, folder: Path) -> None:
        self._inner = NativeTransport()
        self._folder = folder
        self._count = 0

    def open(self, request: Request, *, blocking: bool) -> Any:
        self._count += 1
        path = self._folder / f"{self._count}.jsonl"
        return Replaying(RecordingTransport(self._inner, path), request, blocking=blocking)

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()


class Replaying:
    def __init__(self, recorder: RecordingTransport, request: Request, *, blocking: bool) -> None:
        self.recorder = recorder
        self.request = request
        self.blocking = blocking

    async def __aenter__(self) -> Any:
        try:
            async with (
                self.recorder.open(self.request, blocking=self.blocking) as response,
                aclosing(response.chunks()) as chunks,
            ):
                async for _ in chunks:
                    pass
        except Exception:
            if not self.recorder.path.exists():
                raise  # refused before anything was sent
        self.inner = ReplayTransport(self.recorder.path).open(self.request, blocking=self.blocking)
        return await self.inner.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self.inner.__aexit__(*error)


class Caller:
    """Runs a body, sync or async, and remembers the transport of the test."""

    def __init__(self, transport: Transport, *, blocking: bool) -> None:
        self.transport = transport
        self.blocking = blocking

    def run(self, body: Coroutine[Any, Any, T]) -> T:
        return drive(body) if self.blocking else asyncio.run(body)

    def open(self, request: Request) -> Any:
        return self.transport.open(request, blocking=self.blocking)

    def read(self, url: str, **fields: Any) -> tuple[int, bytes]:
        """One call, read to its end."""

        async def body() -> tuple[int, bytes]:
            async with self.open(Request(**{"url": url, "timeouts": QUICK, **fields})) as response:
                return response.status, await response.read()

        return self.run(body())

    def stream(self, url: str, **fields: Any) -> tuple[list[bytes], Exception | None]:
        """One call: the pieces that came, and what ended them."""
        pieces: list[bytes] = []

        async def body() -> None:
            async with (
                self.open(Request(**{"url": url, "timeouts": QUICK, **fields})) as response,
                aclosing(response.chunks()) as chunks,
            ):
                async for piece in chunks:
                    pieces.append(piece)  # noqa: PERF401  kept also when the next one fails

        try:
            self.run(body())
        except Exception as error:  # noqa: BLE001  the test looks at it
            return pieces, error
        return pieces, None


@pytest.fixture(params=[True, False], ids=["blocking", "async"])
def blocking(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[*LIVE, "replay"])
def caller(request: pytest.FixtureRequest, blocking: bool, tmp_path: Path) -> Iterator[Caller]:
    """Every transport, replay included."""
    transport = Recorded(tmp_path) if request.param == "replay" else LIVE[request.param](None)
    yield Caller(transport, blocking=blocking)
    transport.close()


@pytest.fixture(params=[*LIVE])
def live(request: pytest.FixtureRequest) -> Iterator[Callable[..., Transport]]:
    """A maker of live transports, closed after the test."""
    transports: list[Transport] = []

    def make(options: HttpOptions | None = None) -> Transport:
        transports.append(LIVE[request.param](options))
        return transports[-1]

    make.kind = request.param  # type: ignore[attr-defined]
    yield make
    for transport in transports:
        transport.close()


@pytest.fixture
def live_caller(live: Callable[..., Transport], blocking: bool) -> Caller:
    """Every live transport."""
    return Caller(live(), blocking=blocking)
