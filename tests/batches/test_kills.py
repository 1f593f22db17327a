"""Processes that are killed, disks that are full, files that are damaged: one answer per item, none lost."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from foldline.exceptions import StoreError, UsageError
from foldline.runnables import RunnableLambda
from tests.batches.jobs import chain
from tests.batches.kill_loop import kill_loop
from tests.servers.children import Children, children

__all__ = ["children"]


@pytest.mark.slow
def test_killed_at_random_every_item_has_one_answer(tmp_path):
    count = kill_loop(tmp_path, 20_000, 4, seed=7)
    assert count.kills == 4
    assert count.second_calls <= count.repeated_calls


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_items(tmp_path):
    program = """
import resource, sys
from foldline.runnables import RunnableLambda
job = RunnableLambda(str.upper).batch_job((f"x{n}" for n in range(int(sys.argv[2]))), store=sys.argv[1])
assert sum(1 for _ in job.results()) == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    memory_sizes = [
        int(subprocess.run([sys.executable, "-c", program, str(tmp_path / f"{n}.db"), str(n)],
                           capture_output=True, text=True, check=True, timeout=100).stdout)
        for n in (2_000, 20_000)
    ]  # fmt: skip
    assert memory_sizes[1] - memory_sizes[0] < 30_000, json.dumps(memory_sizes)
    assert (tmp_path / "20000.db").exists()


INTERRUPTED = """
import sys, time
from foldline.runnables import RunnableLambda

def answer(text):
    time.sleep(0.02)
    return text.upper()

rows = (f"x{number}" for number in range(400))
job = RunnableLambda(answer).batch_job(rows, store=sys.argv[1], max_concurrency=4)
print("ready", flush=True)
if sys.argv[2] == "sync":
    job.run()
else:
    import asyncio
    asyncio.run(job.arun())
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_interrupted_keeps_its_answers_and_the_next_one_goes_on(
    store, mode, number, children: Children
):
    worker = children.start(
        [sys.executable, "-c", INTERRUPTED, str(store), mode],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdout.readline() == "ready\n"
    time.sleep(0.6)
    worker.send_signal(number)
    _, errors = worker.communicate(timeout=30)
    assert worker.returncode != 0
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    answer = RunnableLambda(str.upper, name="answer")
    job = answer.batch_job(None, store=store)
    before = job.report()
    assert 0 < before.done < 400
    inputs = (f"x{number}" for number in range(400))
    report = answer.batch_job(inputs, store=store).run()
    assert (report.done, report.failed) == (400, 0)
    assert report.repeated_calls <= 4 + 4


def test_a_full_disk_is_a_store_error_and_what_was_acknowledged_stays(call, store, monkeypatch):
    inputs = []
    job = RunnableLambda(lambda text: inputs.append(text) or text.upper(), name="answer").batch_job(
        (f"x{number}" for number in range(3000)), store=store
    )
    database = job._store._database
    write = database.write
    writes = []

    def write_until_full(work):
        writes.append(work)
        if len(writes) == 6:
            raise StoreError(
                f"{store}: database or disk is full (the disk is full: free some space)"
            )
        return write(work)

    database.write = write_until_full
    with pytest.raises(StoreError, match="the disk is full"):
        call.run(job, "run")
    database.write = write
    before = job.report()
    second_job = RunnableLambda(str.upper, name="answer").batch_job(
        (f"x{number}" for number in range(3000)), store=store
    )
    assert call.run(second_job, "run").done == 3000
    assert second_job.report().failed == 0
    assert before.done <= 3000
    assert {result.output for result in second_job.answers()} == {f"X{n}" for n in range(3000)}


def test_sqlites_own_full_disk_is_read_as_one(store):
    job = chain().batch_job((f"x{n}" * 200 for n in range(2000)), store=store)
    pages = job._store._database._database.rows("PRAGMA page_count")[0][0]
    limit = f"PRAGMA max_page_count = {pages + 40}"
    database = job._store._database._database
    pool, open_connection = database._pool, database._pool._open

    def open_small():
        connection = open_connection()
        connection.execute(limit)
        return connection

    database.close()
    pool._open = open_small
    with pytest.raises(StoreError, match="the disk is full: free some space"):
        job.run()
    pool._open = open_connection  # other objects of the same file share it
    job.close()
    report = chain().batch_job((f"x{n}" * 200 for n in range(2000)), store=store).run()
    assert (report.done, report.failed) == (2000, 0)


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6])
def test_a_damaged_store_is_a_store_error_that_says_so(store, place):
    job = chain().batch_job((f"x{n}" for n in range(3000)), store=store)
    job.run()
    job.close()
    size = store.stat().st_size
    with store.open("r+b") as file:
        file.seek(int(size * place))
        file.write(b"\xff" * 40_000)

    def read_all():
        second_job = chain().batch_job((f"x{n}" for n in range(3000)), store=store)
        second_job.run()
        return list(second_job.answers())

    with pytest.raises(StoreError, match=r"damaged|malformed|no database|not a database"):
        read_all()


def test_a_store_of_which_nothing_is_left_is_no_job_at_all(store):
    job = chain().batch_job(["a"], store=store)
    job.run()
    job.close()
    connection = sqlite3.connect(store)
    connection.execute("DELETE FROM foldline_jobs")
    connection.commit()
    connection.close()
    with pytest.raises(UsageError, match="has no inputs for the job 'job' yet"):
        chain().batch_job(None, store=store)


RACER = """
import sys
from foldline.exceptions import StoreError, UsageError
from foldline.runnables import RunnableLambda

def answer(text):
    with open(sys.argv[2], "a") as log:
        log.write(text + "\\n")
    return text.upper()

while True:
    try:
        job = RunnableLambda(answer).batch_job((f"x{n}" for n in range(2000)), store=sys.argv[1])
        report = job.run()
        break
    except StoreError as error:
        if "another process works" not in str(error):
            raise
print(report.done)
"""


@pytest.mark.slow
def test_processes_that_race_for_one_job_ask_each_item_once(store, tmp_path, children: Children):
    command = [sys.executable, "-c", RACER, str(store), str(tmp_path / "calls.txt")]
    racers = [
        children.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for racer in racers:
        out, errors = racer.communicate(timeout=100)
        assert out == "2000\n", errors
    calls = (tmp_path / "calls.txt").read_text().split()
    assert sorted(calls) == sorted(f"x{n}" for n in range(2000))
