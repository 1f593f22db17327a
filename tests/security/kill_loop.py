"""F-K01: `kill -9` at random moments: `python -m tests.security.kill_loop --kills 1000` prints what was lost.

A writer appends records to a SQLite store of ours and acknowledges each over a pipe once the call has returned. It is
killed at a random moment, again and again on the same file, and what the file then holds is held against what was
acknowledged: nothing lost, nothing torn, order kept, at most the one append under way beyond. The writer is a fork of
this process, which has no threads, so that a kill costs milliseconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from foldline.agents.checkpoint import SqliteSaver
from foldline.caches import SQLiteCache
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.checkpoint.base import Entry
from foldline.messages import HumanMessage
from foldline.outputs import Generation
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer, TraceStore
from tests.security.page import save

BATCH = 3
"""Records of one append: all of them are there, or none."""
LEAST_RECORDS = 10
"""Records a writer has acknowledged before it is killed; one kill in `EARLY` comes before, and is counted apart."""
EARLY = 8
MORE_APPENDS = 6
"""Appends after those, at most, so that kills come at different sizes."""
LAST_MOMENT = 0.012
"""Seconds it lives on after that, at most: two or three appends."""
FRESH = 25
"""Kills on one file before a new one is begun, so that making a file is killed too."""


def payload(number: int) -> str:
    """A text that holds its number and a mark of its end; some are longer than a page of SQLite's."""
    body = hashlib.sha256(str(number).encode()).hexdigest() * (1 + number * 7 % 200)
    return f"{number}:{len(body)}:{body}"


def number_of(text: str) -> int:
    number, length, body = text.split(":")
    if len(body) != int(length) or text != payload(int(number)):
        raise ValueError(f"record {number} is torn")
    return int(number)


class History:
    """Messages of one session, three at a time."""

    def __init__(self, path: Path) -> None:
        self._history = SQLiteChatMessageHistory("session", path=path)

    def append(self, numbers: list[int]) -> None:
        self._history.add_messages([HumanMessage(payload(one)) for one in numbers])

    def read(self) -> list[int]:
        result = self._history.read()
        if result.reports:
            raise ValueError(result.reports[0])
        return [number_of(message.text) for message in result]

    def close(self) -> None:
        self._history.close()


class Checkpoints:
    """Entries of one thread, three at a time, each naming the one before."""

    def __init__(self, path: Path) -> None:
        self._saver = SqliteSaver(path)

    def append(self, numbers: list[int]) -> None:
        entries = [
            Entry(str(number), str(number - 1) if number else None, payload(number))
            for number in numbers
        ]
        self._saver.append("thread", "", entries, after=entries[0].parent)

    def read(self) -> list[int]:
        entries = self._saver.read("thread", "")
        for before, entry in zip([None, *entries], entries, strict=False):
            if entry.parent != (before.id if before else None):
                raise ValueError(f"entry {entry.id} does not follow its parent")
        return [number_of(entry.body) for entry in entries]

    def close(self) -> None:
        self._saver.close()


class Cache:
    """Answers, one row each; the count is found by asking."""

    def __init__(self, path: Path) -> None:
        self._cache = SQLiteCache(path)

    def append(self, numbers: list[int]) -> None:
        for number in numbers:
            self._cache.update(str(number), "model", [Generation(text=payload(number))])

    def read(self) -> list[int]:
        numbers: list[int] = []
        while (answer := self._cache.lookup(str(len(numbers)), "model")) is not None:
            numbers.append(number_of(answer[0].text))
        return numbers

    def close(self) -> None:
        self._cache.close()


class Traces:
    """Runs with a child each, acknowledged once `flush` has returned."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tracer: SQLiteTracer | None = None

    def append(self, numbers: list[int]) -> None:
        self._tracer = self._tracer or SQLiteTracer(self._path)
        inner = RunnableLambda(lambda text: text).with_config(run_name="inner")
        for number in numbers:
            outer = RunnableLambda(lambda text: inner.invoke(text)).with_config(run_name="outer")
            outer.invoke(payload(number), {"callbacks": [self._tracer], "tags": ["kept"]})
        self._tracer.flush()

    def read(self) -> list[int]:
        roots = TraceStore(self._path).recent(1_000_000)[::-1]
        complete_runs = [root for root in roots if root.end_time is not None]
        return sorted(number_of(str(output_text(root.outputs))) for root in complete_runs)

    def close(self) -> None:
        if self._tracer is not None:
            self._tracer.close()


def output_text(outputs: Any) -> Any:
    return outputs.get("output") if isinstance(outputs, dict) else outputs


STORES: dict[str, Callable[[Path], Any]] = {
    "history": History,
    "cache": Cache,
    "traces": Traces,
    "checkpoints": Checkpoints,
}
WHOLE = {"history", "checkpoints"}
"""Where an append of three is one transaction."""


@dataclass
class Tally:
    """Counts of the kills on one kind of store."""

    kills: int = 0
    """Writers killed after `LEAST_RECORDS` acknowledged records or more."""
    acknowledged: int = 0
    """Records that those writers acknowledged."""
    least: int = 0
    """The fewest of one such writer."""
    before_the_first: int = 0
    """Further kills, before a writer had acknowledged so many: while it opened the file, or at its first appends."""
    faults: list[str] = field(default_factory=list)


class Loop:
    """Kills writers of one store."""

    def __init__(self, kind: str, folder: Path, seed: int) -> None:
        self._kind = kind
        self._folder = folder
        self._random = random.Random(seed)
        self.tally = Tally()

    def run(self, kills: int) -> Tally:
        tally, count = self.tally, 0
        while tally.kills < kills:
            path = self._folder / f"{self._kind}-{count // FRESH}.db"
            start = len(self._held(path)) if path.exists() else 0
            acknowledged_count = self._killed_writer(path, start, is_early=count % EARLY == 0)
            count += 1
            if (records := acknowledged_count - start) < LEAST_RECORDS:
                tally.before_the_first += 1
            else:
                tally.kills += 1
                tally.acknowledged += records
                tally.least = min(tally.least or records, records)
            try:
                self._check(path, acknowledged_count)
            except (AssertionError, ValueError, LookupError, sqlite3.Error) as error:
                tally.faults.append(f"{path.name}, kill {count}: {type(error).__name__}: {error}")
        return tally

    def _killed_writer(self, path: Path, start: int, *, is_early: bool) -> int:
        """Let a writer live for a moment; give how many records it acknowledged, those before it included."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            write_on(STORES[self._kind](path), start, writing)
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            minimum = 0 if is_early else -(-LEAST_RECORDS // BATCH)
            output = self._until(
                pipe, minimum + self._random.randrange(1 if is_early else MORE_APPENDS)
            )
            time.sleep(self._random.random() * LAST_MOMENT)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            numbers = (output + pipe.read()).split()
        if not os.WIFSIGNALED(status):
            self.tally.faults.append(f"{path.name}: the writer ended by itself ({status})")
        return int(numbers[-1]) if numbers else start

    @staticmethod
    def _until(pipe: Any, appends: int) -> bytes:
        """Wait until so many appends are acknowledged."""
        output = b""
        while output.count(b" ") < appends:
            output += (more := pipe.read(64))
            if not more:
                break
        return output

    def _held(self, path: Path) -> list[int]:
        store = STORES[self._kind](path)
        try:
            return store.read()
        finally:
            store.close()

    def _check(self, path: Path, acknowledged_count: int) -> None:
        if not path.exists() and not acknowledged_count:
            return
        numbers = self._held(path)
        assert numbers == list(range(len(numbers))), f"the order: {numbers[:20]}"
        assert len(numbers) >= acknowledged_count, (
            f"{acknowledged_count} acknowledged, {len(numbers)} there"
        )
        assert len(numbers) <= acknowledged_count + BATCH, (
            f"{len(numbers)} there, {acknowledged_count} acknowledged"
        )
        if self._kind in WHOLE:
            assert len(numbers) % BATCH == 0, f"half an append: {len(numbers)}"
        connection = sqlite3.connect(path)
        try:
            ((state,),) = connection.execute("PRAGMA integrity_check").fetchall()
        finally:
            connection.close()
        assert state == "ok", state


def write_on(store: Any, number: int, pipe: int) -> None:
    """Append until killed, and say after each append how far it got. Never returns."""
    try:
        while True:
            store.append(list(range(number, number + BATCH)))
            number += BATCH
            os.write(pipe, b"%d " % number)
    except BaseException as error:  # noqa: BLE001  nothing of the parent's may run in the child
        os.write(2, f"the writer failed: {error!r}\n".encode())
    os._exit(1)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security.kill_loop", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="for all stores together")
    parser.add_argument("--stores", nargs="*", default=list(STORES), choices=list(STORES))
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--save", action="store_true", help="renew docs/reliability.json and its page"
    )
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else time.time_ns() % 2**32
    print(f"seed {seed}")
    tallies: dict[str, Tally] = {}
    for number, kind in enumerate(options.stores):
        share = len(range(number, options.kills, len(options.stores)))
        with tempfile.TemporaryDirectory() as folder:
            tallies[kind] = Loop(kind, Path(folder), seed + number).run(share)
    print(f"{'store':<14}{'kills':>8}{'acknowledged':>14}{'least':>7}{'earlier':>9}{'faults':>8}")
    for kind, tally in tallies.items():
        print(
            f"{kind:<14}{tally.kills:>8}{tally.acknowledged:>14,}{tally.least:>7}{tally.before_the_first:>9}{len(tally.faults):>8}"
        )
    for fault in [f"{kind}: {fault}" for kind, tally in tallies.items() for fault in tally.faults]:
        print(fault)
    figures = {
        kind: {**asdict(tally), "faults": len(tally.faults)} for kind, tally in tallies.items()
    }
    if options.json:
        options.json.write_text(json.dumps({"seed": seed, "stores": figures}, indent=1) + "\n")
    if options.save:
        command = f"python -m tests.security.kill_loop --kills {options.kills}"
        save("kills", command, {"seed": seed, "stores": figures})
    return int(any(tally.faults for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
