"""`entrypoint` and `task`: LangGraph's names for a flow and a step."""

from __future__ import annotations

import inspect
import json
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, get_args, get_origin

from pydantic import TypeAdapter

from foldline._config import RunnableConfig
from foldline._io import ASYNC, BLOCKING, IO, running_loop
from foldline._io.drive import drive
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import UsageError
from foldline.graph._func_state import EntrypointThread
from foldline.graph._thread_states import ThreadStates
from foldline.graph.cache import BaseCache
from foldline.graph.runtime import ARGUMENTS, Runtime
from foldline.graph.types import CachePolicy, RetryPolicy, StateSnapshot, StateUpdate
from foldline.utils._short_repr import short_repr
from foldline.workflows._flow_run import Arguments
from foldline.workflows._flow_scope import FlowContext, Scope, current_scope
from foldline.workflows._nesting import task_scope
from foldline.workflows._started_tasks import StartedTasks
from foldline.workflows.flow import Workflow
from foldline.workflows.steps import Step, StepCall, digest_of, run_call
from foldline.workflows.values import pack, unpack

__all__ = [
    "TaskFuture",
    "entrypoint",
    "task",
]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
GRAPH_NAME = "LangGraph"
"""The name of an entrypoint in traces and schemas, as in LangGraph; its one node has the name of the function."""


class TaskFuture(Awaitable[R], Generic[R]):
    """A running task: `.result()` waits for it in a sync entrypoint, `await` in an async one."""

    def __init__(self, call: StepCall[R], scope: Scope, *, is_async: bool) -> None:
        io = ASYNC if is_async else BLOCKING
        self._is_async = is_async
        tasks = scope.flow.tasks
        tasks[call.place] = self
        self._work = io.start(self._run(call, tasks, io))

    async def _run(self, call: StepCall[R], tasks: StartedTasks, io: IO) -> R:
        try:
            value: R = await run_call(call, io)
        except Exception:  # it is stored
            tasks.pop(call.place, None)
            raise
        tasks.pop(call.place, None)
        return value

    def result(self, timeout: float | None = None) -> R:
        """Wait for the result."""
        if self._is_async:
            raise UsageError("this task runs in an async entrypoint: await it")
        value: R = drive(self._work.result())
        return value

    def cancel(self) -> bool:
        """Ask the task to stop; return False if it is finished, or runs in a thread, which cannot be stopped."""
        return self._work.cancel()

    async def end(self, io: IO) -> BaseException | None:
        """Wait until the task has ended; return its error."""
        if self._is_async:
            return await self._work.end()
        error: BaseException | None = await io.call(lambda: drive(self._work.end()))
        return error

    def __await__(self) -> Generator[Any, None, R]:
        """Wait for the result."""
        value: R = yield from self._work.result().__await__()
        return value


class TaskFunction(Step[P, R]):
    """A step that starts when it is called and returns a future, like LangGraph's tasks."""

    cache_policy: CachePolicy | None = None
    is_task = True

    def traced_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by their names."""
        try:
            return dict(inspect.signature(self.function).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):  # wrong arguments, or a function without a signature
            return super().traced_arguments(args, kwargs)

    async def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], io: IO) -> object:
        """Call the function, or return its result from the cache of the entrypoint."""
        scope, policy = current_scope.get(), self.cache_policy
        cache = None if scope is None else scope.flow.cache
        if policy is None or cache is None:
            return await super().run(args, kwargs, io)
        raw_key = (
            digest_of(args, kwargs) if policy.key_func is None else policy.key_func(*args, **kwargs)
        )
        namespace, key = (
            self._cache_namespace,
            raw_key.decode() if isinstance(raw_key, bytes) else str(raw_key),
        )
        where = f"the cached result of {self.name}"
        cached = await io.call(cache.get, namespace, key)
        if cached is not None:
            return unpack(json.loads(cached), where, self.returns)
        value = await super().run(args, kwargs, io)
        text = json.dumps(pack(value, where, self.returns))
        await io.call(cache.set, namespace, key, text, policy.ttl)
        return value

    def clear_cache(self, cache: BaseCache) -> None:
        """Delete the results of this task from a cache; the next calls run again."""
        cache.clear(self._cache_namespace)

    async def aclear_cache(self, cache: BaseCache) -> None:
        """Delete the results of this task from a cache; the next calls run again."""
        await ASYNC.call(cache.clear, self._cache_namespace)

    @property
    def _cache_namespace(self) -> tuple[str, ...]:
        return "task", self.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401  a future of the function's result
        """Start the task."""
        scope = task_scope()
        if scope is None:
            raise UsageError(
                f"the task {self.name!r} was called outside an entrypoint and a node of a graph"
            )
        call: StepCall[Any] = StepCall(self, args, kwargs, scope, scope.place(self.name))
        return TaskFuture(call, scope, is_async=_is_async(scope))


def _is_async(scope: Scope) -> bool:
    """Whether the code that starts a task can await it."""
    if scope.is_async is not None:
        return scope.is_async
    if scope.flow.io is not None and scope.flow.io.blocking:
        return False
    try:
        running_loop()
    except RuntimeError:  # sync code, in a thread
        return False
    return True


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | None = None,
) -> object:
    """Make a task from a function: inside an entrypoint a call starts it at once and returns a future."""

    def make(function: Callable[..., Any]) -> TaskFunction[Any, Any]:
        task_function: TaskFunction[Any, Any] = TaskFunction(
            function, name=name or _name_of(function), retry=retry_policy, timeout=timeout
        )
        task_function.cache_policy = cache_policy
        return task_function

    return make if function is None else make(function)


def _name_of(function: object) -> str | None:
    """Return the name of the function of a partial."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None)


class EntrypointFlow(ThreadStates, Workflow[Any, Any]):
    """A flow with one input, whose result the next run on its thread can read. It is a graph of one node."""

    replaces_unfinished_run = True
    is_node = True
    cache: Any = None
    context_schema: type | None = None

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        target = inspect.unwrap(function)
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise NotImplementedError(
                f"the entrypoint {getattr(function, '__name__', function)!r} is a generator: return the result, and "
                "stream values with a writer (get_stream_writer)"
            )
        super().__init__(function, **options)
        self.name = GRAPH_NAME
        if self.returns is entrypoint.final:
            self.returns = self.saves = Any
        elif get_origin(self.returns) is entrypoint.final:
            self.returns, self.saves = get_args(self.returns)

    @property
    def InputType(self) -> object:
        """The type of the input."""
        return self.parameter_types.get(0, Any)

    @property
    def OutputType(self) -> object:
        """The type of the result."""
        return self.returns

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the JSON schema of the context; None if none is declared."""
        schema = self.context_schema
        return None if schema is None else TypeAdapter(schema).json_schema()

    # -- threads, as those of a graph

    async def _state(self, run: Run, *, subgraphs: bool) -> StateSnapshot:
        return await EntrypointThread(self, self.saves, run).state()

    async def _history(
        self,
        run: Run,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[StateSnapshot]:
        return await EntrypointThread(self, self.saves, run).history(filter, before, limit)

    async def _update(
        self, run: Run, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        return await EntrypointThread(self, self.saves, run).update(supersteps)

    # -- the function

    def arguments(self, value: object) -> Arguments:
        """Return the input as the only argument."""
        return (value,), {}

    def injected_arguments(self, context: FlowContext, run: Run) -> dict[str, Any]:
        """Return the arguments that the function's parameter names request."""

        def write(chunk: object) -> None:
            context.publish("custom", self.name, {"payload": chunk})

        context.write, context.cache = write, self.cache
        previous = context.previous
        runtime = Runtime(context.context, self.store, write, previous, run.config())
        available = {
            "config": run.config(),
            "runtime": runtime,
            "writer": write,
            "store": self.store,
            "previous": previous,
        }
        names = [parameter.name for parameter in self.parameters[1:] if parameter.name in ARGUMENTS]
        return {name: available[name] for name in names}

    def split_output(self, output: object) -> tuple[Any, Any]:
        """Return the result for the caller, and the value that is saved for the next run."""
        if isinstance(output, entrypoint.final):
            return output.value, output.save
        return output, output


class entrypoint:
    """Make a flow from a function of one input: `@entrypoint(checkpointer=…)`."""

    __repr__ = short_repr

    @dataclass(frozen=True, slots=True)
    class final(Generic[R, S]):
        """Return one value to the caller and save another one for the next run: `-> entrypoint.final[R, S]`."""

        value: R
        save: S

    def __init__(
        self,
        checkpointer: BaseCheckpointSaver | None = None,
        store: object = None,
        cache: object = None,
        context_schema: type | None = None,
        name: str | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "checkpointer": checkpointer,
            "store": store,
            "name": name,
        }
        self._cache = cache
        self._context_schema = context_schema

    def __call__(self, function: Callable[..., Any]) -> EntrypointFlow:
        """Make the flow."""
        flow = EntrypointFlow(function, **self._options)
        flow.cache, flow.context_schema = self._cache, self._context_schema
        return flow
