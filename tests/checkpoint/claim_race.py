"""Processes that race for one thread and are killed or stopped: `python -m tests.checkpoint.claim_race …`.

Prints what happened, as JSON. `near`: all are on one machine, and a killed owner is known to be gone. `far`: none can
see whether another's process runs, as on several machines; half of the victims stand still and go on later.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from foldline._io.timer import TIMER
from foldline._storage import workers
from foldline.checkpoint import (
    Entry,
    PostgresSaver,
    SqliteSaver,
    ThreadBusyError,
    ThreadConflictError,
)
from foldline.checkpoint._stored import StoredSaver
from foldline.utils._data_places import is_url
from foldline.utils.uuid import uuid7

TIMES = {"near": ("0.2", "600"), "far": ("0.2", "1")}


class Race:
    def __init__(self, place: str, folder: Path, mode: str) -> None:
        self.place, self.folder, self.mode = place, folder, mode
        self.counted: dict[str, int] = {}
        self.parent = os.getpid()
        self.inside, self.over, self.stall = folder / "inside", folder / "over", folder / "stall"

    def open(self) -> StoredSaver:
        return PostgresSaver(self.place) if is_url(self.place) else SqliteSaver(self.place)

    # -- one process

    def start(self) -> int:
        child = os.fork()
        if child:
            return child
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001  of any kind: it is reported
            self.note("errors", repr(error))
        finally:
            os._exit(0)

    def run(self) -> None:
        if self.mode == "far":
            boot = f"machine {os.getpid()}"
            workers._boot = lambda: boot
        saver, chance = self.open(), random.Random(os.getpid())
        while not self.over.exists() and os.getppid() == self.parent:
            try:
                self.own(saver, saver.claim("t", str(uuid7())))
            except ThreadBusyError:
                time.sleep(chance.uniform(0.001, 0.01))
            except ThreadConflictError:
                self.note("conflicts", str(os.getpid()))

    def own(self, saver: StoredSaver, epoch: int) -> None:
        self.enter()
        after = None
        for _ in range(3):
            saver.check_owner("t", epoch)
            self.stand_still(saver)
            entry = Entry(str(uuid7()), after, str(os.getpid()))
            saver.append("t", str(epoch), [entry], after=after, epoch=epoch)
            after = entry.id
        self.leave()
        saver.release("t", epoch)
        self.note("finished", str(epoch))

    def stand_still(self, saver: StoredSaver) -> None:
        """Renew nothing until this process may go on; not by a signal, which could leave SQLite's file locked."""
        if not self.stall.exists() or self.stall.read_text() != str(os.getpid()):
            return
        TIMER.remove(saver._writers._timer_key)
        self.note("stalled", str(os.getpid()))
        while self.stall.exists() and os.getppid() == self.parent:
            time.sleep(0.01)

    def enter(self) -> None:
        """Note who is inside; an earlier one must be dead, or have lost its thread."""
        with suppress(OSError, ValueError):
            other = int(self.inside.read_text())
            if self.mode == "near" and workers._start_of(other):
                self.note("together", f"{other} {os.getpid()}")
        name = self.folder / f"inside of {os.getpid()}"
        name.write_text(str(os.getpid()))
        name.rename(self.inside)

    def leave(self) -> None:
        with suppress(OSError):
            if self.mode == "near" and int(self.inside.read_text()) != os.getpid():
                self.note("together", f"{os.getpid()} was not alone")
            self.inside.unlink()

    def note(self, name: str, text: str) -> None:
        with open(self.folder / name, "a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def notes(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    # -- all of them

    def drive(self, processes: int, victims: int, seed: int) -> dict[str, object]:
        chance = random.Random(seed)
        self.open().close()
        children = [self.start() for _ in range(processes)]
        for number in range(victims):
            time.sleep(chance.uniform(0.005, 0.05))
            victim = self.victim(children, chance)
            if self.mode == "far" and number % 2:
                self.halt(victim)
                continue
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            children[children.index(victim)] = self.start()
            self.wait_for("finished", 2)  # one may have been on its way already
        time.sleep(0.3)
        self.over.write_text("")
        for child in children:
            os.waitpid(child, 0)
        return self.result()

    def victim(self, children: list[int], chance: random.Random) -> int:
        """Choose the owner where one is known; it may be over meanwhile."""
        with suppress(OSError, ValueError):
            owner = int(self.inside.read_text())
            if owner in children:
                return owner
        return chance.choice(children)

    def halt(self, victim: int) -> None:
        self.stall.with_suffix(".new").write_text(str(victim))
        self.stall.with_suffix(".new").rename(self.stall)
        self.wait_for("stalled", 1, of=str(victim))
        self.wait_for("finished", 2)
        self.stall.unlink()
        self.wait_for("conflicts", 1, of=str(victim))

    def wait_for(self, name: str, count: int, *, of: str | None = None) -> None:
        """Wait until there are so many more notes; a note may be older by an instant than this call."""
        key = f"{name} {of}"
        goal = self.counted.get(key, 0) + count if of else len(self.notes(name)) + count
        end = time.monotonic() + 30
        while (found := self.count(name, of)) < goal:
            if time.monotonic() > end:
                self.note("errors", f"{name} {of}: {found} of {goal}")
                return
            time.sleep(0.01)
        self.counted[key] = found

    def count(self, name: str, of: str | None) -> int:
        notes = self.notes(name)
        return len(notes) if of is None else notes.count(of)

    def result(self) -> dict[str, object]:
        saver = self.open()
        query = "SELECT namespace, body FROM foldline_checkpoints ORDER BY place"
        rows = [(int(epoch), pid) for epoch, pid in saver._database.rows(query)]
        writers = Counter(epoch for epoch, _ in set(rows))
        entries = Counter(str(epoch) for epoch, _ in rows)
        finished = self.notes("finished")
        saver.close()
        return {
            "owners": len(writers),
            "finished": len(finished),
            "finished twice": len(finished) - len(set(finished)),
            "finished with a loss": sum(1 for epoch in finished if entries[epoch] != 3),
            "epochs of two writers": sum(1 for count in writers.values() if count > 1),
            "writes after a take-over": sum(1 for one, two in pairwise(rows) if one[0] > two[0]),
            "two inside": len(self.notes("together")),
            "conflicts": len(self.notes("conflicts")),
            "errors": self.notes("errors"),
        }


def main() -> None:
    place, folder, mode, processes, victims, seed = sys.argv[1:]
    os.environ["FOLDLINE_WORKER_BEAT"], os.environ["FOLDLINE_WORKER_DEAD"] = TIMES[mode]
    race = Race(place, Path(folder), mode)
    print(json.dumps(race.drive(int(processes), int(victims), int(seed))))


if __name__ == "__main__":
    main()
