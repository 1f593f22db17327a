"""For authors of runnables, models and transports: the run of a call, its ways to wait, and `drive`.

A body is an `async def` that waits only through `run.io`, so that the same one serves sync and async calls.
"""

from __future__ import annotations

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive
from foldline._run import Run

__all__ = [
    "ASYNC",
    "BLOCKING",
    "Run",
    "drive",
]
