"""`LocalWriters`: which runs of this process own which threads, for savers whose store cannot say so itself."""

from __future__ import annotations

import os
from itertools import count
from typing import Final, NamedTuple

from foldline._io import mutex
from foldline.checkpoint._per_saver import PerSaver
from foldline.exceptions import ThreadBusyError, ThreadConflictError

__all__ = ["LocalWriters", "local_writers"]

_EPOCHS: Final = count(1)


class _Claim(NamedTuple):
    epoch: int
    owner: str | None


class LocalWriters:
    """The owners of the threads of one saver, in this process."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}
        self._lock = mutex()

    def claim(self, thread_id: str, owner: str) -> int:
        """Make a run the owner of a thread; return its epoch."""
        with self._lock:
            claim = self._claims.get(thread_id)
            if claim is not None and claim.owner not in (None, owner):
                raise ThreadBusyError(
                    f"thread {thread_id!r:.200} belongs to run {claim.owner!r:.200} of this process: nothing was "
                    "written. Wait until that run ends, or end it, and try again",
                    thread_id,
                    claim.owner or "",
                )
            epoch = next(_EPOCHS)
            self._claims[thread_id] = _Claim(epoch, owner)
            return epoch

    def check(self, thread_id: str, epoch: int) -> None:
        """Raise `ThreadConflictError` where another run has claimed the thread since, or it was deleted."""
        claim = self._claims.get(thread_id)
        if claim is None or claim.epoch != epoch:
            raise ThreadConflictError(
                f"this run does not own thread {thread_id!r:.200} any more: another run has taken it over, or the "
                "thread was deleted; nothing was written. Read the state of the thread again before you go on"
            )

    def release(self, thread_id: str, epoch: int) -> None:
        """Give a thread back; nothing happens where another run has taken it over."""
        with self._lock:
            claim = self._claims.get(thread_id)
            if claim is not None and claim.epoch == epoch:
                self._claims[thread_id] = _Claim(epoch, None)

    def delete(self, thread_id: str) -> None:
        """Delete what is known of a thread; its owner may not write any more."""
        with self._lock:
            self._claims.pop(thread_id, None)

    def free_all(self) -> None:
        """Give all threads back, in a forked child: their runs go on in its parent."""
        self._lock = mutex()  # another thread may have held the old one during the fork
        for thread_id, claim in list(self._claims.items()):
            self._claims[thread_id] = _Claim(claim.epoch, None)


_LOCAL: Final = PerSaver(LocalWriters)
local_writers = _LOCAL.of
"""Returns the owners of the threads of a saver."""


def _free_all() -> None:
    for writers in _LOCAL.known.values():
        writers.free_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
