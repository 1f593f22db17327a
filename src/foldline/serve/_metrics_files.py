"""`MetricsFolder`: the numbers of all workers of one server, in a private folder of their parent.

Each worker writes a file. Who answers writes its own first and adds up the files, so that no counter is ever smaller on
the next page, whoever makes that. The files of dead workers are joined into one when they are many.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

from foldline.serve._metrics import METRICS, Metrics, Series

__all__ = ["MetricsFolder"]

JOINED: Final = "joined"
MOST_DEAD: Final = 16
"""Files of dead workers that are read one by one."""
MOST_NAMES: Final = 256
STALE: Final = 60.0
"""Seconds after which the lock of a worker that died while it joined files is removed, and a file is of no live one."""


class MetricsFolder:
    """The files of the workers."""

    def __init__(self, folder: str | Path, metrics: Metrics) -> None:
        self._folder = Path(folder)
        self._metrics = metrics
        self._name = f"{os.getpid()}-{uuid4().hex[:8]}"
        self._joined_names: list[str] = []

    def write(self, *, is_live: bool = True) -> None:
        """Write the numbers of this worker; `is_live` is False at its end."""
        head = {"pid": os.getpid() if is_live else None, "time": time.time()}
        data = {**head, **self._metrics.series().as_json()}
        self._put(self._name, data)

    def _put(self, name: str, data: object) -> None:
        part = self._folder / f"{name}.{uuid4().hex[:8]}.part"
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(self._folder / f"{name}.json")

    def total(self) -> Series:
        """Write the numbers of this worker, and return the sum over all."""
        self.write()
        total = Series()
        series, dead = self._read()
        for each, is_live in series.values():
            total.add(each, is_live=is_live)
        if len(dead) > MOST_DEAD:
            self._join(dead, series)
        return total

    def _read(self) -> tuple[dict[str, tuple[Series, bool]], list[str]]:
        """Return the numbers by file, with whether the worker lives; and the files of dead workers.

        The joined file is read last: what was joined and deleted meanwhile is in it, and is not counted twice.
        """
        series: dict[str, tuple[Series, bool]] = {}
        dead: list[str] = []
        for path in sorted(self._folder.glob("*-*.json")):
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            is_dead = data["pid"] is None or not _is_alive(data["pid"])
            # The number of a killed worker may belong to another process by now: that one writes no file.
            is_live = not is_dead and time.time() - data["time"] < STALE
            series[path.stem] = (Series.from_json(data), is_live)
            if is_dead:
                dead.append(path.stem)
        try:
            data = json.loads((self._folder / f"{JOINED}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return series, dead
        for name in data["names"]:
            series.pop(name, None)
        series[JOINED] = (Series.from_json(data), False)
        self._joined_names = data["names"]
        return series, [name for name in dead if name in series]

    def _join(self, dead: list[str], series: dict[str, tuple[Series, bool]]) -> None:
        lock = self._folder / "lock"
        try:
            if time.time() - lock.stat().st_mtime > STALE:
                lock.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return
        try:
            series, dead = self._read()  # as it is under the lock
            total = series[JOINED][0] if JOINED in series else Series()
            for name in dead:
                total.add(series[name][0], is_live=False)
            gauges = [place for place in total.numbers if METRICS[place[0]].kind == "gauge"]
            for place in gauges:
                del total.numbers[place]
            names = [*self._joined_names, *dead][-MOST_NAMES:]
            self._put(JOINED, {"names": names, **total.as_json()})
            for name in dead:
                (self._folder / f"{name}.json").unlink(missing_ok=True)
        finally:
            lock.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # a signal would end it there; the age of its file decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
