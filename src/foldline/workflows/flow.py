"""`workflow`: a function whose steps are stored, so that it can stop for a person, or be killed, and continue later.

When a flow continues, its function is called again from the beginning. Finished steps return their results from the
journal; the code between them runs again.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

from foldline._config import RunnableConfig
from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._io.waiting import is_async_callable
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.exceptions import FlowInterruptedError, UsageError
from foldline.runnables import _trace
from foldline.runnables.base import Runnable
from foldline.utils._short_repr import short_repr
from foldline.utils.uuid import new_id
from foldline.workflows._background import run_in_background
from foldline.workflows._flow_run import Arguments, FlowRun
from foldline.workflows._flow_scope import FlowContext, current_scope
from foldline.workflows._journal import FORM, KINDS, Journal, read_body
from foldline.workflows._nested_flow import NestedFlow
from foldline.workflows._run_events import Emit
from foldline.workflows._thread_log import chain_of
from foldline.workflows.durability import (
    ENGINE,
    Durability,
    check_call_option,
    check_engine,
    refuse_stream,
)
from foldline.workflows.interrupts import Command, FlowInterrupt, Interrupt
from foldline.workflows.steps import Step
from foldline.workflows.values import pack, unpack, unpack_plain
from foldline.workflows.views import View

__all__ = ["FlowState", "FlowThread", "JournalRecord", "Workflow", "workflow"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record of a flow's journal."""

    id: str
    kind: str
    at: str
    place: str | None = None
    value: Any = None


@dataclass(frozen=True, slots=True)
class FlowState:
    """The state of a thread of a flow."""

    status: str
    """`new`, `running` (or killed), `interrupted`, `failed`, `undone` or `done`."""
    value: Any
    interrupts: tuple[Interrupt, ...]
    steps: dict[str, Any]
    """The results of finished steps by place; models and dataclasses as plain data."""
    config: RunnableConfig


class Workflow(Runnable[Any, Any], Generic[P, R]):
    """A function whose steps are stored. Made by `workflow`."""

    replaces_unfinished_run = False
    """Whether an input begins a new run even if the last one is unfinished."""
    is_node = False
    """Whether the function has a run of its own in the traces, as the node of a graph."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        checkpointer: BaseCheckpointSaver | None = None,
        store: object = None,
        name: str | None = None,
        version: str | None = None,
        accepts: Collection[str | None] = (),
        durability: Durability | None = None,
    ) -> None:
        update_wrapper(self, function)
        check_engine(durability, checkpointer)
        if checkpointer is not None and not isinstance(checkpointer, BaseCheckpointSaver):
            raise UsageError(
                f"checkpointer must be a saver of foldline.checkpoint, not {type(checkpointer).__name__}"
            )
        self.function = function
        self.name = self.flow_name = name or str(
            getattr(function, "__name__", type(function).__name__)
        )
        self.checkpointer = checkpointer
        self.store = store
        self.version = version
        self.accepts = frozenset(accepts)
        self._as_step: Step[Any, Any] = Step(function, name=self.name, is_flow=True)
        self.returns: Any = self._as_step.returns
        self.saves: Any = self.returns
        """The type of what the next run can read."""
        self.parameters = list(inspect.signature(function).parameters.values())
        self.parameter_types = self._read_types()
        self.durability = durability
        if durability is not None:
            durability.register(self.flow_name, self._durable_body)

    async def _durable_body(self, payload: Any, io: IO) -> object:  # noqa: ANN401  JSON as `_run_in_engine` packs it
        """Run inside the engine; arguments and result are JSON."""
        args = tuple(
            unpack(item, "an argument", self.parameter_types.get(index, Any))
            for index, item in enumerate(payload[0])
        )
        kwargs = {
            name: unpack(item, "an argument", self.parameter_types.get(name, Any))
            for name, item in payload[1].items()
        }
        flow_run = FlowRun(self, Run.root(io, None, {}))
        output = await flow_run.result(_Arguments(args, kwargs))
        if flow_run.interrupts:
            raise FlowInterrupt(flow_run.interrupts)
        return pack(output, f"the result of {self.flow_name}", self.returns)

    async def _run_in_engine(self, durability: Durability, value: object, run: Run) -> object:
        check_call_option(self.flow_name, durability, run.kwargs.get("durability"))
        args, kwargs = self.arguments(value)
        types = self.parameter_types
        payload = [
            [pack(item, "an argument", types.get(index, Any)) for index, item in enumerate(args)],
            {
                name: pack(item, "an argument", types.get(name, Any))
                for name, item in kwargs.items()
            },
        ]
        thread = run.configurable.get("thread_id")
        packed = await durability.invoke(self.flow_name, thread, payload, run.io)
        return unpack(packed, f"the result of {self.flow_name}", self.returns)

    @property
    def _engine(self) -> Durability | None:
        """The engine for a run that begins here; None inside a run of an engine."""
        return self.durability if ENGINE.get() is None else None

    def _read_types(self) -> dict[int | str, Any]:
        try:
            hints = get_type_hints(inspect.unwrap(self.function))
        except (NameError, TypeError, AttributeError):
            hints = {}
        types: dict[int | str, Any] = {}
        for number, parameter in enumerate(self.parameters):
            types[number] = types[parameter.name] = hints.get(parameter.name, Any)
        return types

    # -- what the subclass for LangGraph's API overrides

    def injected_arguments(self, context: FlowContext, run: Run) -> dict[str, Any]:
        """Return the arguments that the caller does not pass."""
        return {}

    def split_output(self, output: object) -> tuple[Any, Any]:
        """Return the result for the caller, and the value that is saved for the next run."""
        return output, output

    def arguments(self, value: object) -> Arguments:
        """Return the function's arguments for the input of `invoke`."""
        if isinstance(value, _Arguments):
            return value.args, value.kwargs
        if len(self.parameters) == 1:
            return (value,), {}
        if isinstance(value, Mapping):
            return (), dict(value)
        if isinstance(value, tuple):
            return value, {}
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise UsageError(
            f"{self.flow_name} takes ({names}): invoke it with a dict of these, not {type(value).__name__}"
        )

    # -- running

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function; inside another flow it is a step of it. An async flow returns an awaitable."""
        if current_scope.get() is not None:
            return self._as_step(*args, **kwargs)  # type: ignore[no-any-return]
        return self._start(None, _Arguments(args, kwargs))  # type: ignore[no-any-return]

    def _start(self, config: RunnableConfig | None, value: object) -> Any:  # noqa: ANN401  the flow's result, or for an async flow an awaitable of it
        io = ASYNC if is_async_callable(self.function) else BLOCKING
        body = self._call(value, Run.root(io, config, {}))
        return drive(body) if io.blocking else body

    async def _call(self, value: object, run: Run) -> object:
        """Run the flow for a call of it as a function: a run in the traces, as `invoke` is."""
        if run.manager is None:
            return await self._call_body(value, run)
        run = self._own_run(run)
        inputs = self._named_arguments(value) if isinstance(value, _Arguments) else value
        try:
            await run.begin("chain", "on_chain_start", None, inputs, name=self.name)
            output = await self._call_body(value, run)
        except (FlowInterrupt, FlowInterruptedError) as stop:
            await run.dispatch("on_chain_end", {"__interrupt__": list(stop.interrupts)})
            raise
        except BaseException as error:
            await run.dispatch("on_chain_error", error)
            raise
        await run.dispatch("on_chain_end", output)
        return output

    def _named_arguments(self, value: _Arguments) -> dict[str, Any]:
        names = [parameter.name for parameter in self.parameters]
        return {**dict(zip(names, value.args, strict=False)), **value.kwargs}

    async def _call_body(self, value: object, run: Run) -> object:
        if (engine := self._engine) is not None:
            return await self._run_in_engine(engine, value, run)
        flow_run = FlowRun(self, run)
        output = await flow_run.result(value)
        if flow_run.interrupts:
            if flow_run.outer is not None:
                raise FlowInterrupt(flow_run.interrupts)
            raise FlowInterruptedError(
                f"{self.flow_name} stopped for {len(flow_run.interrupts)} answer(s): continue with "
                f"{self.flow_name}.thread({flow_run.thread_id!r}).resume(answer)",
                flow_run.interrupts,
                flow_run.thread_id,
            )
        return output

    async def _invoke_body(self, input: object, run: Run) -> object:
        if (engine := self._engine) is not None:
            return await self._run_in_engine(engine, input, run)
        if (nested := NestedFlow.find(self, input, run)) is not None:
            return await nested.result(input, run.io)
        flow_run = FlowRun(self, run)
        return self._public_output(flow_run, await flow_run.result(input))

    def _public_output(self, flow_run: FlowRun, output: object) -> object:
        if flow_run.interrupts and flow_run.outer is not None:
            raise FlowInterrupt(flow_run.interrupts)
        return {"__interrupt__": list(flow_run.interrupts)} if flow_run.interrupts else output

    async def _stream_body(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        async with aclosing(self._pieces(input, run, [])) as pieces:
            async for piece in pieces:
                yield piece

    def _stream_traced(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        return (
            self._stream_body(input, run) if run.manager is None else self._stream_run(input, run)
        )

    async def _stream_run(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        """Stream as a traced run whose output is the result, not the sum of the pieces."""
        run = run.patched()
        results: list[Any] = []
        observers = _trace.observers(run.handlers)
        try:
            await _trace.begin(self, input, run)
            async with aclosing(self._pieces(input, run, results)) as pieces:
                async for piece in pieces:
                    for observer in observers:
                        observer.on_chunk(run.id, piece)
                    yield piece
        except GeneratorExit:
            await run.end_stream(None)
            raise
        except BaseException as error:
            await run.dispatch("on_chain_error", error)
            raise
        await run.dispatch("on_chain_end", results[0])

    async def _pieces(
        self, input: object, run: Run, results: list[Any]
    ) -> AsyncGenerator[Any, None]:
        refuse_stream(self.flow_name, self._engine)
        mode, subgraphs = run.kwargs.get("stream_mode"), bool(run.kwargs.get("subgraphs"))
        view = View(mode or "updates", subgraphs=subgraphs)
        nested = NestedFlow.find(self, input, run)
        flow_runs: list[FlowRun] = []

        async def body(emit: Emit) -> None:
            if nested is not None:
                nested.send_to(emit, view.wants)
                results.append(await nested.result(input, run.io))
                return
            flow_run = FlowRun(self, run, wants=view.wants, emit=emit)
            flow_runs.append(flow_run)
            results.append(self._public_output(flow_run, await flow_run.result(input)))

        async with aclosing(run_in_background(run.io, body)) as events:
            try:
                async for event in events:
                    for piece in view.pieces(event):
                        yield piece
            except GeneratorExit:
                for flow_run in flow_runs:
                    flow_run.close()
                raise

    # -- threads

    def thread(self, thread_id: str) -> FlowThread[P, R]:
        """Return a thread of this flow, which can be called, resumed and inspected."""
        if self.checkpointer is None:
            raise UsageError(f"{self.flow_name} has no checkpointer: @workflow(checkpointer=…)")
        return FlowThread(self, str(thread_id), self.checkpointer)


@dataclass(frozen=True, slots=True)
class _Arguments:
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_repeated: bool = False
    """Whether a finished run is run again."""


class FlowThread(Generic[P, R]):
    """One thread of a flow."""

    __repr__ = short_repr

    def __init__(
        self,
        flow: Workflow[P, R],
        thread_id: str,
        saver: BaseCheckpointSaver,
        at: str | None = None,
    ) -> None:
        self.flow = flow
        self.thread_id = thread_id
        self._saver = saver
        self._at = at

    @property
    def config(self) -> RunnableConfig:
        """The config of this thread."""
        ids = {"thread_id": self.thread_id}
        return {"configurable": ids if self._at is None else {**ids, "checkpoint_id": self._at}}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the flow on this thread; the same input again continues an unfinished run, or gives its result."""
        return self.flow._start(self.config, _Arguments(args, kwargs))  # type: ignore[no-any-return]

    def again(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a finished flow again: another run on this thread, whose steps have other idempotency keys."""
        return self.flow._start(self.config, _Arguments(args, kwargs, True))  # type: ignore[no-any-return]  # noqa: FBT003

    def resume(self, answer: object = None) -> R:
        """Continue with the answer to the flow's question, or a dict of answers by question id."""
        return self.flow._start(self.config, Command(resume=answer))  # type: ignore[no-any-return]

    def carry_on(self) -> R:
        """Continue a run that was killed or failed."""
        return self.flow._start(self.config, None)  # type: ignore[no-any-return]

    def state(self) -> FlowState:
        """Return the state of this thread."""
        return drive(self._state(BLOCKING))

    async def astate(self) -> FlowState:
        """Return the state of this thread."""
        return await self._state(ASYNC)

    async def _state(self, io: IO) -> FlowState:
        journal = Journal(self._saver, self.thread_id)
        await journal.load(io, self._at)
        ending = journal.ending or {}
        status = "new" if journal.run is None else "running"
        if journal.interrupts:
            status = "interrupted"
        for key, name in (("value", "done"), ("error", "failed"), ("failed", "undone")):
            status = name if key in ending else status
        steps = {
            place: unpack_plain(body.get("value"), place)
            for place, body in journal.steps.items()
            if body["kind"] == "step"
        }
        value = (
            unpack(ending["value"], "the result", self.flow.returns) if "value" in ending else None
        )
        ids = {"thread_id": self.thread_id}
        if journal.head is not None:
            ids["checkpoint_id"] = journal.head
        return FlowState(status, value, tuple(journal.interrupts), steps, {"configurable": ids})

    def history(self) -> list[JournalRecord]:
        """Return the records of this thread, the oldest first; `fork(at=record.id)` continues from one of them."""
        return drive(self._history(BLOCKING))

    async def ahistory(self) -> list[JournalRecord]:
        """Return the records of this thread, the oldest first."""
        return await self._history(ASYNC)

    async def _history(self, io: IO) -> list[JournalRecord]:
        entries = await io.call(self._saver.read, self.thread_id, "")
        records = []
        for entry in chain_of(entries, self._at):
            body = read_body(entry, KINDS, "a flow", form=FORM)
            records.append(
                JournalRecord(
                    entry.id, body["kind"], body.get("at", ""), body.get("place"), body.get("value")
                )
            )
        return records

    def fork(self, at: str, to: str | None = None) -> FlowThread[P, R]:
        """Copy this thread up to a record into a new thread, which continues from there."""
        return drive(self._fork(at, to, BLOCKING))

    async def afork(self, at: str, to: str | None = None) -> FlowThread[P, R]:
        """Copy this thread up to a record into a new thread, which continues from there."""
        return await self._fork(at, to, ASYNC)

    async def _fork(self, at: str, to: str | None, io: IO) -> FlowThread[P, R]:
        entries = chain_of(await io.call(self._saver.read, self.thread_id, ""), at)
        thread_id = to or new_id()
        copies = [Entry(entry.id, entry.parent, entry.body) for entry in entries]
        await io.call(self._saver.append, thread_id, "", copies, after=None)
        return FlowThread(self.flow, thread_id, self._saver)

    def delete(self) -> None:
        """Delete this thread."""
        self._saver.delete_thread(self.thread_id)


@overload
def workflow(function: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    checkpointer: BaseCheckpointSaver | None = None,
    store: object = None,
    name: str | None = None,
    version: str | None = None,
    accepts: Collection[str | None] = (),
    durability: Durability | None = None,
) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(function: Callable[..., Any] | None = None, /, **options: Any) -> object:
    """Make a flow from a function: the checkpointer stores its steps, and an interrupted run continues.

    ```python
    from foldline.checkpoint import InMemorySaver
    from foldline.workflows import interrupt, step, workflow

    @step
    def charge(amount: int) -> str:
        print("charged", amount)
        #> charged 5
        return f"receipt for {amount}"

    @workflow(checkpointer=InMemorySaver())
    def checkout(amount: int) -> str:
        receipt = charge(amount)
        return receipt if interrupt("ship it?") else "kept"

    order = checkout.thread("order-1")
    try:
        order(5)
    except Exception as stopped:
        print(type(stopped).__name__)
        #> FlowInterruptedError
    print(order.resume(True))
    #> receipt for 5
    ```
    """
    if function is None:
        return lambda function: Workflow(function, **options)
    return Workflow(function, **options)
