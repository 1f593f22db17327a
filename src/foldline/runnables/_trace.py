"""Tell listeners of a runnable's start and end, around its behaviour: once, for every runnable and both colours.

Every started run gets exactly one end or one error. A stream that its reader closes early ends with what it had
given so far, as in LangChain; one that is closed because a stream beside it failed has failed too.
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
    """No value yet: a stream that gave no item."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


def plus(first: Any, second: Any) -> object:  # noqa: ANN401  anything with `+`, or without
    """Add a piece to what came before; where the type has no `+` (or not this one), the newer piece stands."""
    if first is NOTHING:
        return second
    try:
        return first + second
    except TypeError:
        return second


async def one(value: object) -> AsyncGenerator[Any, None]:
    """A stream of one piece."""
    yield value


async def add_up(stream: AsyncGenerator[Any, None]) -> Any:  # noqa: ANN401  the sum of what flowed
    """Read a stream to its end and add up its pieces; NOTHING where there were none."""
    whole: Any = NOTHING
    async with closing(stream):
        async for piece in stream:
            whole = plus(whole, piece)
    return whole


def batch_inputs(inputs: object) -> Sequence[Any]:
    """Return the inputs of a batch; a text is iterable too, letter by letter, and is refused."""
    if isinstance(inputs, str | bytes | Mapping | BaseModel):
        raise UsageError(
            f"batch takes a list of inputs, not {inputs!r:.60}: write batch([...]), or invoke for one"
        )
    if hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__"):
        return cast("Sequence[Any]", inputs)
    if not isinstance(inputs, Iterable):
        raise UsageError(f"batch takes a list of inputs, not {type(inputs).__name__}")
    return list(inputs)  # a generator or a set, say


def batch_progress(
    progress: ProgressOption, total: int, runnable: Runnable[Any, Any]
) -> AbstractContextManager[Progress | None]:
    """Return what shows how far a batch is, under its runnable's name; nothing where nobody asks."""
    if progress is None or progress is False:
        return nullcontext()
    from foldline.utils.progress import show_progress  # noqa: PLC0415  few ask for it

    return show_progress(progress, total, runnable.get_name())


def runs_of(
    inputs: Sequence[Any], config: Configs, io: IO, kwargs: dict[str, Any]
) -> tuple[Callable[[int], Run], int | None]:
    """Say how to make the run of each input of a batch, when it is its turn, and how many may run at once."""
    if config is not None and not isinstance(config, Mapping):
        given: Any = config
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise UsageError(
                f"a config is a dict such as {{'tags': [...]}}, or a list of them, not {config!r:.80}"
            )
        configs = list(config)
        if len(configs) != len(inputs):
            raise UsageError(
                f"one config per input is needed: {len(inputs)} inputs, {len(configs)} configs"
            )
        limit = Run.root(io, configs[0], kwargs).max_concurrency if configs else None
        return (lambda place: Run.root(io, configs[place], kwargs)), limit
    first = Run.root(io, config, kwargs)
    if first.manager is None:
        return (lambda _: first), first.max_concurrency
    # A run id names one run: the first.
    if (config or {}).get("run_id") is not None and len(inputs) > 1:
        warnings.warn(
            "Provided run_id names one run: of a batch it is the id of the first input's run only",
            category=RuntimeWarning,
            stacklevel=3,
        )
    rest = cast(
        "RunnableConfig", {key: value for key, value in (config or {}).items() if key != "run_id"}
    )
    return (lambda place: Run.root(io, rest, kwargs) if place else first), first.max_concurrency


async def begin(runnable: Runnable[Any, Any], value: object, run: Run) -> None:
    """Tell listeners that a run starts."""
    waiting = _begin_now(runnable, value, run)
    if waiting is not None:
        await waiting


def _begin_now(runnable: Runnable[Any, Any], value: object, run: Run) -> Awaitable[None] | None:
    """Tell listeners that a run starts; return what is to be awaited where one of them takes time."""
    if run.manager is None:
        return None
    details = {"name": run.given.get("run_name") or runnable.get_name()}
    if runnable._run_type is not None:
        details["run_type"] = runnable._run_type
    return run.begin_now("on_chain_start", (runnable._serialized(), value), details)


async def call(runnable: Runnable[Any, Any], value: object, run: Run) -> Any:  # noqa: ANN401  what the runnable gives
    """Run once, told."""
    run = runnable._own_run(run)
    try:
        if (waiting := _begin_now(runnable, value, run)) is not None:
            await waiting
        output = await runnable._once(value, run)
    except BaseException as error:
        await run.dispatch("on_chain_error", error)
        raise
    if (waiting := run.dispatch_now("on_chain_end", (output,), {})) is not None:
        await waiting
    return output


def observers(handlers: Sequence[BaseCallbackHandler]) -> list[Any]:
    """Return the handlers that want to see every piece."""
    return [handler for handler in handlers if isinstance(handler, StreamObserver)]


async def _watch(
    runnable: Runnable[Any, Any],
    told: object,
    open_outputs: Callable[[], AsyncGenerator[Any, None]],
    run: Run,
    ending: dict[str, Any],
) -> AsyncGenerator[Any, None]:
    whole: Any = NOTHING
    watching = observers(run.handlers)
    try:
        if (waiting := _begin_now(runnable, told, run)) is not None:
            await waiting
        async with closing(open_outputs()) as outputs:
            async for output in outputs:
                whole = plus(whole, output)
                for observer in watching:
                    observer.on_chunk(run.id, output)
                yield output
    except GeneratorExit:
        await run.leave(None if whole is NOTHING else whole, **ending)
        raise
    except BaseException as error:
        await run.dispatch("on_chain_error", error, **ending)
        raise
    await run.dispatch("on_chain_end", None if whole is NOTHING else whole, **ending)


def _gives_pieces(runnable: Runnable[Any, Any]) -> bool:
    """Whether its class streams; one that does not is told as one call, with its input at the start."""
    cls = type(runnable)
    return cls._pieces.__module__ != _BASE or cls._flow.__module__ != _BASE


_BASE = "foldline.runnables.base"


async def stream(
    runnable: Runnable[Any, Any], value: object, run: Run
) -> AsyncGenerator[Any, None]:
    """Stream, told."""
    if not _gives_pieces(runnable):
        yield await call(runnable, value, run)
        return
    run = run.patched()
    async with closing(
        _watch(runnable, value, lambda: runnable._pieces(value, run), run, {})
    ) as outputs:
        async for output in outputs:
            yield output


async def transform(
    runnable: Runnable[Any, Any], inputs: AsyncGenerator[Any, None], run: Run
) -> AsyncGenerator[Any, None]:
    """Transform, told: the input is known only when it has been read, so the end says it.

    The first piece is read before the start is told, so that the steps of a sequence start in their order.
    """
    if not _gives_pieces(runnable):
        whole = await add_up(inputs)
        if whole is not NOTHING:
            yield await call(runnable, whole, run)
        return
    run = run.patched()
    ending: dict[str, Any] = {}

    async def note_input(piece: object) -> AsyncGenerator[Any, None]:
        while piece is not NOTHING:
            ending["inputs"] = plus(ending.get("inputs", NOTHING), piece)
            yield piece
            piece = await anext(inputs, NOTHING)

    async with closing(inputs):
        first = await anext(inputs, NOTHING)
        flow = lambda: runnable._flow(note_input(first), run)  # noqa: E731
        async with closing(_watch(runnable, {"input": ""}, flow, run, ending)) as outputs:
            async for output in outputs:
                yield output
