"""Dispatches the start and the end of a run to listeners, for every runnable, sync and async.

Every started run gets exactly one end or one error. A stream that its reader closes early ends with its output so far,
as in LangChain; one that is closed because a parallel stream failed has failed too.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from foldline._config import Configs, RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline._traceback import closing
from foldline.callbacks.base import BaseCallbackHandler
from foldline.exceptions import UsageError
from foldline.tracers._streaming import StreamObserver

if TYPE_CHECKING:
    from foldline.runnables.base import Runnable
    from foldline.utils.progress import Progress, ProgressOption


class _Nothing:
    """No value yet: a stream without items."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


def plus(first: Any, second: Any) -> object:  # noqa: ANN401  values of any type, with or without `+`
    """Add a chunk to the sum so far; if the types cannot be added, return the newer chunk."""
    if first is NOTHING:
        return second
    try:
        return first + second
    except TypeError:
        return second


async def single(value: object) -> AsyncGenerator[Any, None]:
    """Yield one value, as a stream."""
    yield value


async def add_up(stream: AsyncGenerator[Any, None]) -> Any:  # noqa: ANN401  the sum of the chunks
    """Read a stream to its end and return the sum of its chunks; NOTHING if there are none."""
    total: Any = NOTHING
    async with closing(stream):
        async for chunk in stream:
            total = plus(total, chunk)
    return total


def batch_inputs(inputs: object) -> Sequence[Any]:
    """Return the inputs of a batch; raise for a text, which is iterable by character."""
    if isinstance(inputs, str | bytes | Mapping | BaseModel):
        raise UsageError(
            f"batch takes a list of inputs, not {inputs!r:.60}: write batch([...]), or invoke for one"
        )
    if hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__"):
        return cast("Sequence[Any]", inputs)
    if not isinstance(inputs, Iterable):
        raise UsageError(f"batch takes a list of inputs, not {type(inputs).__name__}")
    return list(inputs)  # such as a generator or a set


def batch_progress(
    progress: ProgressOption, total: int, runnable: Runnable[Any, Any]
) -> AbstractContextManager[Progress | None]:
    """Return a context that shows the progress of a batch under its runnable's name; empty if none is asked for."""
    if progress is None or progress is False:
        return nullcontext()
    from foldline.utils.progress import show_progress  # noqa: PLC0415  few ask for it

    return show_progress(progress, total, runnable.get_name())


def runs_of(
    inputs: Sequence[Any], config: Configs, io: IO, kwargs: dict[str, Any]
) -> tuple[Callable[[int], Run], int | None]:
    """Return a function that makes the run of each input of a batch, and how many may run at once."""
    if config is not None and not isinstance(config, Mapping):
        config_list: Any = config
        if isinstance(config_list, str) or not isinstance(config_list, Iterable):
            raise UsageError(
                f"a config is a dict such as {{'tags': [...]}}, or a list of them, not {config!r:.80}"
            )
        configs = list(config)
        if len(configs) != len(inputs):
            raise UsageError(
                f"one config per input is needed: {len(inputs)} inputs, {len(configs)} configs"
            )
        limit = Run.root(io, configs[0], kwargs).max_concurrency if configs else None
        return (lambda index: Run.root(io, configs[index], kwargs)), limit
    first = Run.root(io, config, kwargs)
    if first.manager is None:
        return (lambda _: first), first.max_concurrency
    # A run id belongs to one run: the first.
    if (config or {}).get("run_id") is not None and len(inputs) > 1:
        warnings.warn(
            "Provided run_id names one run: of a batch it is the id of the first input's run only",
            category=RuntimeWarning,
            stacklevel=3,
        )
    other_config = cast(
        "RunnableConfig", {key: value for key, value in (config or {}).items() if key != "run_id"}
    )
    return (
        lambda index: Run.root(io, other_config, kwargs) if index else first
    ), first.max_concurrency


async def begin(runnable: Runnable[Any, Any], value: object, run: Run) -> None:
    """Dispatch the start of a run."""
    waiting = _begin_now(runnable, value, run)
    if waiting is not None:
        await waiting


def _begin_now(runnable: Runnable[Any, Any], value: object, run: Run) -> Awaitable[None] | None:
    """Dispatch the start of a run; return an awaitable where a handler takes time."""
    if run.manager is None:
        return None
    details = {"name": run.call_config.get("run_name") or runnable.get_name()}
    if runnable._run_type is not None:
        details["run_type"] = runnable._run_type
    return run.begin_now("on_chain_start", (runnable._serialized(), value), details)


async def call(runnable: Runnable[Any, Any], value: object, run: Run) -> Any:  # noqa: ANN401  the runnable's output
    """Run once, and dispatch the start and the end."""
    run = runnable._own_run(run)
    try:
        if (waiting := _begin_now(runnable, value, run)) is not None:
            await waiting
        output = await runnable._invoke_body(value, run)
    except BaseException as error:
        await run.dispatch("on_chain_error", error)
        raise
    if (waiting := run.dispatch_now("on_chain_end", (output,), {})) is not None:
        await waiting
    return output


def observers(handlers: Sequence[BaseCallbackHandler]) -> list[Any]:
    """Return the handlers that observe every chunk."""
    return [handler for handler in handlers if isinstance(handler, StreamObserver)]


async def _watch(
    runnable: Runnable[Any, Any],
    start_input: object,
    open_outputs: Callable[[], AsyncGenerator[Any, None]],
    run: Run,
    ending: dict[str, Any],
) -> AsyncGenerator[Any, None]:
    total: Any = NOTHING
    stream_observers = observers(run.handlers)
    try:
        if (waiting := _begin_now(runnable, start_input, run)) is not None:
            await waiting
        async with closing(open_outputs()) as outputs:
            async for output in outputs:
                total = plus(total, output)
                for observer in stream_observers:
                    observer.on_chunk(run.id, output)
                yield output
    except GeneratorExit:
        await run.end_stream(None if total is NOTHING else total, **ending)
        raise
    except BaseException as error:
        await run.dispatch("on_chain_error", error, **ending)
        raise
    await run.dispatch("on_chain_end", None if total is NOTHING else total, **ending)


def _can_stream(runnable: Runnable[Any, Any]) -> bool:
    """Return whether the class streams; one that does not is traced as a single call, with its input at the start."""
    cls = type(runnable)
    return cls._stream_body.__module__ != _BASE or cls._transform_body.__module__ != _BASE


_BASE = "foldline.runnables.base"


async def stream(
    runnable: Runnable[Any, Any], value: object, run: Run
) -> AsyncGenerator[Any, None]:
    """Stream, and dispatch the start and the end."""
    if not _can_stream(runnable):
        yield await call(runnable, value, run)
        return
    run = run.patched()
    async with closing(
        _watch(runnable, value, lambda: runnable._stream_body(value, run), run, {})
    ) as outputs:
        async for output in outputs:
            yield output


async def transform(
    runnable: Runnable[Any, Any], inputs: AsyncGenerator[Any, None], run: Run
) -> AsyncGenerator[Any, None]:
    """Transform a stream, and dispatch the start and the end; the end has the input, which is known only then.

    The first chunk is read before the start is dispatched, so that the steps of a sequence start in order.
    """
    if not _can_stream(runnable):
        total = await add_up(inputs)
        if total is not NOTHING:
            yield await call(runnable, total, run)
        return
    run = run.patched()
    ending: dict[str, Any] = {}

    async def record_input(chunk: object) -> AsyncGenerator[Any, None]:
        while chunk is not NOTHING:
            ending["inputs"] = plus(ending.get("inputs", NOTHING), chunk)
            yield chunk
            chunk = await anext(inputs, NOTHING)

    async with closing(inputs):
        first = await anext(inputs, NOTHING)
        flow = lambda: runnable._transform_body(record_input(first), run)  # noqa: E731
        async with closing(_watch(runnable, {"input": ""}, flow, run, ending)) as outputs:
            async for output in outputs:
                yield output
