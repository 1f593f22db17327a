"""Traces in SQLite: complete, without secrets, safe under threads and processes, and never at the run's expense."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from foldline._storage.sqlite_database import SqliteConnection, SqliteDatabase
from foldline.exceptions import StoreError
from foldline.load import _lazy_dump as lazy_dump
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatGeneration, LLMResult
from foldline.prompts import PromptTemplate
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer, TraceStore, _database, _writer

pytestmark = pytest.mark.timing

CHAIN = RunnableLambda(lambda x: x + 1).with_config(run_name="inc") | RunnableLambda(
    lambda x: x * 2
).with_config(run_name="twice")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def fail(x: int) -> int:
    raise ValueError("no")


@pytest.mark.slow
def test_a_trace_comes_back_as_a_tree(call: Any, path: Path, no_leaks: Any):
    with SQLiteTracer(path) as tracer:
        call.invoke(CHAIN, 1, {"callbacks": [tracer], "tags": ["t"], "metadata": {"m": 1}})
    store = TraceStore(path)
    [root] = call.run(store, "recent")
    tree = call.run(store, "trace", root.id)

    assert (tree.name, tree.inputs, tree.outputs, tree.metadata) == (
        "RunnableSequence",
        {"input": 1},
        {"output": 4},
        {"m": 1},
    )
    assert [(run.name, run.inputs, run.outputs, run.parent_run) for run in tree.child_runs] == [
        ("inc", {"input": 1}, {"output": 2}, tree),
        ("twice", {"input": 2}, {"output": 4}, tree),
    ]
    assert tree.latency >= 0
    assert tracer.dropped == 0
    assert call.run(store, "trace", uuid4()) is None


def test_runs_are_found_by_time_error_and_tag(call: Any, path: Path):
    before = datetime.now(UTC)
    with SQLiteTracer(path) as tracer:
        call.invoke(CHAIN, 1, {"callbacks": [tracer], "tags": ["good"]})
        with pytest.raises(ValueError, match="no"):
            call.invoke(RunnableLambda(fail), 1, {"callbacks": [tracer], "tags": ["bad"]})
    store, after = TraceStore(path), datetime.now(UTC)

    assert [run.name for run in call.run(store, "recent")] == ["fail", "RunnableSequence"]
    assert [run.name for run in call.run(store, "recent", 1)] == ["fail"]
    assert [run.name for run in call.run(store, "errors")] == ["fail"]
    assert {run.name for run in call.run(store, "by_tag", "good")} == {
        "RunnableSequence",
        "inc",
        "twice",
    }
    assert [run.name for run in call.run(store, "by_tag", "seq:step:2")] == ["twice"]
    assert len(call.run(store, "between", before, after)) == 4
    assert call.run(store, "between", after, after + timedelta(days=1)) == []


def test_a_model_run_keeps_tokens_and_the_time_of_its_first(path: Path):
    usage = {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}
    answer = LLMResult(
        generations=[[ChatGeneration(message=AIMessage("hi", usage_metadata=usage))]]
    )
    with SQLiteTracer(path) as tracer:
        run_id = uuid4()
        tracer.on_chat_model_start({"name": "M"}, [[HumanMessage("q")]], run_id=run_id)
        for token in "hi":
            tracer.on_llm_new_token(token, run_id=run_id)
        tracer.on_llm_end(answer, run_id=run_id)
    [run] = TraceStore(path).recent()

    assert run.usage == usage
    assert 0 <= run.time_to_first_token <= run.latency
    assert [event["name"] for event in run.events] == ["start", "new_token", "end"]
    assert run.inputs["messages"][0][0]["kwargs"]["content"] == "q"
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT total_tokens FROM foldline_runs").fetchone() == (10,)
    connection.close()


def test_a_run_under_way_is_already_there(path: Path):
    runs: list[Any] = []

    def look(x: int) -> int:
        tracer.flush()
        runs.extend(TraceStore(path).recent())
        return x

    with SQLiteTracer(path) as tracer:
        RunnableLambda(look).invoke(1, {"callbacks": [tracer]})

    assert [(run.name, run.end_time, run.outputs) for run in runs] == [("look", None, None)]
    assert TraceStore(path).recent()[0].end_time is not None


def test_what_is_written_needs_no_flush(path: Path):
    tracer = SQLiteTracer(path)
    CHAIN.invoke(1, {"callbacks": [tracer]})
    deadline = time.monotonic() + 5
    while len(TraceStore(path).recent()) < 1 and time.monotonic() < deadline:
        time.sleep(0.02)

    assert len(TraceStore(path).recent()) == 1
    tracer.close()


def test_a_tracer_that_is_dropped_writes_what_it_has(path: Path):
    CHAIN.invoke(1, {"callbacks": [SQLiteTracer(path)]})

    assert len(TraceStore(path).recent()) == 1


def test_async_runs_flush_without_blocking_the_loop(path: Path):
    async def main() -> int:
        with SQLiteTracer(path) as tracer:
            await asyncio.gather(*(CHAIN.ainvoke(x, {"callbacks": [tracer]}) for x in range(20)))
            await tracer.aflush()
            return len(await TraceStore(path).arecent(100))

    assert asyncio.run(main()) == 20


@pytest.mark.slow
def test_many_threads_write_into_one_file(path: Path, no_leaks: Any):
    with SQLiteTracer(path) as tracer:
        CHAIN.batch(list(range(200)), {"callbacks": [tracer], "max_concurrency": 8})

    assert len(TraceStore(path).recent(1000)) == 200
    assert tracer.dropped == 0


PROGRAM = """
import sys
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer

chain = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: "x" * 5000)
print("ready", flush=True)
with SQLiteTracer(sys.argv[1]) as tracer:
    for number in range(int(sys.argv[2])):
        chain.invoke(number, {"callbacks": [tracer]})
        if number % 10 == 0:
            tracer.flush()
"""


def start(path: Path, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), str(count)], stdout=subprocess.PIPE
    )


@pytest.mark.slow
def test_many_processes_write_into_one_file(path: Path):
    processes = [start(path, 40) for _ in range(3)]
    for process in processes:
        process.communicate(timeout=50)

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(TraceStore(path).recent(1000)) == 120


@pytest.mark.slow
def test_F_K01_nothing_is_torn_by_kill_9(path: Path):
    for after in (0.05, 0.15, 0.3):
        process = start(path, 1_000_000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()

    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    for run in TraceStore(path).recent(10_000):
        assert TraceStore(path).trace(run.id) is not None
        assert run.end_time is None or run.outputs == {"output": "x" * 5000}
    with SQLiteTracer(path) as tracer:
        CHAIN.invoke(1, {"callbacks": [tracer]})
    assert TraceStore(path).recent(1)[0].outputs == {"output": 4}


def test_F_K01_a_locked_file_is_waited_for(path: Path):
    with SQLiteTracer(path) as tracer:
        other = sqlite3.connect(path, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        unlock = threading.Timer(0.3, other.rollback)
        unlock.start()
        CHAIN.invoke(1, {"callbacks": [tracer]})
        tracer.flush()
        unlock.join()
        other.close()

    assert tracer.dropped == 0
    assert len(TraceStore(path).recent()) == 1


def test_F_V09_a_file_that_stays_locked_costs_rows_and_not_the_run(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_database, "PATIENCE", 0.01)
    tracer = SQLiteTracer(path)
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")

    with caplog.at_level(logging.WARNING, "foldline.tracers"):
        for _ in range(3):
            start_time = time.perf_counter()
            assert CHAIN.invoke(1, {"callbacks": [tracer]}) == 4
            assert time.perf_counter() - start_time < 1
            tracer.flush()
    other.rollback()
    other.close()
    tracer.close()

    assert tracer.dropped >= 9
    assert len(caplog.records) == 1
    assert "were not written" in caplog.text


def test_F_V09_a_full_disk_costs_rows_and_not_the_run(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    connect = SqliteDatabase._connect

    def connect_to_a_full_disk(database: SqliteDatabase) -> SqliteConnection:
        connection = connect(database)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        # SQLite's own way to run out of room
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    tracer = SQLiteTracer(path)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "foldline.tracers"):
        patch.setattr(SqliteDatabase, "_connect", connect_to_a_full_disk)
        for _ in range(3):
            assert RunnableLambda(lambda x: "x" * 50_000).invoke(1, {"callbacks": [tracer]})
            tracer.flush()
        tracer.close()

    assert tracer.dropped == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "database or disk is full" in caplog.text
    assert TraceStore(path).recent() == []


def test_F_V09_a_writer_that_cannot_keep_up_drops_and_counts(path: Path):
    tracer = SQLiteTracer(path, limit=5)
    with tracer._writer._file_lock:  # the disk is slow
        CHAIN.batch(list(range(10)), {"callbacks": [tracer]})
    tracer.close()

    assert tracer.dropped > 0
    store = TraceStore(path)
    assert all(store.trace(run.id) is not None for run in store.recent(100))


def test_after_close_runs_are_counted_and_not_written(path: Path):
    tracer = SQLiteTracer(path)
    tracer.close()
    tracer.close()
    CHAIN.invoke(1, {"callbacks": [tracer]})

    assert tracer.dropped == 3
    assert TraceStore(path).recent() == []


def test_a_newer_schema_is_refused(path: Path):
    SQLiteTracer(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE foldline_schema SET version = 99 WHERE kind = 'traces'")
    connection.close()

    with pytest.raises(
        StoreError,
        match=r"traces.db was written by a newer foldline \(version 99 .* knows version 4",
    ):
        SQLiteTracer(path)
    with pytest.raises(StoreError, match="version 99"):
        TraceStore(path).recent()


def test_what_is_no_trace_file_is_refused(tmp_path: Path):
    text = tmp_path / "notes.txt"
    text.write_text("hello " * 1000)

    with pytest.raises(StoreError, match=r"notes.txt: file is not a database"):
        SQLiteTracer(text)
    with pytest.raises(
        StoreError, match=r"unable to open database file .*check that the folder exists"
    ):
        SQLiteTracer(tmp_path / "no" / "such" / "folder.db")


CANARY = "canary-secret-4f9a0c7e1b"


def test_F_V08_no_secret_reaches_the_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACME_API_KEY", CANARY)

    def leak(x: Any) -> Any:
        raise ValueError(f"401 from https://host.example/?key={CANARY}, header Bearer {CANARY}")

    with SQLiteTracer(path) as tracer:
        config = {
            "callbacks": [tracer],
            "tags": [f"tag {CANARY}"],
            "metadata": {"api_key": CANARY, "note": CANARY},
        }
        with pytest.raises(ValueError, match="401"):
            RunnableLambda(leak).with_config(run_name=f"call {CANARY}").invoke(
                {"args": CANARY}, config
            )
        run_id = uuid4()
        tracer.on_llm_start(
            {"kwargs": {"key": CANARY}}, [CANARY], run_id=run_id, options={"headers": {"x": CANARY}}
        )
        tracer.on_retry({"error": ValueError(CANARY)}, run_id=run_id)
        tracer.on_llm_new_token(CANARY, run_id=run_id)
        tracer.on_llm_error(ValueError(CANARY), run_id=run_id)

    assert len(TraceStore(path).recent()) == 2
    for file in path.parent.iterdir():
        assert CANARY.encode() not in file.read_bytes()


class Stranger:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_values_that_are_no_json_do_not_cost_the_row(path: Path):
    loop: dict[str, Any] = {}
    values = [
        Stranger(),
        {1: {2, 3}},
        float("nan"),
        b"\xff",
        datetime(2026, 1, 1, tzinfo=UTC),
        "\ud800",
        loop,
    ]
    loop["self"] = "fine"
    with SQLiteTracer(path) as tracer:
        for value in values:
            RunnableLambda(lambda x, value=value: value).invoke(1, {"callbacks": [tracer]})

    assert tracer.dropped == 0
    assert len(TraceStore(path).recent(100)) == len(values)


@pytest.mark.slow
def test_a_forked_child_writes_with_a_connection_of_its_own(path: Path):
    program = PROGRAM.split("print")[0] + (
        "import os\n"
        "tracer = SQLiteTracer(sys.argv[1])\n"
        "chain.invoke(1, {'callbacks': [tracer]})\n"
        "child = os.fork()\n"
        "chain.invoke(2, {'callbacks': [tracer]})\n"
        "tracer.close()\n"
        "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "os._exit(0)\n"
    )
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(path)], timeout=50)

    assert result.returncode == 0
    assert len(TraceStore(path).recent()) == 3


@pytest.mark.slow
@pytest.mark.parametrize("hostile", ["", "[", "[" * 100_000, "5", "\0", '{"lc": 1}', "not a date"])
@pytest.mark.parametrize(
    "column", ["id", "trace_id", "inputs", "outputs", "extra", "tags", "events"]
)
def test_F_K02_a_damaged_run_is_left_out_with_a_report(
    column: str, hostile: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "traces.db"
    with SQLiteTracer(path) as tracer:
        for number in range(3):
            RunnableLambda(lambda x: x).invoke(number, {"callbacks": [tracer]})
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"UPDATE foldline_runs SET {column} = ? WHERE rowid = 2", (hostile,))
    connection.close()

    # A collection at the bottom of a deep text would run the finalizers of other tests without a stack.
    gc.collect()
    gc.disable()
    try:
        outputs = [run.outputs for run in TraceStore(path).recent()]
    finally:
        gc.enable()
    expected = [{"output": 2}, {"output": 0}]
    if hostile == '{"lc": 1}' and column in ("inputs", "outputs", "extra"):
        assert len(outputs) == 3  # a dict like any other
    else:
        assert outputs == expected
        assert "is damaged and was left out" in caplog.text


def test_a_value_that_contains_itself_does_not_cost_the_rows_of_its_batch(path: Path):
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with SQLiteTracer(path) as tracer:
        for value in (1, loop, 2):
            RunnableLambda(lambda x, value=value: value).invoke(1, {"callbacks": [tracer]})

    assert tracer.dropped == 0
    assert len(TraceStore(path).recent(100)) == 3


def test_the_form_of_an_object_is_written_once_for_a_batch_and_anew_for_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    sources: list[Any] = []
    real = lazy_dump.dumpd
    monkeypatch.setattr(lazy_dump, "dumpd", lambda source: sources.append(source) or real(source))
    monkeypatch.setattr(_writer, "GATHERING", 30.0)  # `flush` alone makes batches
    first, second = (PromptTemplate.from_template(text) for text in ("one", "two"))
    with SQLiteTracer(path) as tracer:
        for prompt in (first, second, first, second):
            prompt.invoke({}, {"callbacks": [tracer]})
        tracer.flush()
        assert sources == [first, second]

        first.template = "three"
        first.invoke({}, {"callbacks": [tracer]})
    runs = TraceStore(path).recent(100)

    forms = [run.serialized["kwargs"]["template"] for run in reversed(runs)]
    assert forms == ["one", "two", "one", "two", "three"]


def test_a_run_that_ends_while_it_waits_is_written_once_and_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_writer, "GATHERING", 30.0)
    batches: list[int] = []
    tracer = SQLiteTracer(path)
    real = tracer._writer._write
    monkeypatch.setattr(
        tracer._writer, "_write", lambda entries: batches.append(len(entries)) or real(entries)
    )
    CHAIN.invoke(1, {"callbacks": [tracer]})
    tracer.close()

    assert batches == [6]  # a beginning and an end of each
    assert all(run.end_time for run in TraceStore(path).recent())


def test_what_is_put_while_the_writer_leaves_is_written(path: Path):
    with SQLiteTracer(path) as tracer:
        for number in range(6):  # each burst ends, and the next begins about when the writer leaves
            CHAIN.invoke(number, {"callbacks": [tracer]})
            time.sleep(_writer.GATHERING * (0.9 + number / 25))
        deadline = time.monotonic() + 5
        while len(TraceStore(path).recent(100)) < 6 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(TraceStore(path).recent(100)) == 6
