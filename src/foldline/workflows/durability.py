"""`Durability`: an engine that keeps the steps of agents and flows, in place of our own journal.

A run is one workflow of the engine; a model call, a tool call and a `step` are each one of its steps. What a step gave
is written as JSON, its error included, so a run that is taken up again comes to the same place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from foldline._io import IO
from foldline.exceptions import FlowError, UsageError
from foldline.utils.uuid import new_id
from foldline.workflows.interrupts import FlowInterrupt
from foldline.workflows.journal import decode_error, encode_error

__all__ = [
    "ENGINE",
    "Body",
    "Durability",
    "KeptStep",
    "check_call_option",
    "check_engine",
    "durable_step",
]

T = TypeVar("T")
Body = Callable[[Any, IO], Coroutine[Any, Any, Any]]
"""What a run does: its input as JSON -> its result as JSON."""
KeptStep = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
"""A step whose result is JSON."""


class Durability(ABC):
    """An engine that keeps steps. Give it to `create_agent` or `@workflow` as `durability=`."""

    def __init__(self) -> None:
        self._bodies: dict[str, Body] = {}

    def register(self, name: str, body: Body) -> None:
        """Take on an agent or a flow, under the name that its runs have in the engine."""
        if name in self._bodies:
            raise UsageError(
                f"{type(self).__name__} has something named {name!r} already: each agent and flow needs its own name"
            )
        self._bodies[name] = body

    async def invoke(self, name: str, run_id: object, payload: object, io: IO) -> Any:  # noqa: ANN401  JSON that the engine kept
        """Run under an id, or wait for the run that has it; return its result."""
        known = str(run_id) if run_id is not None else new_id()
        envelope = await self._start(name, f"{name}/{known}", payload, io)
        if envelope.get("input") != payload:
            raise UsageError(
                f"the thread {known!r} of {name} is a run with another input: a durable thread is one run. Give "
                "another thread_id"
            )
        if "error" in envelope:
            raise decode_error(envelope["error"], f"{name}/{known}")
        return envelope["value"]

    async def perform(self, name: str, payload: object, io: IO) -> dict[str, Any]:
        """Run a body inside the engine; called by its workflow. What it raises is part of what it gives."""
        body = self._bodies.get(name)
        if body is None:
            raise FlowError(
                f"the engine has a run of {name!r}, and this program has made no agent or flow of that name yet"
            )
        token = ENGINE.set(self)
        try:
            return {"input": payload, "value": await body(payload, io)}
        except FlowInterrupt:
            text = "it stopped for a person, which needs a checkpointer and not durability="
            return {"input": payload, "error": encode_error(UsageError(f"{name}: {text}"))}
        except Exception as error:  # noqa: BLE001  the caller raises it
            return {"input": payload, "error": encode_error(error)}
        finally:
            ENGINE.reset(token)

    @abstractmethod
    async def _start(self, name: str, run_id: str, payload: object, io: IO) -> dict[str, Any]:
        """Start a workflow, or find the one of this id; return what `perform` gave."""

    @abstractmethod
    async def step(self, name: str, kept: KeptStep, io: IO) -> dict[str, Any]:
        """Run a step of the workflow around it, unless the engine has its result."""

    @abstractmethod
    def close(self) -> None:
        """Leave the engine; runs that are not finished wait for the next process."""


ENGINE: ContextVar[Durability | None] = ContextVar("foldline_engine", default=None)
"""The engine whose workflow this code runs in."""


async def durable_step(
    name: str,
    body: Callable[[], Awaitable[T]],
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
    io: IO,
) -> T:
    """Run a body as a step of the engine around it; where there is none, just run it."""
    engine = ENGINE.get()
    if engine is None:
        return await body()
    failures: list[Exception] = []

    async def kept() -> dict[str, Any]:
        token = ENGINE.set(None)  # what runs inside is part of this step
        try:
            return {"value": encode(await body())}
        except Exception as error:  # noqa: BLE001  kept, and raised below
            failures.append(error)
            return {"error": encode_error(error)}
        finally:
            ENGINE.reset(token)

    envelope = await engine.step(name, kept, io)
    if "error" in envelope:
        raise failures[0] if failures else decode_error(envelope["error"], name)
    return decode(envelope["value"])


def check_engine(durability: object, checkpointer: object) -> None:
    """Refuse what is no engine as `durability=` of an agent or a flow, and an engine beside a checkpointer."""
    if durability is None:
        return
    if isinstance(durability, str):
        raise UsageError(
            f"durability={durability!r} says when a checkpointer writes: pass it to invoke or stream. Here it is the "
            "engine that keeps the run: DbosDurability(…) or TemporalDurability(…)"
        )
    if not isinstance(durability, Durability):
        raise UsageError(
            f"durability= is an engine (DbosDurability, TemporalDurability), not {type(durability).__name__}"
        )
    if checkpointer is not None:
        raise UsageError("give a checkpointer or durability, not both: each keeps the steps")


def check_call_option(name: str, engine: Durability, option: object) -> None:
    """Refuse `durability=` of a call where an engine keeps the run: it would say when a checkpointer writes."""
    if option is not None:
        raise UsageError(
            f"{name} is kept by {type(engine).__name__}, which writes every step before the next: "
            f"durability={option!r} of a call says when a checkpointer writes. Leave it out"
        )
