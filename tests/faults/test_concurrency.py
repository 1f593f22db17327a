"""One model among many callers: F-C03 to F-C06, F-C09 and F-C14, over loopback, with everything freed afterwards."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest

from foldline.exceptions import LimitExceededError
from foldline.transports import NativeTransport, SizeLimits
from tests.faults import concurrency
from tests.faults.cancellation import ASKS, cancel_everywhere
from tests.faults.concurrency import chunk, resident
from tests.faults.probe import Probe
from tests.faults.wires import SSE, WIRES
from tests.servers import Answer, FaultServer

pytestmark = pytest.mark.timing

MEGABYTE = 1 << 20


@pytest.mark.slow
def test_F_C03_cancelled_at_every_await_no_cancel_is_lost_and_nothing_leaks(
    fault_server: FaultServer, probe: Probe
) -> None:
    cancels = cancel_everywhere(fault_server, 1)
    assert cancels.points >= len(ASKS) * len(WIRES)
    assert cancels.faults == []


def test_F_C04_one_model_in_twenty_loops_gives_twenty_answers_for_twenty_requests(
    fault_server: FaultServer, probe: Probe
) -> None:
    assert concurrency.loops(fault_server) == (20, 20)


def test_F_C05_forked_children_get_right_answers(fault_server: FaultServer) -> None:
    assert concurrency.forks(fault_server) == (0, 100)


def test_F_C06_sixty_four_threads_on_one_model_mix_nothing_up(fault_server: FaultServer) -> None:
    assert concurrency.threads(fault_server, times=5) == (0, 320)


@pytest.mark.slow
def test_F_C14_five_hundred_streams_are_held_open_at_once() -> None:
    counts = concurrency.hold(500)
    assert (counts["held_open"], counts["right"], counts["failed"]) == (500, 500, 0)
    assert counts["files_left"] == 0
    assert counts["bytes_per_stream"] < 150_000


def flooding(server: FaultServer, **fields: Any) -> Any:
    """A model whose server sends 400 MB of text."""
    steps = [("repeat", [4000, 0, chunk("x" * 100_000)])]
    server.script("/v1/chat/completions", Answer(steps, headers=SSE, framing="chunked"))
    return WIRES["chat"].model(server.url, transport=NativeTransport(), **fields)


def test_F_C09_a_slow_consumer_holds_the_server_back(
    fault_server: FaultServer, probe: Probe
) -> None:
    model = flooding(fault_server)

    def blocking() -> int:
        stream = model.stream("Hi")
        next(stream)
        before = resident()
        time.sleep(0.3)
        next(stream)
        growth = resident() - before
        stream.close()
        return growth

    async def run_async() -> int:
        async with aclosing(model.astream("Hi")) as stream:
            await anext(stream)
            before = resident()
            await asyncio.sleep(0.3)
            await anext(stream)
            return resident() - before

    assert blocking() < 8 * MEGABYTE
    assert asyncio.run(run_async()) < 8 * MEGABYTE


@pytest.mark.parametrize("flood", ["line", "event", "text"])
def test_F_S09_a_flood_is_stopped_at_its_limit(
    flood: str, fault_server: FaultServer, probe: Probe, call: Any
) -> None:
    """Also text without end in small events: the message as a whole has a limit."""
    pieces = {
        "line": b"x" * 100_000,
        "event": b"data: xxx\n" * 10_000,
        "text": chunk("x" * 100_000),
    }
    first = b"data: " if flood == "line" else b": hello\n"
    steps = [first, ("repeat", [4000, 0, pieces[flood]])]
    fault_server.script("/v1/chat/completions", Answer(steps, headers=SSE, framing="chunked"))
    limits = SizeLimits(sse_line=MEGABYTE, sse_event=2 * MEGABYTE, message=4 * MEGABYTE)
    model = WIRES["chat"].model(fault_server.url, transport=NativeTransport(), limits=limits)
    before = resident()
    with pytest.raises(LimitExceededError):
        call.stream(model, "Hi")
    assert resident() - before < 40 * MEGABYTE
