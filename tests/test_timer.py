"""`Timer`: one thread that calls functions at intervals."""

from __future__ import annotations

import threading
import time

from foldline._io.timer import Timer
from tests.servers.databases import wait_until


def test_a_function_is_called_again_and_again_until_it_is_removed():
    timer, calls = Timer(), list[float]()
    began = time.monotonic()
    timer.add("a", 0.02, lambda: calls.append(time.monotonic() - began))

    wait_until(lambda: len(calls) >= 3, "three calls")
    assert calls[0] >= 0.02
    timer.remove("a")
    wait_until(lambda: not timer.is_running, "the end of the thread")
    count = len(calls)
    time.sleep(0.1)
    assert len(calls) <= count + 1  # one may have been under way


def test_a_function_that_hangs_does_not_delay_others_and_is_not_called_twice():
    timer, calls, hung, gate = Timer(), list[int](), list[int](), threading.Event()

    def hang() -> None:
        hung.append(1)
        gate.wait(30)

    timer.add("hangs", 0.01, hang)
    timer.add("runs", 0.01, lambda: calls.append(1))

    wait_until(lambda: len(calls) >= 5, "five calls")
    assert hung == [1]
    timer.remove("hangs")
    timer.remove("runs")
    gate.set()
    wait_until(lambda: not timer.is_running, "the end of the thread")


def test_a_short_interval_does_not_wait_for_a_long_one_and_a_key_is_replaced():
    timer, calls = Timer(), list[str]()
    timer.add("long", 60, lambda: calls.append("long"))
    timer.add("short", 60, lambda: calls.append("old"))
    timer.add("short", 0.01, lambda: calls.append("short"))

    wait_until(lambda: len(calls) >= 2, "two calls")

    assert set(calls) == {"short"}
    timer.forget()
