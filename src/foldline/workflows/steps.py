"""`step`: a function whose result is stored in the journal, so that it runs once per place. Also `gather`.

Outside a flow a step is an ordinary function with retries and a timeout. Inside a flow its call has a place; if the
journal has a result for it, that is returned and the function is not called.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._io.waiting import is_async_callable
from foldline.exceptions import FlowChangedError, SchemaError, UsageError
from foldline.utils._short_repr import short_repr
from foldline.workflows._flow_scope import RunClosed, Scope, current_scope, enter_scope
from foldline.workflows._journal import Journal, decode_error, encode_error
from foldline.workflows._step_trace import trace_step
from foldline.workflows._thread_log import ends_run
from foldline.workflows.durability import ENGINE, durable_step
from foldline.workflows.interrupts import FlowInterrupt, Interrupt
from foldline.workflows.retry import RetryPolicy, policies_of, run_attempts
from foldline.workflows.values import pack, unpack

__all__ = ["Step", "StepCall", "agather", "gather", "step"]

P = ParamSpec("P")
R = TypeVar("R")
RETURN_KEY = "__return__"
"""The key of a step's result in `stream_mode="tasks"`, as in LangGraph."""


@dataclass(slots=True)
class StepCall(Generic[R]):
    """A call of a step that has a place and has not run yet; `gather` runs it."""

    step: Step[Any, R]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    scope: Scope | None
    place: str


class Step(Generic[P, R]):
    """A function whose results are stored. Made by `step`."""

    __repr__ = short_repr
    is_task = False
    """Whether its runs are shown as LangGraph shows those of tasks."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        retry: int | RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: float | None = None,
        on_failure: Callable[..., Any] | None = None,
        is_flow: bool = False,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        if "/" in self.name or "#" in self.name:
            raise UsageError(f"the step {self.name!r} needs a name without / and #: name=…")
        self.retry = policies_of(retry)
        self.timeout = timeout
        self.on_failure = on_failure
        self.is_async = is_async_callable(function)
        self.is_flow = is_flow
        self.publishes_itself = False
        """Whether the function has its own run in the traces and its own events."""
        self._returns: Any = None

    @property
    def returns(self) -> object:
        """The declared type of the result; Any if there is none."""
        if self._returns is None:
            self._returns = _return_type(self.function)
        return self._returns

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the step, or return its result from the journal; an async step returns an awaitable."""
        call = self.later(*args, **kwargs)
        if self.is_async:
            scope = call.scope
            if scope is not None and scope.is_async is False:
                raise UsageError(
                    f"{call.place}: an async step was called by a sync step or flow, which cannot await it: "
                    "write `async def` there"
                )
            return run_call(call, ASYNC)  # type: ignore[return-value]
        value: R = drive(run_call(call, BLOCKING))
        return value

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the step from async code; a sync function runs in a thread."""
        value: R = await run_call(self.later(*args, **kwargs), ASYNC)
        return value

    def later(self, *args: P.args, **kwargs: P.kwargs) -> StepCall[R]:
        """Return a call for `gather`; its place is assigned now."""
        scope = current_scope.get()
        return StepCall(
            self, args, kwargs, scope, scope.place(self.name) if scope is not None else self.name
        )

    async def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], io: IO) -> Any:  # noqa: ANN401  the result of the step's function
        """Call the function; a subclass may return a cached result."""
        return await io.call(self.function, *args, **kwargs)

    def traced_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as its run in the traces has them."""
        return {"args": list(args), "kwargs": kwargs}

    def inner_scope(self, scope: Scope, place: str) -> Scope:
        """Return the scope of the function's code."""
        checks_order = self.is_flow and not self.is_async
        return scope.nested(place, is_async=self.is_async, checks_order=checks_order)

    def each(self, items: Iterable[Any]) -> list[StepCall[R]]:
        """Return a call for each item, for `gather`."""
        return [self.later(item) for item in items]  # type: ignore[call-arg]

    def __get__(self, instance: object, owner: type | None = None) -> object:
        """Bind a step that is defined as a method."""
        if instance is None:
            return self
        return Step(
            self.function.__get__(instance, owner),
            name=self.name,
            retry=self.retry,
            timeout=self.timeout,
            on_failure=self.on_failure,
        )


@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: int | RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: float | None = None,
    on_failure: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(function: Callable[..., Any] | None = None, /, **options: Any) -> object:
    """Store a function's results: inside a flow it runs once per place, and its result is in the journal.

    `retry` is a number of attempts or a `RetryPolicy`, `timeout` the seconds of one attempt, and `on_failure` is called
    with the result if the flow fails later.

    ```python
    from foldline.workflows import step

    @step(retry=3, timeout=10)
    def add(a: int, b: int) -> int:
        return a + b

    print(add(1, 2))
    #> 3
    ```
    """
    if function is None:
        return lambda function: Step(function, **options)
    return Step(function, **options)


# -- one call


async def run_call(call: StepCall[Any], io: IO) -> Any:  # noqa: ANN401  the result of the step's function
    """Return the result of a call: from the journal, or by running it and storing the result."""
    scope = call.scope
    if scope is None:
        return await _attempt(call, io, None)
    if scope.flow.tasks.is_closed:
        raise RunClosed(f"{call.place} was not run: the run was cancelled")
    journal = scope.journal
    if journal is None:
        where, returns = f"the result of {call.place}", call.step.returns
        value = await durable_step(
            call.place,
            lambda: _publish_task(call, io, scope),
            lambda value: pack(value, where, returns),
            lambda packed: unpack(packed, where, returns),
            io,
        )
        _add_compensation(call, scope, value)
        _publish_value(call, scope, value)
        return value
    await journal.load(io)
    digest = digest_of(call.args, call.kwargs)
    record = journal.steps.get(call.place)
    if record is not None and journal.run is None and record.get("args") != digest:
        record = None  # the state of a node or tool was changed from outside: other arguments are another call
    if record is not None:
        journal.check_arguments(call.place, record, digest)
        return _replay(call, scope, record)
    _check_order(scope, journal, call.place)
    await journal.flush(io)
    return await _run_live(call, io, scope, journal, digest)


def _check_order(scope: Scope, journal: Journal, place: str) -> None:
    missing_place = journal.unclaimed(scope.path) if scope.checks_order else None
    if missing_place is not None:
        raise FlowChangedError(
            f"thread {journal.thread_id!r}: the first place that differs is {missing_place}: the journal has it, "
            f"and the flow reached {place} instead. Use the code that began this thread, or begin a new one"
        )


def _replay(call: StepCall[Any], scope: Scope, record: dict[str, Any]) -> object:
    if record["kind"] == "fail":
        error = decode_error(record.get("error") or {}, call.place)
        scope.flow.failures[id(error)] = (error, call.place)
        raise error
    value = unpack(record.get("value"), f"the result of {call.place}", call.step.returns)
    _add_compensation(call, scope, value)
    return value


def _add_compensation(call: StepCall[Any], scope: Scope, value: object) -> None:
    if call.step.on_failure is not None:
        scope.flow.undo.append((call.place, call.step.on_failure, value))


async def _run_live(
    call: StepCall[Any], io: IO, scope: Scope, journal: Journal, digest: str
) -> object:
    try:
        value = await _publish_task(call, io, scope)
        packed = pack(value, f"the result of {call.place}", call.step.returns)
    except Exception as error:
        if ends_run(error):
            raise
        if journal.run is not None and id(error) not in scope.flow.failures:
            scope.flow.failures[id(error)] = (error, call.place)
            await journal.write(
                io, "fail", place=call.place, args=digest, error=encode_error(error)
            )
        raise
    await journal.write(io, "step", place=call.place, args=digest, value=packed)
    _add_compensation(call, scope, value)
    _publish_value(call, scope, value)
    return value


def _publish_value(call: StepCall[Any], scope: Scope, value: object) -> None:
    if call.step.publishes_itself:
        return
    scope.flow.publish("updates", call.step.name, {"node": call.step.name, "values": value})


async def _publish_task(call: StepCall[Any], io: IO, scope: Scope) -> object:
    """Run a call as a run in the traces; publish its start and its result."""

    async def run() -> object:
        return await _attempt(call, io, scope)

    if call.step.publishes_itself:
        return await run()
    flow, name = scope.flow, call.step.name
    traced = partial(
        trace_step, name, call.place, call.step.traced_arguments(call.args, call.kwargs), io, run
    )
    if "tasks" not in flow.wants:
        return await traced(is_task=call.step.is_task)
    task_fields = {"step": 0, "id": scope.key_of(call.place), "name": name}
    call_fields = {"input": (call.args, call.kwargs), "triggers": ("call",)}
    flow.publish("tasks", name, {"type": "task", **task_fields, **call_fields})
    result_event: dict[str, Any] = {
        "type": "task_result",
        **task_fields,
        "error": None,
        "result": {},
    }
    result_event["interrupts"] = []
    try:
        value = await traced(is_task=call.step.is_task)
        result_event["result"] = {RETURN_KEY: value}
    except FlowInterrupt as stop:
        result_event["interrupts"] = [
            {"value": question.value, "id": question.id} for question in stop.interrupts
        ]
        raise
    except Exception as error:
        result_event["error"] = error
        raise
    finally:
        flow.publish("tasks", name, result_event)
    return value


async def _attempt(call: StepCall[Any], io: IO, scope: Scope | None) -> object:
    step = call.step

    async def run(attempt: int) -> object:
        if scope is None:
            return await io.call(step.function, *call.args, **call.kwargs)
        if scope.journal is not None:
            await scope.journal.check_owner(io)
            if attempt > 1:
                scope.journal.forget_failures(call.place)
        with enter_scope(step.inner_scope(scope, call.place)):
            return await step.run(call.args, call.kwargs, io)

    return await run_attempts(io, call.place, run, step.retry, step.timeout)


def digest_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the hash of arguments; a value that cannot be encoded is compared by its type only."""
    comparable = (
        [_comparable(item) for item in args],
        {key: _comparable(kwargs[key]) for key in sorted(kwargs)},
    )
    text = json.dumps(comparable, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _comparable(value: object) -> object:
    if value is None or type(value) in (str, int, float, bool):
        return value
    try:
        return pack(value, "an argument", type(value))
    except SchemaError:
        return {"type": f"{type(value).__module__}.{type(value).__qualname__}"}


def _return_type(function: Callable[..., Any]) -> object:
    target = inspect.unwrap(function)
    try:
        hints = get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        hints = getattr(target, "__annotations__", {})
    declared = hints.get("return", Any)
    return Any if declared is None or isinstance(declared, str) else declared


# -- several calls

Branch = Callable[[], Any]


def gather(
    calls: Iterable[StepCall[R] | Branch],
    *,
    limit: int | None = None,
    return_exceptions: bool = False,
) -> list[R]:
    """Run calls of steps concurrently, at most `limit` at a time; return the results in order.

    `step.each(items)` and `step.later(…)` make calls. A function without arguments is a branch, whose steps have
    separate places. All calls finish before the first error is raised.
    """
    scope = current_scope.get()
    if scope is not None and scope.is_async:
        raise UsageError("gather() was called by an async flow or step: write `await agather(…)`")
    return drive(_gather(list(calls), BLOCKING, limit, return_exceptions=return_exceptions))


async def agather(
    calls: Iterable[StepCall[R] | Branch | Awaitable[R]],
    *,
    limit: int | None = None,
    return_exceptions: bool = False,
) -> list[R]:
    """Run calls of steps concurrently, at most `limit` at a time; awaitables of steps are accepted too."""
    return await _gather(list(calls), ASYNC, limit, return_exceptions=return_exceptions)


async def _gather(
    calls: list[Any], io: IO, limit: int | None, *, return_exceptions: bool
) -> list[Any]:
    scope = current_scope.get()
    place = "" if scope is None else scope.place("gather")
    results: list[Any] = [None] * len(calls)
    interrupts: dict[int, list[Interrupt]] = {}
    errors: dict[int, BaseException] = {}
    outcomes = io.as_completed(
        lambda index: _run_one(calls[index], io, scope, f"{place}/{index}"),
        range(len(calls)),
        limit=limit if ENGINE.get() is None else 1,  # an engine identifies steps by their order
    )
    async with aclosing(outcomes):
        async for index, value, error in outcomes:
            results[index] = value
            if isinstance(error, FlowInterrupt):
                interrupts[index] = error.interrupts
            elif isinstance(error, Exception):
                errors[index] = error
            elif error is not None:
                raise error
    if errors and not return_exceptions:
        raise errors[min(errors)]
    if interrupts:
        raise FlowInterrupt(
            [question for index in sorted(interrupts) for question in interrupts[index]]
        )
    for index, failure in errors.items():
        results[index] = failure
    return results


async def _run_one(
    call: StepCall[Any] | Awaitable[Any] | Callable[..., Any],
    io: IO,
    scope: Scope | None,
    place: str,
) -> object:
    if isinstance(call, StepCall):
        return await run_call(call, io)
    if inspect.isawaitable(call):
        return await io.settle(call)
    if scope is None:
        return await io.call(call)
    is_async = is_async_callable(call)
    with enter_scope(scope.nested(place, is_async=is_async, checks_order=not is_async)):
        return await io.call(call)
