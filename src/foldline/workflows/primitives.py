"""Functions that return the same value in every replay of a flow: the time, random numbers, ids, and waiting.

A value is written with the next record, and before any later step runs: no step sees a value that could be lost.
"""

from __future__ import annotations

import random as _random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID, uuid4

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.exceptions import UsageError
from foldline.workflows._flow_scope import current_scope
from foldline.workflows._step_trace import note_value
from foldline.workflows.interrupts import current_interrupt_scope
from foldline.workflows.values import pack, unpack

__all__ = [
    "asleep",
    "flow_version",
    "idempotency_key",
    "now",
    "random",
    "sleep",
    "uuid",
    "write",
]


T = TypeVar("T")


def _journaled_value(name: str, make: Callable[[], T]) -> T:
    value = _read_or_make(name, make)
    note_value(name, {"value": value})
    return value


def _read_or_make(name: str, make: Callable[[], T]) -> T:
    scope = current_scope.get()
    if scope is None:
        return make()
    place = scope.place(name)
    journal = scope.journal
    if journal is None:
        return make()
    if not journal.is_open:
        drive(journal.load(BLOCKING))
    record = journal.steps.get(place)
    if record is not None:
        journal.check_arguments(place, record, name)
        stored: T = unpack(record.get("value"), place)
        return stored
    value = make()
    journal.note("step", place=place, args=name, value=pack(value, place))
    journal.claim(place)
    return value


def now() -> datetime:
    """Return the time, in UTC: the same in every replay."""
    value: datetime = _journaled_value("now", lambda: datetime.now(UTC))
    return value


def random() -> float:
    """Return a number from 0 to 1: the same in every replay."""
    value: float = _journaled_value("random", _random.random)
    return value


def uuid() -> UUID:
    """Return a new id: the same in every replay."""
    value: UUID = _journaled_value("uuid", uuid4)
    return value


def sleep(seconds: float) -> None:
    """Wait until some time after the flow first reached this call: a resumed flow waits only for the remainder."""
    drive(_sleep(seconds, BLOCKING))


async def asleep(seconds: float) -> None:
    """Wait until some time after the flow first reached this call, in an async flow."""
    await _sleep(seconds, ASYNC)


async def _sleep(seconds: float, io: IO) -> None:
    until = _journaled_value("sleep", lambda: time.time() + seconds)
    scope = current_scope.get()
    if scope is not None and scope.journal is not None:
        await scope.journal.flush(io)
    remaining = until - time.time()
    if remaining > 0:
        await io.sleep(min(remaining, seconds))


def idempotency_key() -> str:
    """Return a key of the current step, node or tool call, for calls to other services.

    It is the same in every attempt and after a crash, and another one in another run, on another thread or branch.
    """
    scope, interrupts = current_scope.get(), current_interrupt_scope.get()
    if scope is not None and scope.key:
        return scope.key
    if scope is None and interrupts is not None and interrupts.key:  # no checkpointer
        return interrupts.key
    raise UsageError(
        "idempotency_key() works inside a step of a flow, a node of a graph, or a tool or hook of an agent"
    )


def flow_version() -> str | None:
    """Return the version of the flow that began this run; a newer flow that accepts it can branch on it."""
    scope = current_scope.get()
    return None if scope is None else scope.flow.version


def write(chunk: object) -> None:
    """Send a value to the stream of this flow (`stream_mode="custom"`); a replay sends it again."""
    scope = current_scope.get()
    if scope is None:
        raise UsageError("write() works inside a flow or a step")
    scope.flow.publish("custom", None, {"payload": chunk})
