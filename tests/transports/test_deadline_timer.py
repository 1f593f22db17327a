"""One timer for all waits of a loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from foldline.transports._wait import DeadlineTimer, Expired

pytestmark = pytest.mark.timing


def on_a_loop(body: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(body(), 20))


async def wait_for(timer: DeadlineTimer, seconds: float) -> str:
    waiting = asyncio.get_running_loop().create_future()
    timer.watch(waiting, seconds)
    try:
        await waiting
    except Expired:
        return "expired"
    finally:
        timer.leave(waiting)
    return "answered"


def test_each_wait_ends_at_its_own_time():
    async def main() -> None:
        timer, order = DeadlineTimer(), []

        async def wait_once(seconds: float) -> None:
            assert await wait_for(timer, seconds) == "expired"
            order.append(seconds)

        start = time.monotonic()
        await asyncio.gather(*(wait_once(seconds) for seconds in (0.2, 0.05, 0.1, 0.0)))
        assert order == [0.0, 0.05, 0.1, 0.2]
        assert time.monotonic() - start >= 0.2

    on_a_loop(main)


def test_many_waits_set_one_timer_and_leave_none_behind():
    async def main() -> None:
        loop, set_ = asyncio.get_running_loop(), []
        plain = loop.call_at
        loop.call_at = lambda *args, **kwargs: set_.append(args[0]) or plain(*args, **kwargs)  # type: ignore[method-assign]
        timer = DeadlineTimer()
        for _ in range(500):
            waiting = loop.create_future()
            timer.watch(waiting, 600)
            timer.leave(waiting)
        assert len(set_) == 1
        timer.close()
        assert timer._handle is None

    on_a_loop(main)


@pytest.mark.parametrize("how", ["left", "answered", "cancelled"])
def test_a_wait_that_is_over_is_not_told(how: str):
    async def main() -> None:
        timer, waiting = DeadlineTimer(), asyncio.get_running_loop().create_future()
        timer.watch(waiting, 0.02)
        if how == "left":
            timer.leave(waiting)
        elif how == "answered":
            waiting.set_result(None)
        else:
            waiting.cancel()
        assert await wait_for(timer, 0.05) == "expired"
        assert waiting.done() == (how != "left")
        assert waiting.cancelled() or not waiting.done() or waiting.exception() is None

    on_a_loop(main)


def test_closing_does_not_take_the_time_from_those_who_wait():
    async def main() -> None:
        timer = DeadlineTimer()
        waiting = asyncio.ensure_future(wait_for(timer, 0.05))
        await asyncio.sleep(0)
        timer.close()
        assert await waiting == "expired"

    on_a_loop(main)
