"""The methods of `Runnable` that build other runnables: each is a function here, and an attribute of the class.

They stand outside of the class because every class that they build derives from `Runnable`: each imports what it builds
when it is called. Three of them build what lies in layers above, and nothing else in the package imports upward: the
three arrows are named in the contract (`tool.importlinter` in pyproject.toml).
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from typing_extensions import TypeVar

from foldline._config import Configs
from foldline._io import IO
from foldline._run import CALL_KEYWORDS
from foldline.runnables._call_options import check_options

if TYPE_CHECKING:
    from typing import Unpack

    from pydantic import BaseModel

    from foldline._config import RunnableConfig
    from foldline._streams.stream import AsyncChatModelStream, ChatModelStream
    from foldline.batches import BatchJob, BatchOptions
    from foldline.messages import AIMessage
    from foldline.runnables.base import Runnable
    from foldline.runnables.fallbacks import RunnableWithFallbacks
    from foldline.runnables.graph import Graph
    from foldline.runnables.retry import ExponentialJitterParams
    from foldline.runnables.schema import EventsVersion, StreamEvent
    from foldline.runnables.sequence import RunnableSequence
    from foldline.runnables.utils import AnyConfigurableField, ConfigurableField
    from foldline.tracers.log_stream import RunLogPatch
    from foldline.tracers.root_listeners import AsyncListener, Listener

In = TypeVar("In")
Out = TypeVar("Out")
Piece = TypeVar("Piece")
Other = TypeVar("Other")
OtherPiece = TypeVar("OtherPiece")


# -- sequences


@overload
def or_(
    self: Runnable[In, Out], other: Runnable[Out, Other, OtherPiece]
) -> RunnableSequence[In, Other, OtherPiece]: ...
@overload
def or_(
    self: Runnable[In, Out], other: Mapping[str, Any]
) -> RunnableSequence[In, dict[str, Any]]: ...
@overload
def or_(
    self: Runnable[In, Out], other: Callable[[Out], Coroutine[Any, Any, Other]]
) -> RunnableSequence[In, Other]: ...
@overload
def or_(self: Runnable[In, Out], other: Callable[[Out], Other]) -> RunnableSequence[In, Other]: ...
@overload
def or_(self: Runnable[In, Out], other: Callable[..., Any]) -> RunnableSequence[In, Any]: ...
def or_(self: Runnable[In, Out], other: object) -> RunnableSequence[In, Any]:
    """Run this, then the other: a runnable, a function, or a dict of them."""
    return self.pipe(other)


@overload
def ror_(
    self: Runnable[In, Out, Piece], other: Mapping[str, Any]
) -> RunnableSequence[Any, Out, Piece]: ...
@overload
def ror_(
    self: Runnable[In, Out, Piece], other: Callable[[Other], Any]
) -> RunnableSequence[Other, Out, Piece]: ...
def ror_(self: Runnable[In, Out, Piece], other: object) -> RunnableSequence[Any, Out, Piece]:
    """Run the other (a function, or a dict of branches), then this."""
    from foldline.runnables.sequence import sequence_of

    return sequence_of([other, self])


@overload
def pipe(
    self: Runnable[In, Out],
    other: Runnable[Out, Other, OtherPiece],
    /,
    *,
    name: str | None = None,
) -> RunnableSequence[In, Other, OtherPiece]: ...
@overload
def pipe(
    self: Runnable[In, Out], *others: object, name: str | None = None
) -> RunnableSequence[In, Any]: ...
def pipe(
    self: Runnable[In, Out], *others: object, name: str | None = None
) -> RunnableSequence[In, Any]:
    """Run this, then the others in turn."""
    from foldline.runnables.sequence import sequence_of

    return sequence_of([self, *others], name=name)


# -- bindings


def bind(self: Runnable[In, Out, Piece], **kwargs: object) -> Runnable[In, Out, Piece]:
    """Return a runnable that is always called with these keyword arguments too."""
    from foldline.runnables.binding import RunnableBinding

    check_options(self, kwargs, *CALL_KEYWORDS)
    return RunnableBinding(bound=self, kwargs=kwargs)


def with_config(
    self: Runnable[In, Out, Piece], config: RunnableConfig | None = None, **kwargs: object
) -> Runnable[In, Out, Piece]:
    """Return a runnable with a config that each call's config is merged over."""
    from foldline.runnables.binding import RunnableBinding

    bound_config = cast("RunnableConfig", {**(config or {}), **kwargs})
    return RunnableBinding(bound=self, config=bound_config)


def with_types(
    self: Runnable[In, Out, Piece], *, input_type: object = None, output_type: object = None
) -> Runnable[In, Out, Piece]:
    """Set the types of input and output, if they cannot be inferred."""
    from foldline.runnables.binding import RunnableBinding

    return RunnableBinding(bound=self, custom_input_type=input_type, custom_output_type=output_type)


# -- lists and dicts


def map(self: Runnable[In, Out]) -> Runnable[Sequence[In], list[Out]]:
    """Return a runnable that runs this for each item of a list."""
    from foldline.runnables.each import RunnableEach

    return RunnableEach(bound=self)


def pick(self: Runnable[In, Out], keys: str | list[str]) -> RunnableSequence[In, Any]:
    """Pick keys from this runnable's output dict: the value of one, or a smaller dict."""
    from foldline.runnables.passthrough import RunnablePick

    return self.pipe(RunnablePick(keys))


def assign(
    self: Runnable[In, Out],
    **kwargs: Runnable[dict[str, Any], Any] | Callable[..., Any] | Mapping[str, Any],
) -> RunnableSequence[In, dict[str, Any]]:
    """Add keys to this runnable's output dict, each computed by a runnable from that dict."""
    from foldline.runnables.parallel import RunnableParallel
    from foldline.runnables.passthrough import RunnableAssign

    return self.pipe(RunnableAssign(RunnableParallel(kwargs)))


# -- events and logs


@overload
def astream_events(
    self: Runnable[In, Out, Piece],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: Literal["v1", "v2"] = "v2",
    **kwargs: object,
) -> AsyncGenerator[StreamEvent, None]: ...
@overload
def astream_events(
    self: Runnable[In, AIMessage, Piece],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: Literal["v3"],
    **kwargs: object,
) -> Coroutine[Any, Any, AsyncChatModelStream]: ...
def astream_events(
    self: Runnable[In, Out, Piece],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: EventsVersion = "v2",
    **kwargs: object,
) -> object:
    """Return the events of this run and of the runs inside it (filters `include_*`, `exclude_*`).

    With `version="v3"`: the events of a chat model's answer, as `astream_v2` returns them.
    """
    from foldline.tracers.event_stream import astream_events

    return astream_events(self, input, config, version=version, **kwargs)


@overload
def stream_events(
    self: Runnable[In, Out, Piece],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: Literal["v1", "v2"] = "v2",
    **kwargs: object,
) -> Iterator[StreamEvent]: ...
@overload
def stream_events(
    self: Runnable[In, AIMessage, Piece],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: Literal["v3"],
    **kwargs: object,
) -> ChatModelStream: ...
def stream_events(
    self: Runnable[In, Out, Piece],
    input: object,
    config: RunnableConfig | None = None,
    *,
    version: EventsVersion = "v2",
    **kwargs: object,
) -> object:
    """Return the events of this run and of the runs inside it (filters `include_*`, `exclude_*`).

    With `version="v3"`: the events of a chat model's answer, as `stream_v2` returns them.
    """
    from foldline.tracers.event_stream import stream_events

    return stream_events(self, input, config, version=version, **kwargs)


def astream_log(
    self: Runnable[In, Out],
    input: object,
    config: RunnableConfig | None = None,
    **kwargs: Any,
) -> AsyncGenerator[RunLogPatch, None]:
    """Return the log of a run and of those inside it as patches, or with `diff=False` as it grows."""
    from foldline.tracers.log_stream import astream_log

    return astream_log(self, input, config, **kwargs)


# -- failures


def with_retry(
    self: Runnable[In, Out, Piece],
    *,
    retry_if_exception_type: tuple[type[BaseException], ...] | Callable[[BaseException], bool] = (
        Exception,
    ),
    wait_exponential_jitter: bool = True,
    exponential_jitter_params: ExponentialJitterParams | None = None,
    stop_after_attempt: int = 3,
) -> Runnable[In, Out, Piece]:
    """Retry when this fails, `stop_after_attempt` attempts in all."""
    from foldline.runnables.retry import RunnableRetry

    return RunnableRetry(
        bound=self,
        retry_exception_types=retry_if_exception_type,
        wait_exponential_jitter=wait_exponential_jitter,
        exponential_jitter_params=exponential_jitter_params,
        max_attempt_number=stop_after_attempt,
    )


def with_fallbacks(
    self: Runnable[In, Out, Piece],
    fallbacks: Sequence[Runnable[In, Out, Piece]],
    *,
    exceptions_to_handle: tuple[type[BaseException], ...] = (Exception,),
    exception_key: str | None = None,
) -> RunnableWithFallbacks[In, Out, Piece]:
    """Run the fallbacks in order until one succeeds, when this fails."""
    from foldline.runnables.fallbacks import RunnableWithFallbacks

    return RunnableWithFallbacks(
        runnable=self,
        fallbacks=list(fallbacks),
        exceptions_to_handle=exceptions_to_handle,
        exception_key=exception_key,
    )


# -- listeners


def with_listeners(
    self: Runnable[In, Out, Piece],
    *,
    on_start: Listener | None = None,
    on_end: Listener | None = None,
    on_error: Listener | None = None,
) -> Runnable[In, Out, Piece]:
    """Call functions with the traced run when it starts, ends or fails."""
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
    self: Runnable[In, Out, Piece],
    *,
    on_start: AsyncListener | None = None,
    on_end: AsyncListener | None = None,
    on_error: AsyncListener | None = None,
) -> Runnable[In, Out, Piece]:
    """Await functions with the traced run when it starts, ends or fails."""
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
    self: Runnable[In, Out, Piece], **kwargs: AnyConfigurableField
) -> Runnable[In, Out, Piece]:
    """Make settings configurable through `config["configurable"]`."""
    from foldline.runnables.configurable import RunnableConfigurableFields

    return RunnableConfigurableFields(default=self, fields=kwargs)


def configurable_alternatives(
    self: Runnable[In, Out, Piece],
    which: ConfigurableField,
    *,
    default_key: str = "default",
    prefix_keys: bool = False,
    **kwargs: Runnable[In, Out, Piece] | Callable[[], Runnable[In, Out, Piece]],
) -> Runnable[In, Out, Piece]:
    """Make other runnables available in place of this one through `config["configurable"]`."""
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
    self: Runnable[In, Out],
    args_schema: type[BaseModel] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    arg_types: dict[str, type] | None = None,
) -> Any:  # noqa: ANN401  a tool, a class of a layer above
    """Return a tool that a model may call."""
    from foldline.tools.convert import convert_runnable_to_tool

    return convert_runnable_to_tool(
        self, args_schema, name=name, description=description, arg_types=arg_types
    )


def get_graph(self: Runnable[In, Out], config: RunnableConfig | None = None) -> Graph:
    """Return the graph of this runnable: its parts and the edges between them."""
    from foldline.runnables._graph_of import graph_of

    return graph_of(self, config)


# -- batch jobs


def batch_job(
    self: Runnable[In, Out], inputs: object = None, **options: Unpack[BatchOptions]
) -> BatchJob:
    """Return a job that runs each input once, live or in the provider's batches, and stores the results.

    `inputs` is any iterable, or the path of a .jsonl, .csv or .parquet file; None continues the job in the store.
    """
    from foldline.batches import BatchJob

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
