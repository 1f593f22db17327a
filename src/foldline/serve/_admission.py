"""`Admission`: how many runs are under way at once, in this process, of an app and of a key; others wait their turn.

A run takes a ticket before it starts, and gives it back when it has ended. Where there is no room, it waits in line,
first come, first served; one that waits for its own app or key keeps no other from running.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from foldline._io import ASYNC, OutOfTime
from foldline._io.serving import Notice
from foldline.serve.errors import ServeError

__all__ = ["Admission", "Ticket"]

RETRY_SECONDS: Final = 1.0


@dataclass(slots=True, eq=False)
class Ticket:
    """A run's place: under way, or in line."""

    limits: dict[str, int]
    """What it counts for -> how many runs may count for it at once."""
    is_admitted: bool = False
    turn: Notice = field(default_factory=Notice)


class Admission:
    """The runs that are under way, and those that wait."""

    def __init__(self, *, max_runs: int, max_queued: int, queue_seconds: float) -> None:
        self._max_runs = max_runs
        self._max_queued = max_queued
        self._queue_seconds = queue_seconds
        self._counts: Counter[str] = Counter()
        self._line: dict[Ticket, None] = {}

    @property
    def queued(self) -> int:
        """How many runs wait."""
        return len(self._line)

    def enter(
        self, app: str, app_runs: int | None, key: str = "", key_runs: int | None = None
    ) -> Ticket:
        """Return the ticket of a run, admitted or in line; raise `ServeError` where the line is full."""
        limits = {"": self._max_runs}
        if app_runs is not None:
            limits[f"app/{app}"] = app_runs
        if key_runs is not None:
            limits[f"key/{key}"] = key_runs
        ticket = Ticket(limits)
        if self._has_room(ticket):
            self._admit(ticket)
        elif self._queue_seconds > 0 and len(self._line) < self._max_queued:
            self._line[ticket] = None
        else:
            raise self._overloaded(ticket)
        return ticket

    async def wait(self, ticket: Ticket) -> None:
        """Wait for the turn of a ticket; raise `ServeError` where it does not come within `queue_seconds`."""
        if not ticket.is_admitted:
            with suppress(OutOfTime):
                await ASYNC.bounded(self._queue_seconds, ticket.turn.wait())
        if not ticket.is_admitted:
            self._line.pop(ticket, None)
            raise self._overloaded(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Give a ticket back; those whose turn it is now run."""
        self._line.pop(ticket, None)
        if not ticket.is_admitted:
            return
        ticket.is_admitted = False
        self._counts.subtract(ticket.limits.keys())
        self._counts += Counter()  # forgets those without runs
        for other in list(self._line):
            if self._has_room(other):
                del self._line[other]
                self._admit(other)
                other.turn.set()

    def _has_room(self, ticket: Ticket) -> bool:
        return all(self._counts[name] < limit for name, limit in ticket.limits.items())

    def _admit(self, ticket: Ticket) -> None:
        ticket.is_admitted = True
        self._counts.update(ticket.limits.keys())

    def _overloaded(self, ticket: Ticket) -> ServeError:
        full = [name for name, limit in ticket.limits.items() if self._counts[name] >= limit]
        subject = "the server has"
        if "" not in full and full:
            subject = "the app has" if full[0].startswith("app/") else "this key has"
        return ServeError("overloaded", f"{subject} too many runs under way", RETRY_SECONDS)
