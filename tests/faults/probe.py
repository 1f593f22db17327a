"""`Probe`: file descriptors, sockets, threads and tasks counted before and after, with the garbage collector off.

Whatever a call came to, all of them are back at their baseline within a second (E7), and so are the connections as
the server sees them.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from types import TracebackType
from typing import Self

from tests.conftest import open_files
from tests.servers.client import FaultServer

WITHIN = 1.0
"""Seconds until everything must be gone."""


def sockets() -> int:
    """How many sockets this process holds."""
    return sum(target.startswith("socket:") for target in open_files().values())


class Probe:
    """Counts at the beginning of its block and checks at the end."""

    def __init__(self, server: FaultServer | None = None) -> None:
        self._server = server
        self._was_enabled = True

    def __enter__(self) -> Self:
        if self._server is not None:
            self._server.drop_all()
            self._server.wait_for_open(0)
        self._was_enabled = gc.isenabled()
        gc.disable()
        self.mark()
        return self

    def mark(self) -> None:
        """Count afresh, after a warm-up."""
        self._threads = set(threading.enumerate())
        self._files = open_files()

    def left_behind(self) -> list[str]:
        """Return what is open now and was not at the start; wait for what may still close."""
        until = time.monotonic() + WITHIN
        while (leaks := self._found()) and time.monotonic() < until:
            time.sleep(0.005)
        return leaks

    def tasks_left(self) -> list[str]:
        """The tasks of the running loop besides the one that asks."""
        return [repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]

    def _found(self) -> list[str]:
        threads = [repr(thread) for thread in set(threading.enumerate()) - self._threads]
        files = open_files()
        new_files = [f"{number} -> {files[number]}" for number in files.keys() - self._files.keys()]
        leaks = threads + (new_files if len(files) > len(self._files) else [])
        if self._server is not None and (count := self._server.open_connections()):
            leaks.append(f"{count} connections as the server sees them")
        return leaks

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                assert self.left_behind() == []
        finally:
            if self._was_enabled:
                gc.enable()
