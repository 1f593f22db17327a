"""A job whose process is killed at random, again and again: every item must have one answer, and none may be lost.

python -m tests.batches.kill_loop --items 100000 --kills 20
"""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WORKER = """
import sys
from foldline.runnables import RunnableLambda
log = open(sys.argv[2], "a", buffering=1)
def answer(text):
    log.write(text + "\\n")
    return text.upper()
rows = (f"x{number}" for number in range(int(sys.argv[3])))
job = RunnableLambda(answer).batch_job(rows, store=sys.argv[1])
log.write("ready\\n")
job.run()
print("complete")
"""


class KillCount(NamedTuple):
    """Counts of what the processes of one job did."""

    kills: int
    repeated_calls: int
    """Calls that were made again, as counted by the store."""
    second_calls: int
    """Calls that were in truth made for an item that had been asked before."""


def kill_loop(folder: Path, items: int, kills: int, seed: int) -> KillCount:
    """Run a job in processes that are killed while they work; raise unless every item has its own answer."""
    chance, store, log = random.Random(seed), folder / "jobs.db", folder / "calls.txt"
    log.touch()
    count = 0
    while True:
        start = log.stat().st_size
        command = [sys.executable, "-c", WORKER, str(store), str(log), str(items)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
        if count < kills:
            # It works from here on: killed after a random number of bytes of its log.
            goal = start + chance.randrange(6, max(7, items * 7 // (kills + 1) * 2))
            while worker.poll() is None and log.stat().st_size < goal:
                try:
                    worker.wait(0.005)
                except subprocess.TimeoutExpired:
                    continue
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
                count += 1
        out, err = worker.communicate(timeout=600)
        if worker.returncode == 0:
            assert out.strip() == b"complete", err
            break
        assert worker.returncode == -signal.SIGKILL, err.decode()
    return _check(store, log, items, count)


def _check(store: Path, log: Path, items: int, kills: int) -> KillCount:
    connection = sqlite3.connect(store)
    states = dict(
        connection.execute("SELECT state, count(*) FROM foldline_job_items GROUP BY state")
    )
    wrong_count = connection.execute(
        "SELECT count(*) FROM foldline_job_items WHERE output != upper(input)"
    ).fetchone()[0]
    query = "SELECT repeated_calls, done FROM foldline_jobs"
    repeated, done_count = connection.execute(query).fetchone()
    connection.close()
    calls = [line for line in log.read_text().split() if line != "ready"]
    assert states == {3: items}, states
    assert (wrong_count, done_count, len(set(calls))) == (0, items, items)
    assert len(calls) - items <= repeated
    return KillCount(kills, repeated, len(calls) - items)


def main() -> None:
    """Run the loop and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        count = kill_loop(Path(folder), options.items, options.kills, options.seed)
    print(
        f"{options.items:,} items, {count.kills} kills: one answer each, none lost; {count.repeated_calls:,} calls "
        f"counted as made again, {count.second_calls:,} were"
    )


if __name__ == "__main__":
    main()
