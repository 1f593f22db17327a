"""The methods of `Runnable` that build other runnables, as functions that `Runnable` calls.

This is the only file that imports from layers above, with local imports.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from foldline._config import Configs
from foldline._io import IO
from foldline._run import CALL_KEYWORDS
from foldline.utils.suggest import checked_names, warn_of_typo

if TYPE_CHECKING:
    from typing import Unpack

    from pydantic import BaseModel

    from foldline._config import RunnableConfig
    from foldline._streams.stream import (
        AsyncChatModelStream as AsyncChatModelStream,
        ChatModelStream as ChatModelStream,
    )
    from foldline.batches.job import BatchJob as BatchJob
    from foldline.batches.options import BatchOptions as BatchOptions
    from foldline.runnables.base import Runnable
    from foldline.runnables.fallbacks import RunnableWithFallbacks
    from foldline.runnables.graph import Graph
    from foldline.runnables.retry import ExponentialJitterParams
    from foldline.runnables.sequence import RunnableSequence
    from foldline.runnables.utils import AnyConfigurableField, ConfigurableField
    from foldline.tracers.log_stream import RunLogPatch
    from foldline.tracers.root_listeners import AsyncListener, Listener

Input = TypeVar("Input")
Output = TypeVar("Output")
Chunk = TypeVar("Chunk")
Other = TypeVar("Other")
EventsVersion = Literal["v1", "v2", "v3"]


# -- options of a call


def check_options(runnable: Runnable[Any, Any], names: Iterable[str], *others: str) -> None:
    """Warn once of each option that resembles a known one, of this runnable or of `others`."""
    owner = type(runnable).__name__
    for name in names:
        if (owner, name) in checked_names:
            continue
        if runnable._accepts_option(name):
            checked_names.add((owner, name))
        else:
            known = (*runnable._option_names(), *others)
            warn_of_typo(owner, name, known, "it is passed on as given")


# -- sequences


def or_(self: Runnable[Input, Output], other: object) -> RunnableSequence[Input, Any]:
    return self.pipe(other)


def ror_(
    self: Runnable[Input, Output, Chunk], other: object
) -> RunnableSequence[Any, Output, Chunk]:
    from foldline.runnables.sequence import sequence_of

    return sequence_of([other, self])


def pipe(
    self: Runnable[Input, Output], *others: object, name: str | None = None
) -> RunnableSequence[Input, Any]:
    from foldline.runnables.sequence import sequence_of

    return sequence_of([self, *others], name=name)


# -- bindings


def bind(self: Runnable[Input, Output, Chunk], **kwargs: object) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.binding import RunnableBinding

    check_options(self, kwargs, *CALL_KEYWORDS)
    return RunnableBinding(bound=self, kwargs=kwargs)


def with_config(
    self: Runnable[Input, Output, Chunk], config: RunnableConfig | None = None, **kwargs: object
) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.binding import RunnableBinding

    bound_config = cast("RunnableConfig", {**(config or {}), **kwargs})
    return RunnableBinding(bound=self, config=bound_config)


def with_types(
    self: Runnable[Input, Output, Chunk], *, input_type: object = None, output_type: object = None
) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.binding import RunnableBinding

    return RunnableBinding(bound=self, custom_input_type=input_type, custom_output_type=output_type)


# -- lists and dicts


def map_(self: Runnable[Input, Output]) -> Runnable[Sequence[Input], list[Output]]:
    from foldline.runnables.each import RunnableEach

    return RunnableEach(bound=self)


def pick(self: Runnable[Input, Output], keys: str | list[str]) -> RunnableSequence[Input, Any]:
    from foldline.runnables.passthrough import RunnablePick

    return self.pipe(RunnablePick(keys))


def assign(
    self: Runnable[Input, Output],
    **kwargs: Runnable[dict[str, Any], Any] | Callable[..., Any] | Mapping[str, Any],
) -> RunnableSequence[Input, dict[str, Any]]:
    from foldline.runnables.parallel import RunnableParallel
    from foldline.runnables.passthrough import RunnableAssign

    return self.pipe(RunnableAssign(RunnableParallel(kwargs)))


# -- events and logs


def astream_events(
    self: Runnable[Input, Output],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: EventsVersion = "v2",
    **kwargs: object,
) -> Any:  # noqa: ANN401  events; with version "v3" a chat model's stream, which is of a layer above
    """Return the events of this run and of the runs inside it (filters `include_*`, `exclude_*`)."""
    from foldline.tracers.event_stream import astream_events

    return astream_events(self, input, config, version=version, **kwargs)


def stream_events(
    self: Runnable[Input, Output],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: EventsVersion = "v2",
    **kwargs: object,
) -> Any:  # noqa: ANN401  events; with version "v3" a chat model's stream, which is of a layer above
    """Return the events of this run and of the runs inside it (filters `include_*`, `exclude_*`)."""
    from foldline.tracers.event_stream import stream_events

    return stream_events(self, input, config, version=version, **kwargs)


def astream_log(
    self: Runnable[Input, Output],
    input: object,
    config: RunnableConfig | None = None,
    **kwargs: Any,
) -> AsyncGenerator[RunLogPatch, None]:
    from foldline.tracers.log_stream import astream_log

    return astream_log(self, input, config, **kwargs)


# -- failures


def with_retry(
    self: Runnable[Input, Output, Chunk],
    *,
    retry_if_exception_type: tuple[type[BaseException], ...] | Callable[[BaseException], bool] = (
        Exception,
    ),
    wait_exponential_jitter: bool = True,
    exponential_jitter_params: ExponentialJitterParams | None = None,
    stop_after_attempt: int = 3,
) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.retry import RunnableRetry

    return RunnableRetry(
        bound=self,
        retry_exception_types=retry_if_exception_type,
        wait_exponential_jitter=wait_exponential_jitter,
        exponential_jitter_params=exponential_jitter_params,
        max_attempt_number=stop_after_attempt,
    )


def with_fallbacks(
    self: Runnable[Input, Output, Chunk],
    fallbacks: Sequence[Runnable[Input, Output, Chunk]],
    *,
    exceptions_to_handle: tuple[type[BaseException], ...] = (Exception,),
    exception_key: str | None = None,
) -> RunnableWithFallbacks[Input, Output, Chunk]:
    from foldline.runnables.fallbacks import RunnableWithFallbacks

    return RunnableWithFallbacks(
        runnable=self,
        fallbacks=list(fallbacks),
        exceptions_to_handle=exceptions_to_handle,
        exception_key=exception_key,
    )


# -- listeners


def with_listeners(
    self: Runnable[Input, Output, Chunk],
    *,
    on_start: Listener | None = None,
    on_end: Listener | None = None,
    on_error: Listener | None = None,
) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.binding import RunnableBinding
    from foldline.tracers.root_listeners import RootListenersTracer

    def add_tracer(config: RunnableConfig) -> RunnableConfig:
        return {
            "callbacks": [
                RootListenersTracer(
                    config=config, on_start=on_start, on_end=on_end, on_error=on_error
                )
            ]
        }

    return RunnableBinding(bound=self, config_factories=[add_tracer])


def with_alisteners(
    self: Runnable[Input, Output, Chunk],
    *,
    on_start: AsyncListener | None = None,
    on_end: AsyncListener | None = None,
    on_error: AsyncListener | None = None,
) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.binding import RunnableBinding
    from foldline.tracers.root_listeners import AsyncRootListenersTracer

    def add_tracer(config: RunnableConfig) -> RunnableConfig:
        return {
            "callbacks": [
                AsyncRootListenersTracer(
                    config=config, on_start=on_start, on_end=on_end, on_error=on_error
                )
            ]
        }

    return RunnableBinding(bound=self, config_factories=[add_tracer])


# -- configurable by each call


def configurable_fields(
    self: Runnable[Input, Output, Chunk], **kwargs: AnyConfigurableField
) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.configurable import RunnableConfigurableFields

    return RunnableConfigurableFields(default=self, fields=kwargs)


def configurable_alternatives(
    self: Runnable[Input, Output, Chunk],
    which: ConfigurableField,
    *,
    default_key: str = "default",
    prefix_keys: bool = False,
    **kwargs: Runnable[Input, Output, Chunk] | Callable[[], Runnable[Input, Output, Chunk]],
) -> Runnable[Input, Output, Chunk]:
    from foldline.runnables.configurable import RunnableConfigurableAlternatives

    return RunnableConfigurableAlternatives(
        default=self,
        which=which,
        alternatives=kwargs,
        default_key=default_key,
        prefix_keys=prefix_keys,
    )


# -- conversions


def as_tool(
    self: Runnable[Input, Output],
    args_schema: type[BaseModel] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    arg_types: dict[str, type] | None = None,
) -> Any:  # noqa: ANN401  a tool, which is of a layer above
    from foldline.tools.convert import convert_runnable_to_tool

    return convert_runnable_to_tool(
        self, args_schema, name=name, description=description, arg_types=arg_types
    )


def get_graph(self: Runnable[Input, Output], config: RunnableConfig | None = None) -> Graph:
    from foldline.runnables._graph_of import graph_of

    return graph_of(self, config)


# -- batch jobs


def batch_job(
    self: Runnable[Input, Output], inputs: object = None, **options: Unpack[BatchOptions]
) -> BatchJob:
    """Return a job that runs each input once, live or in the provider's batches, and stores the results.

    `inputs` is any iterable, or the path of a .jsonl, .csv or .parquet file; None continues the job in the store.
    """
    from foldline.batches.job import BatchJob as BatchJob

    return BatchJob(self, inputs, **options)


async def batch_on(
    self: Runnable[Any, Any],
    inputs: Sequence[Any],
    config: Configs,
    io: IO,
    kwargs: dict[str, Any],
    *,
    keep_errors: bool,
) -> list[Any]:
    """Run each input on the `executor` passed to `batch`; the other arguments are bound."""
    from foldline.batches.executor_batch import batch_on as run

    arguments = {
        name: value for name, value in kwargs.items() if name not in ("executor", "secrets")
    }
    limit = config.get("max_concurrency") if isinstance(config, Mapping) else None
    return await run(
        self.bind(**arguments) if arguments else self,
        inputs,
        kwargs["executor"],
        io,
        secrets=kwargs.get("secrets"),
        limit=limit,
        keep_errors=keep_errors,
    )


# -- LangChain's helpers for authors who override `invoke` or `transform`


def _call_with_config(
    self: Runnable[Any, Any],
    func: Callable[..., Any],
    input_: object,
    config: RunnableConfig | None,
    run_type: str | None = None,
    serialized: dict[str, Any] | None = None,
    **kwargs: object,
) -> object:
    """Call a function as the traced run of this runnable."""
    return _as_lambda(self, func).invoke(input_, config, **kwargs)


async def _acall_with_config(
    self: Runnable[Any, Any],
    func: Callable[..., Any],
    input_: object,
    config: RunnableConfig | None,
    run_type: str | None = None,
    serialized: dict[str, Any] | None = None,
    **kwargs: object,
) -> object:
    """Call a function as the traced run of this runnable."""
    return await _as_lambda(self, func).ainvoke(input_, config, **kwargs)


def _transform_stream_with_config(
    self: Runnable[Any, Any],
    inputs: Iterator[Any],
    transformer: Callable[..., Any],
    config: RunnableConfig | None,
    run_type: str | None = None,
    **kwargs: object,
) -> Iterator[Any]:
    """Transform a stream as the traced run of this runnable."""
    outputs: Iterator[Any] = _as_generator(self, transformer).transform(inputs, config, **kwargs)
    return outputs


def _atransform_stream_with_config(
    self: Runnable[Any, Any],
    inputs: AsyncIterator[Any],
    transformer: Callable[..., Any],
    config: RunnableConfig | None,
    run_type: str | None = None,
    **kwargs: object,
) -> AsyncIterator[Any]:
    """Transform a stream as the traced run of this runnable."""
    outputs: AsyncIterator[Any] = _as_generator(self, transformer).atransform(
        inputs, config, **kwargs
    )
    return outputs


def _as_lambda(runnable: Runnable[Any, Any], func: Callable[..., Any]) -> Runnable[Any, Any]:
    from foldline.runnables.lambda_ import RunnableLambda

    return RunnableLambda(func, name=runnable.get_name())


def _as_generator(
    runnable: Runnable[Any, Any], transformer: Callable[..., Any]
) -> Runnable[Any, Any]:
    from foldline.runnables.generator import RunnableGenerator

    return RunnableGenerator(transformer, name=runnable.get_name())
