"""`Runnable`: a unit of work that can be invoked, batched, streamed and composed. Nothing else is in this file.

Three kinds of method, so that each behaviour is written once:

- *behaviours*, which a subclass overrides: `_invoke_body` (one output), `_stream_body` (chunks), `_transform_body`
  (stream to stream). Each is an async body that waits only through `run.io`.
- *traced* behaviours (`…_traced`), which dispatch the start and the end to listeners. A runnable that only forwards a
  call (a binding) overrides these instead.
- *steps* (`_step…`), which a parent calls on its children: the traced behaviour, or the overridden `invoke` of a
  class written for LangChain (see `_legacy`).

The public sync and async methods contain no logic.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, cast, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from foldline import _io, _run
from foldline._config import Configs, RunnableConfig
from foldline._io import IO
from foldline._io.drive import drive, drive_each
from foldline._lazy import forward_names
from foldline._run import CALL_KEYWORDS, Kind, Run
from foldline._traceback import closing, cut_traceback
from foldline.exceptions import UnsupportedError
from foldline.runnables import _executor, _stream_call, _trace, _types, _with_config
from foldline.runnables._call_options import check_options
from foldline.runnables._legacy import NO_OVERRIDES, bind_overrides
from foldline.runnables._stream_call import EventStream, StreamCall
from foldline.utils._short_repr import short_repr

if TYPE_CHECKING:
    from typing import Unpack

    from foldline._streams.stream import AsyncChatModelStream, ChatModelStream
    from foldline.batches import BatchJob, BatchOptions
    from foldline.messages import AIMessage
    from foldline.runnables.fallbacks import RunnableWithFallbacks
    from foldline.runnables.graph import Graph
    from foldline.runnables.retry import ExponentialJitterParams
    from foldline.runnables.schema import EventsVersion, StreamEvent
    from foldline.runnables.sequence import RunnableSequence
    from foldline.runnables.utils import AnyConfigurableField, ConfigurableField
    from foldline.tracers.log_stream import RunLogPatch
    from foldline.tracers.root_listeners import AsyncListener, Listener
    from foldline.utils.progress import ProgressOption

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
if TYPE_CHECKING:
    Chunk = TypeVar("Chunk", covariant=True, default=Output)
    """The type of what a stream yields: that of the output, unless a class names another."""
else:  # Python 3.13 would make each subclass of `Runnable[A, B]` generic in `Output`
    Chunk = TypeVar("Chunk", covariant=True, default=Any)
In = TypeVar("In")
Out = TypeVar("Out")
Piece = TypeVar("Piece")
Other = TypeVar("Other")
OtherPiece = TypeVar("OtherPiece")


class Runnable(ABC, Generic[Input, Output, Chunk]):
    """A unit of work that can be invoked, batched, streamed, transformed and composed.

    ```python
    from foldline.runnables import RunnableLambda

    add = RunnableLambda(lambda x: x + 1)
    double = RunnableLambda(lambda x: x * 2)
    print((add | double).invoke(1))
    #> 4
    ```
    """

    __repr__ = short_repr

    if TYPE_CHECKING:  # Pydantic would read the annotation again for every subclass
        name: str | None
        """The name of this runnable in traces; unset in subclasses that have none."""

    _kind: ClassVar[Kind] = "chain"
    _run_type: ClassVar[str | None] = None
    """The run type in traces, if it is not a plain chain: `prompt`, `parser`."""

    # The overridden methods that steps call: see `_legacy`. Not annotated: Pydantic would read it for every class.
    _invoke_overrides = NO_OVERRIDES
    _stream_overrides = NO_OVERRIDES
    _transform_overrides = NO_OVERRIDES
    _has_patched_batch = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        bind_overrides(cls)

    # -- behaviours: a subclass overrides one or more of these

    async def _invoke_body(self, input: Input, run: Run) -> object:
        raise NotImplementedError(
            f"{type(self).__name__} implements neither `_invoke_body` nor `invoke`: write one of them"
        )

    async def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        yield await self._invoke_body(input, run)

    async def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        total = await _trace.add_up(inputs)
        if total is _trace.NOTHING:
            return
        async with closing(self._stream_body(total, run)) as outputs:
            async for output in outputs:
                yield output

    # -- the same, with listeners

    async def _invoke_traced(self, input: Input, run: Run) -> Any:  # noqa: ANN401  type-erased: the output of any behaviour
        if run.manager is None:
            return await self._invoke_body(input, run)
        return await _trace.call(self, input, run)

    def _stream_traced(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        if run.manager is None:
            return self._stream_body(input, run)
        return _trace.stream(self, input, run)

    def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        if run.manager is None:
            return self._transform_body(inputs, run)
        return _trace.transform(self, inputs, run)

    # -- what a parent calls; `bind_overrides` replaces these in classes that override the public methods

    _step = _invoke_traced
    _step_stream = _stream_traced
    _step_transform = _transform_traced

    # -- single calls

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """Run once."""
        output: Output = drive(
            self._invoke_traced(input, _run.Run.root(_io.BLOCKING, config, kwargs))
        )
        return output

    async def ainvoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        """Run once."""
        try:
            output: Output = await self._invoke_traced(
                input, _run.Run.root(_io.ASYNC, config, kwargs)
            )
        except Exception as error:
            cut_traceback(error)
            raise
        return output

    # -- batches

    async def _run_each(
        self,
        inputs: Sequence[Any],
        config: Configs,
        io: IO,
        kwargs: dict[str, Any],
        *,
        keep_errors: bool,
        progress: ProgressOption = None,
    ) -> list[Any]:
        inputs = _trace.batch_inputs(inputs)
        if kwargs.get("executor") is not None:
            return await _executor.batch_on(
                self, inputs, config, io, kwargs, keep_errors=keep_errors
            )
        results: list[Any] = [None] * len(inputs)
        with _trace.batch_progress(progress, len(inputs), self) as progress_bar:
            async with closing(
                self._as_completed(inputs, config, io, kwargs, keep_errors=keep_errors)
            ) as completed:
                async for index, result in completed:
                    results[index] = result
                    if progress_bar is not None:
                        progress_bar.advance()
        return results

    async def _as_completed(
        self,
        inputs: Sequence[Any],
        config: Configs,
        io: IO,
        kwargs: dict[str, Any],
        *,
        keep_errors: bool,
    ) -> AsyncGenerator[tuple[int, Any], None]:
        inputs = _trace.batch_inputs(inputs)
        run_of, limit = _trace.runs_of(inputs, config, io, kwargs)
        outcomes = io.as_completed(
            lambda index: self._step(inputs[index], run_of(index)), range(len(inputs)), limit=limit
        )
        async with closing(outcomes):
            async for index, value, error in outcomes:
                if error is not None and not (keep_errors and isinstance(error, Exception)):
                    raise error
                yield index, value if error is None else error

    @overload
    def batch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: Literal[False] = False,
        progress: ProgressOption = None,
        **kwargs: Any,
    ) -> list[Output]: ...
    @overload
    def batch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: bool,
        progress: ProgressOption = None,
        **kwargs: Any,
    ) -> list[Output | Exception]: ...
    def batch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        progress: ProgressOption = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Run each input, at most `max_concurrency` at once, in threads; return the results in the order of the inputs.

        `executor=` runs them in processes or machines: any of `concurrent.futures`, or `foldline.batches.RayExecutor`.
        `progress` shows how many are done: True, or a function of (done, total).
        """
        return drive(
            self._run_each(
                inputs,
                config,
                _io.BLOCKING,
                kwargs,
                keep_errors=return_exceptions,
                progress=progress,
            )
        )

    @overload
    async def abatch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: Literal[False] = False,
        progress: ProgressOption = None,
        **kwargs: Any,
    ) -> list[Output]: ...
    @overload
    async def abatch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: bool,
        progress: ProgressOption = None,
        **kwargs: Any,
    ) -> list[Output | Exception]: ...
    async def abatch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        progress: ProgressOption = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Run each input, at most `max_concurrency` at once, in tasks; return the results in the order of the inputs.

        `progress` shows how many are done: True, or a function of (done, total).
        """
        try:
            return await self._run_each(
                inputs, config, _io.ASYNC, kwargs, keep_errors=return_exceptions, progress=progress
            )
        except Exception as error:
            cut_traceback(error)
            raise

    @overload
    def batch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: Literal[False] = False,
        **kwargs: object,
    ) -> Iterator[tuple[int, Output]]: ...
    @overload
    def batch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: bool,
        **kwargs: object,
    ) -> Iterator[tuple[int, Output | Exception]]: ...
    def batch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: object,
    ) -> Iterator[tuple[int, Any]]:
        """Run each input; yield (index, result) pairs as they complete."""
        return drive_each(
            self._as_completed(inputs, config, _io.BLOCKING, kwargs, keep_errors=return_exceptions)
        )

    @overload
    def abatch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: Literal[False] = False,
        **kwargs: object,
    ) -> AsyncIterator[tuple[int, Output]]: ...
    @overload
    def abatch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: bool,
        **kwargs: object,
    ) -> AsyncIterator[tuple[int, Output | Exception]]: ...
    def abatch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: object,
    ) -> AsyncIterator[tuple[int, Any]]:
        """Run each input; yield (index, result) pairs as they complete."""
        return self._as_completed(inputs, config, _io.ASYNC, kwargs, keep_errors=return_exceptions)

    # -- streams

    def stream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Chunk]:
        """Run once; yield the output in chunks."""
        return drive_each(self._stream_traced(input, _run.Run.blocking(config, kwargs)))

    def astream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Chunk, None]:
        """Run once; yield the output in chunks."""
        return self._stream_traced(input, _run.Run.asynchronous(config, kwargs))

    def transform(
        self, input: Iterable[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Chunk]:
        """Turn a stream of inputs into a stream of outputs."""
        run = _run.Run.blocking(config, kwargs)
        return drive_each(self._transform_traced(run.io.each(input), run))

    def atransform(
        self,
        input: AsyncIterator[Input] | Iterable[Input],
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Chunk, None]:
        """Turn a stream of inputs into a stream of outputs."""
        run = _run.Run.asynchronous(config, kwargs)
        return self._transform_traced(run.io.each(input), run)

    # -- the event stream of a model

    def stream_v2(
        self: Runnable[In, AIMessage, Piece],
        input: In,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> ChatModelStream:
        """Return the answer of a chat model as a stream of content-block events; nothing runs before it is read."""
        return self._open_stream_v2(  # type: ignore[return-value]  # the class of that protocol
            _stream_call.StreamCall(input, _run.Run.blocking(config, kwargs))
        )

    async def astream_v2(
        self: Runnable[In, AIMessage, Piece],
        input: In,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncChatModelStream:
        """Return the answer of a chat model as a stream of content-block events; nothing runs before it is read."""
        return self._open_stream_v2(  # type: ignore[return-value]  # the class of that protocol
            _stream_call.StreamCall(input, _run.Run.asynchronous(config, kwargs))
        )

    def _open_stream_v2(self, call: StreamCall) -> EventStream:
        raise UnsupportedError(
            f"{self.get_name()} has no stream of message events: `stream_v2` (version v3) is for a chat model or a "
            "sequence that ends in one. Use `stream`, or `astream_events` to see the models inside"
        )

    def _own_run(self, run: Run) -> Run:
        """Return the run for listeners: not yet started, with the config of the constructor."""
        return run.patched()

    def _serialized(self) -> dict[str, Any] | None:
        """Return the description of this runnable for `on_*_start`."""
        return None

    # -- types and schemas

    @property
    def InputType(self) -> object:
        """The type of the input."""
        return _types.input_type(self)

    @property
    def OutputType(self) -> object:
        """The type of the output."""
        return _types.output_type(self)

    @property
    def input_schema(self) -> type[BaseModel]:
        """The input as a Pydantic model."""
        return self.get_input_schema()

    @property
    def output_schema(self) -> type[BaseModel]:
        """The output as a Pydantic model."""
        return self.get_output_schema()

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input as a Pydantic model."""
        return _types.value_model(self.get_name("Input"), self.InputType)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output as a Pydantic model."""
        return _types.value_model(self.get_name("Output"), self.OutputType)

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the JSON schema of the input."""
        return self.get_input_schema(config).model_json_schema()

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the JSON schema of the output."""
        return self.get_output_schema(config).model_json_schema()

    def _schema_before(
        self, following: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        """Return the input schema of a sequence that begins with this; `following` is that of the steps after it."""
        return self.get_input_schema(config)

    def _schema_after(
        self, previous: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        """Return the output schema of a sequence that ends with this; `previous` is that of the steps before it."""
        return self.get_output_schema(config)

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of this runnable and its parts."""
        return []

    def config_schema(self, *, include: Sequence[str] | None = None) -> type[BaseModel]:
        """Return the config of this runnable as a Pydantic model: configurable fields, and the keys in `include`."""
        return _types.config_model(self.get_name("Config"), self.config_specs, include)

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the JSON schema of the config this runnable accepts."""
        return self.config_schema(include=include).model_json_schema()

    def get_prompts(self, config: RunnableConfig | None = None) -> list[Any]:
        """Return the prompts among the parts of this runnable."""
        return _types.prompts_of(self.get_graph(config))

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces and schemas."""
        if name is None:
            name = getattr(self, "name", None) or type(self).__name__.split("[")[0]
        if not suffix:
            return name
        return name + suffix.title() if name[0].isupper() else f"{name}_{suffix.lower()}"

    def _option_names(self) -> Iterable[str]:
        """Return the names of the options of a call that may be suggested for a mistyped one."""
        return ()

    def _accepts_option(self, name: str) -> bool:
        """Return whether an option is known although it resembles another."""
        return False

    # -- methods that build other runnables: each imports what it builds, a class derived from this one

    @overload
    def __or__(
        self: Runnable[In, Out], other: Runnable[Out, Other, OtherPiece]
    ) -> RunnableSequence[In, Other, OtherPiece]: ...
    @overload
    def __or__(
        self: Runnable[In, Out], other: Mapping[str, Any]
    ) -> RunnableSequence[In, dict[str, Any]]: ...
    @overload
    def __or__(
        self: Runnable[In, Out], other: Callable[[Out], Coroutine[Any, Any, Other]]
    ) -> RunnableSequence[In, Other]: ...
    @overload
    def __or__(
        self: Runnable[In, Out], other: Callable[[Out], Other]
    ) -> RunnableSequence[In, Other]: ...
    @overload
    def __or__(self: Runnable[In, Out], other: Callable[..., Any]) -> RunnableSequence[In, Any]: ...
    def __or__(self: Runnable[In, Out], other: object) -> RunnableSequence[In, Any]:
        """Run this, then the other: a runnable, a function, or a dict of them."""
        return self.pipe(other)

    @overload
    def __ror__(
        self: Runnable[In, Out, Piece], other: Mapping[str, Any]
    ) -> RunnableSequence[Any, Out, Piece]: ...
    @overload
    def __ror__(
        self: Runnable[In, Out, Piece], other: Callable[[Other], Any]
    ) -> RunnableSequence[Other, Out, Piece]: ...
    def __ror__(self: Runnable[In, Out, Piece], other: object) -> RunnableSequence[Any, Out, Piece]:
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

        return RunnableBinding(
            bound=self, custom_input_type=input_type, custom_output_type=output_type
        )

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

    def with_retry(
        self: Runnable[In, Out, Piece],
        *,
        retry_if_exception_type: tuple[type[BaseException], ...]
        | Callable[[BaseException], bool] = (Exception,),
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

    def batch_job(
        self: Runnable[In, Out], inputs: object = None, **options: Unpack[BatchOptions]
    ) -> BatchJob:
        """Return a job that runs each input once, live or in the provider's batches, and stores the results.

        `inputs` is any iterable, or the path of a .jsonl, .csv or .parquet file; None continues the job in the store.
        """
        from foldline.batches import BatchJob

        return BatchJob(self, inputs, **options)

    _call_with_config = _with_config._call_with_config
    _acall_with_config = _with_config._acall_with_config
    _transform_stream_with_config = _with_config._transform_stream_with_config
    _atransform_stream_with_config = _with_config._atransform_stream_with_config


# Names that LangChain has in this module.
forward_names(
    __name__,
    {
        "foldline.runnables._chain": "chain",
        "foldline.runnables.binding": "RunnableBinding RunnableBindingBase",
        "foldline.runnables._coerce": "RunnableLike coerce_to_runnable",
        "foldline.runnables.each": "RunnableEach RunnableEachBase",
        "foldline.runnables.generator": "RunnableGenerator",
        "foldline.runnables.lambda_": "RunnableLambda",
        "foldline.runnables.parallel": "RunnableMap RunnableParallel",
        "foldline.runnables.sequence": "RunnableSequence",
        "foldline.runnables.serializable": "RunnableSerializable",
    },
)
