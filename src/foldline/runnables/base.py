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
    Iterable,
    Iterator,
    Sequence,
)
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from foldline import _io, _run
from foldline._config import Configs, RunnableConfig
from foldline._io import IO
from foldline._io.drive import drive, drive_each
from foldline._lazy import forward_names
from foldline._run import Kind, Run
from foldline._traceback import closing, cut_traceback
from foldline.exceptions import UnsupportedError
from foldline.runnables import _composing, _stream_call, _trace, _types
from foldline.runnables._legacy import NO_OVERRIDES, bind_overrides
from foldline.runnables._stream_call import EventStream, StreamCall
from foldline.utils.short_repr import short_repr

if TYPE_CHECKING:
    from foldline._streams.stream import AsyncChatModelStream, ChatModelStream
    from foldline.messages import AIMessage
    from foldline.utils.progress import ProgressOption

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
if TYPE_CHECKING:
    Chunk = TypeVar("Chunk", covariant=True, default=Output)
    """The type of what a stream yields: that of the output, unless a class names another."""
else:  # Python 3.13 would make each subclass of `Runnable[A, B]` generic in `Output`
    Chunk = TypeVar("Chunk", covariant=True, default=Any)
In = TypeVar("In")
Piece = TypeVar("Piece")


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
            return await _composing.batch_on(
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

    # -- methods that build other runnables: see `_composing`

    __or__ = _composing.or_
    __ror__ = _composing.ror_
    pipe = _composing.pipe
    bind = _composing.bind
    with_config = _composing.with_config
    with_types = _composing.with_types
    map = _composing.map
    pick = _composing.pick
    assign = _composing.assign
    astream_events = _composing.astream_events
    stream_events = _composing.stream_events
    astream_log = _composing.astream_log
    with_retry = _composing.with_retry
    with_fallbacks = _composing.with_fallbacks
    with_listeners = _composing.with_listeners
    with_alisteners = _composing.with_alisteners
    configurable_fields = _composing.configurable_fields
    configurable_alternatives = _composing.configurable_alternatives
    as_tool = _composing.as_tool
    get_graph = _composing.get_graph
    batch_job = _composing.batch_job
    _call_with_config = _composing._call_with_config
    _acall_with_config = _composing._acall_with_config
    _transform_stream_with_config = _composing._transform_stream_with_config
    _atransform_stream_with_config = _composing._atransform_stream_with_config


# Names that LangChain has in this module.
forward_names(
    __name__,
    {
        "foldline.runnables._chain": "chain",
        "foldline.runnables.binding": "RunnableBinding RunnableBindingBase",
        "foldline.runnables.coerce": "RunnableLike coerce_to_runnable",
        "foldline.runnables.each": "RunnableEach RunnableEachBase",
        "foldline.runnables.generator": "RunnableGenerator",
        "foldline.runnables.lambda_": "RunnableLambda",
        "foldline.runnables.parallel": "RunnableMap RunnableParallel",
        "foldline.runnables.sequence": "RunnableSequence",
        "foldline.runnables.serializable": "RunnableSerializable",
    },
)
