"""The queue of the tracers into databases: a working store loses nothing, one that fails costs runs and never the call.

The load tests run 200,000 runs with `FOLDLINE_TRACE_RUNS=200000 pytest tests/tracers/test_writer.py -k load`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.exceptions import StoreError, UsageError
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.tracers._open import open_tracer
from foldline.utils._data_places import TracePlace
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

RUNS = int(os.environ.get("FOLDLINE_TRACE_RUNS", "8000"))
"""How many runs the load tests make."""
STEP = RunnableLambda(lambda x: x + 1, name="step")
CHAIN = STEP | RunnableLambda(lambda x: x * 2, name="twice")
PROGRAM = """
import sys
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer

chain = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: x * 2)
with SQLiteTracer(sys.argv[1]) as tracer:
    for number in range(int(sys.argv[2])):
        chain.invoke(number, {"callbacks": [tracer]})
print(tracer.dropped)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> TracePlace:
    if request.param == "sqlite":
        return tmp_path / "traces.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


def count_runs(path: Path) -> int:
    connection = sqlite3.connect(path)
    [(count,)] = connection.execute("SELECT count(*) FROM foldline_runs WHERE end_time IS NOT NULL")
    connection.close()
    return int(count)


def in_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Pace:
    """Makes a tracer's store slow, or stops it."""

    def __init__(self, tracer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        database = tracer._writer._database
        write = database.write

        def slowly(work: Any) -> Any:
            self.gate.wait(30)
            time.sleep(self.seconds)
            if self.error is not None:
                raise self.error
            return write(work)

        monkeypatch.setattr(database, "write", slowly)


# -- a working store


def test_F_V09_load_of_four_threads_is_stored_without_loss(place: TracePlace):
    each = -(-RUNS // 12)  # calls of a thread; each call is three runs

    def work() -> None:
        for number in range(each):
            CHAIN.invoke(number, {"callbacks": [tracer]})

    with open_tracer(place, limit=min(10_000, RUNS // 8)) as tracer:
        in_threads(4, work)

    assert tracer.dropped == 0
    store = TraceStore(place)
    assert store.count() == each * 4
    ended = "SELECT count(*) FROM foldline_runs WHERE end_time IS NOT NULL"
    assert store._all(ended) == [(each * 12,)]


def test_F_V09_load_of_four_processes_into_one_file_is_stored_without_loss(path: Path):
    each = -(-RUNS // 12)
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), str(each)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    outputs = [program.communicate(timeout=600)[0] for program in programs]

    assert [output.strip() for output in outputs] == ["0"] * 4
    assert count_runs(path) == each * 12


def test_F_V09_load_of_many_tasks_at_once_is_stored_without_loss(path: Path):
    """More tasks than the queue may hold: each waits for room."""
    tasks = RUNS // 4

    async def main() -> None:
        config: Any = {"callbacks": [tracer]}
        await asyncio.gather(*(STEP.ainvoke(number, config) for number in range(tasks)))

    with SQLiteTracer(path, limit=tasks // 20) as tracer:
        asyncio.run(main())

    assert tracer.dropped == 0
    assert count_runs(path) == tasks


def test_F_V09_a_run_waits_for_a_slow_store_and_is_stored(
    call: Any, place: TracePlace, monkeypatch: pytest.MonkeyPatch
):
    with open_tracer(place, limit=4) as tracer:
        Pace(tracer, monkeypatch).seconds = 0.1
        for number in range(20):
            assert call.invoke(CHAIN, number, {"callbacks": [tracer]}) == (number + 1) * 2

    assert tracer.dropped == 0
    store = TraceStore(place)
    assert store.count() == 20
    assert not any(trace.incomplete for trace in store.find())
    assert store.losses() == []


def test_F_V09_a_slow_store_stops_no_other_task(path: Path, monkeypatch: pytest.MonkeyPatch):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def main() -> None:
        ticking = asyncio.ensure_future(tick())
        for number in range(6):
            await STEP.ainvoke(number, {"callbacks": [tracer]})
        ticking.cancel()

    with SQLiteTracer(path, limit=1) as tracer:
        pace = Pace(tracer, monkeypatch)
        pace.seconds = 0.2
        asyncio.run(main())
        pace.seconds = 0

    assert ticks > 20
    assert tracer.dropped == 0


def test_a_small_queue_is_written_as_soon_as_it_is_full(call: Any, path: Path):
    before = time.monotonic()
    with SQLiteTracer(path, limit=1) as tracer:
        for number in range(100):
            call.invoke(STEP, number, {"callbacks": [tracer]})

    assert time.monotonic() - before < 3.5
    assert (tracer.dropped, TraceStore(path).count()) == (0, 100)


def test_a_run_that_is_cancelled_while_the_queue_is_full_is_lost_for_that_reason(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def main() -> None:
        calls = [
            asyncio.ensure_future(STEP.ainvoke(number, {"callbacks": [tracer]}))
            for number in range(100)
        ]
        await asyncio.sleep(0.1)
        for one in calls:
            one.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    with SQLiteTracer(path, limit=1) as tracer:
        pace = Pace(tracer, monkeypatch)
        pace.gate.clear()
        asyncio.run(main())
        pace.gate.set()

    assert tracer.dropped > 0
    assert "its call was cancelled while the queue was full" in caplog.text


# -- a store that does not write


def test_F_V09_a_trace_waits_at_most_trace_wait_then_the_store_counts_as_gone(
    call: Any, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "foldline.tracers")
    with SQLiteTracer(path, limit=2, trace_wait=0.3) as tracer:
        pace = Pace(tracer, monkeypatch)
        pace.gate.clear()
        before = time.monotonic()
        for number in range(10):
            assert call.invoke(CHAIN, number, {"callbacks": [tracer]}) == (number + 1) * 2
        took = time.monotonic() - before
        pace.gate.set()
        tracer.flush()
        assert call.invoke(CHAIN, 1, {"callbacks": [tracer]}) == 4

    assert 0.3 <= took < 2  # all ten together: after the first nobody waits
    assert 0 < tracer.dropped < 30
    lost = [record for record in caplog.records if "were not written" in record.message]
    assert len(lost) == 1
    store = TraceStore(path)
    assert sum(loss["runs"] for loss in store.losses()) == tracer.dropped
    assert store.find()[0].incomplete is False


def test_F_V09_overflow_drop_never_waits_and_says_what_it_drops(
    call: Any, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "foldline.tracers")
    with SQLiteTracer(path, limit=2, overflow="drop") as tracer:
        pace = Pace(tracer, monkeypatch)
        pace.gate.clear()
        before = time.monotonic()
        for number in range(50):
            call.invoke(CHAIN, number, {"callbacks": [tracer]})
        took = time.monotonic() - before
        pace.gate.set()

    assert took < 1
    assert tracer.dropped > 100
    assert sum('overflow="drop"' in record.message for record in caplog.records) == 1
    store = TraceStore(path)
    assert sum(loss["runs"] for loss in store.losses()) == tracer.dropped
    assert store.count() * 3 + tracer.dropped >= 150


def test_F_V09_a_trace_that_lacks_a_run_is_marked_incomplete(
    call: Any, place: TracePlace, monkeypatch: pytest.MonkeyPatch
):
    with open_tracer(place, limit=1, overflow="drop") as tracer:
        pace = Pace(tracer, monkeypatch)
        pace.gate.clear()
        call.invoke(CHAIN, 1, {"callbacks": [tracer]})
        pace.gate.set()
        tracer.flush()
        call.invoke(STEP, 1, {"callbacks": [tracer]})

    store = TraceStore(place)
    complete, cut = store.find()
    assert (complete.name, complete.incomplete) == ("step", False)
    assert (cut.name, cut.incomplete) == ("RunnableSequence", True)
    root = store.trace(cut.id)
    assert root is not None
    assert root.incomplete
    assert len(root.child_runs) < 2


def test_F_V09_a_full_disk_costs_runs_and_no_time(
    call: Any, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Each outage is logged once, and counted where the traces are when it is over."""
    caplog.set_level(logging.WARNING, "foldline.tracers")
    with SQLiteTracer(path, limit=5) as tracer:
        pace = Pace(tracer, monkeypatch)
        for _ in range(2):
            pace.error = StoreError("database or disk is full")
            before = time.monotonic()
            for number in range(10):
                assert call.invoke(CHAIN, number, {"callbacks": [tracer]}) == (number + 1) * 2
            assert time.monotonic() - before < 2
            tracer.flush()
            pace.error = None
            call.invoke(STEP, 1, {"callbacks": [tracer]})
            wait_for_idle(tracer)

    assert tracer.dropped == 60
    messages = [record.message for record in caplog.records if str(path) in record.message]
    assert sum("disk is full" in message for message in messages) == 2
    assert sum("written again" in message for message in messages) == 2
    assert sum(loss["runs"] for loss in TraceStore(path).losses()) == 60
    assert count_runs(path) == 2


def wait_for_idle(tracer: Any) -> None:
    deadline = time.monotonic() + 10
    while tracer._writer._is_writing and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_caller_that_does_not_wait_loses_nothing_silently(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    from uuid import uuid4

    with SQLiteTracer(path, limit=2) as tracer:
        pace = Pace(tracer, monkeypatch)
        pace.gate.clear()
        ids = [uuid4() for _ in range(100)]
        for run_id in ids:
            tracer.on_chain_start(None, {}, run_id=run_id, name="foreign")
        for run_id in ids:
            tracer.on_chain_end({}, run_id=run_id)
        pace.gate.set()

    assert tracer.dropped > 0
    assert tracer.dropped + count_runs(path) == 100


def test_a_hook_that_starts_traced_runs_does_not_wait_for_itself(path: Path):
    tracers: list[Any] = []

    def redact(run: dict[str, Any]) -> dict[str, Any]:
        if run.get("name") == "step":
            for _ in range(5):
                RunnableLambda(lambda x: x, name="inner").invoke(1, {"callbacks": tracers})
        return run

    before = time.monotonic()
    with SQLiteTracer(path, limit=1, redact=redact) as tracer:
        tracers.append(tracer)
        STEP.invoke(1, {"callbacks": tracers})

    assert time.monotonic() - before < 4
    assert tracer.dropped == 0


# -- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit must be a whole number of at least 1, not 0"),
        ({"overflow": "block"}, 'overflow is "wait" or "drop", not \'block\''),
        ({"trace_wait": -1}, "trace_wait is a number of seconds, not -1"),
        ({"trace_wait": "5"}, "trace_wait is a number of seconds, not '5'"),
        ({"secrets": "s3cret-value"}, "secrets is a list of texts"),
        ({"config_keys": "tenant"}, "config_keys is a list of texts, not 'tenant'"),
        ({"config_keys": 3}, "config_keys is a list of texts, not 3"),
        ({"revision": 3}, "revision is a text, not 3"),
        ({"redact": "all"}, "redact is a function of a run's columns, not 'all'"),
        ({"overflw": "drop"}, "a tracer has no option 'overflw'"),
    ],
)
def test_a_wrong_option_of_a_tracer_is_refused(path: Path, options: Any, message: str):
    with pytest.raises(UsageError, match=message):
        SQLiteTracer(path, **options)
