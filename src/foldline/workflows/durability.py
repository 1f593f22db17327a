"""`Durability`: an engine that stores the steps of agents and flows, instead of foldline's journal.

A run is one workflow of the engine; each model call, tool call and `step` is one of its steps. The result or error of a
step is stored as JSON, so that a resumed run reaches the same place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from foldline._io import IO
from foldline.exceptions import FlowError, UsageError
from foldline.utils.uuid import new_id
from foldline.workflows._journal import decode_error, encode_error
from foldline.workflows.interrupts import FlowInterrupt

__all__ = [
    "Body",
    "Durability",
]

T = TypeVar("T")
Body = Callable[[Any, IO], Coroutine[Any, Any, Any]]
"""The body of a run: its input as JSON -> its result as JSON."""
StepBody = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
"""The body of a step, whose result is JSON."""


class Durability(ABC):
    """An engine that stores steps. Pass it to `create_agent` or `@workflow` as `durability=`."""

    def __init__(self) -> None:
        self._bodies: dict[str, Body] = {}

    def register(self, name: str, body: Body) -> None:
        """Register an agent or a flow under the name that its runs have in the engine."""
        if name in self._bodies:
            raise UsageError(
                f"{type(self).__name__} already has an agent or flow named {name!r}: each needs its own name"
            )
        self._bodies[name] = body

    async def invoke(self, name: str, run_id: object, payload: object, io: IO) -> Any:  # noqa: ANN401  JSON that the engine stored
        """Run under an id, or wait for the run that has this id; return its result."""
        thread_id = str(run_id) if run_id is not None else new_id()
        envelope = await self._start(name, f"{name}/{thread_id}", payload, io)
        if envelope.get("input") != payload:
            raise UsageError(
                f"the thread {thread_id!r} of {name} is a run with another input: a durable thread is one run. Pass "
                "another thread_id"
            )
        if "error" in envelope:
            raise decode_error(envelope["error"], f"{name}/{thread_id}")
        return envelope["value"]

    async def perform(
        self, name: str, payload: object, io: IO, run_id: str | None = None
    ) -> dict[str, Any]:
        """Run a body inside the engine; called by its workflow. An error is returned as part of the result.

        `run_id` is the id of the workflow, the same when the engine calls it again: keys of steps begin with it.
        """
        body = self._bodies.get(name)
        if body is None:
            raise FlowError(
                f"the engine has a run of {name!r}, and this program has not created an agent or flow of that name yet"
            )
        token, run_token = ENGINE.set(self), ENGINE_RUN.set(run_id or name)
        try:
            return {"input": payload, "value": await body(payload, io)}
        except FlowInterrupt:
            text = "it stopped for a person, which needs a checkpointer and not durability="
            return {"input": payload, "error": encode_error(UsageError(f"{name}: {text}"))}
        except Exception as error:  # noqa: BLE001  the caller raises it
            return {"input": payload, "error": encode_error(error)}
        finally:
            ENGINE_RUN.reset(run_token)
            ENGINE.reset(token)

    @abstractmethod
    async def _start(self, name: str, run_id: str, payload: object, io: IO) -> dict[str, Any]:
        """Start a workflow, or find the one with this id; return the result of `perform`."""

    @abstractmethod
    async def step(self, name: str, body: StepBody, io: IO) -> dict[str, Any]:
        """Run a step of the current workflow, unless the engine has its result."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect from the engine; unfinished runs wait for the next process."""


ENGINE: ContextVar[Durability | None] = ContextVar("foldline_engine", default=None)
"""The engine whose workflow is running this code."""
ENGINE_RUN: ContextVar[str | None] = ContextVar("foldline_engine_run", default=None)
"""The id of that workflow."""


async def durable_step(
    name: str,
    body: Callable[[], Awaitable[T]],
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
    io: IO,
) -> T:
    """Run a body as a step of the current engine; without an engine, just run it."""
    engine = ENGINE.get()
    if engine is None:
        return await body()
    failures: list[Exception] = []

    async def step_body() -> dict[str, Any]:
        token = ENGINE.set(None)  # nested steps are part of this step
        try:
            return {"value": encode(await body())}
        except Exception as error:  # noqa: BLE001  stored, and raised below
            failures.append(error)
            return {"error": encode_error(error)}
        finally:
            ENGINE.reset(token)

    envelope = await engine.step(name, step_body, io)
    if "error" in envelope:
        raise failures[0] if failures else decode_error(envelope["error"], name)
    return decode(envelope["value"])


async def claim_step(
    name: str, body: Callable[[], Awaitable[T]], lost: T, io: IO
) -> Callable[[], Awaitable[T]]:
    """Store that a body begins; return one that runs it once, or returns `lost` if an earlier process began it.

    The body is for a `durable_step` of its own. It also returns `lost` when an engine that took this process for dead
    runs the step again in it.
    """
    may_run = False

    async def begin() -> None:
        nonlocal may_run
        may_run = True

    await durable_step(f"{name}.begin", begin, lambda _: None, lambda _: None, io)

    async def once() -> T:
        nonlocal may_run
        if not may_run:
            return lost
        may_run = False
        return await body()

    return once


def check_engine(durability: object, checkpointer: object) -> None:
    """Raise `UsageError` if `durability=` is not an engine, or is combined with a checkpointer."""
    if durability is None:
        return
    if isinstance(durability, str):
        raise UsageError(
            f"durability={durability!r} sets when a checkpointer writes: pass it to invoke or stream. Here it is the "
            "engine that stores the run: DbosDurability(…) or TemporalDurability(…)"
        )
    if not isinstance(durability, Durability):
        raise UsageError(
            f"durability= must be an engine (DbosDurability, TemporalDurability), not {type(durability).__name__}"
        )
    if checkpointer is not None:
        raise UsageError("pass a checkpointer or durability, not both: each stores the steps")


def check_call_option(name: str, engine: Durability, option: object) -> None:
    """Raise `UsageError` if a call has `durability=` but an engine stores the run: it is for checkpointers."""
    if option is not None:
        raise UsageError(
            f"{name} is stored by {type(engine).__name__}, which writes every step before the next: "
            f"durability={option!r} of a call is for checkpointers. Leave it out"
        )


def refuse_stream(name: str, engine: Durability | None) -> None:
    """Raise `UsageError` if an engine stores the run: its events are not in this process."""
    if engine is not None:
        raise UsageError(
            f"{name} runs in {type(engine).__name__}: a run that may continue in another process cannot be streamed "
            "from here. Use invoke"
        )
