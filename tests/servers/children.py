"""`children`: starts the processes of a test, and ends them with it, also where it fails while they wait or run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

__all__ = ["Children", "children"]


class Children:
    """The processes of one test."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[Any]] = []

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a process; the options are those of `subprocess.Popen`."""
        process = subprocess.Popen(command, **options)
        self._processes.append(process)
        return process

    def end(self) -> None:
        """Kill what still runs, and close all pipes."""
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):  # what it was sent was never read
                        pipe.close()


@pytest.fixture
def children() -> Iterator[Children]:
    started = Children()
    yield started
    started.end()
