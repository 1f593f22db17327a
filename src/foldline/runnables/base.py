"""`Runnable`: a unit of work that can be invoked, batched, streamed and composed. Nothing else is in this file.

Three kinds of method, so that each behaviour is written once:

- *behaviours*, which a subclass overrides: `_once` (once), `_pieces` (piece by piece), `_flow` (stream to stream).
  Each is an async body that waits only through `run.io`.
- *traced* behaviours (`_traced…`), which tell listeners of start and end around them. A runnable that only passes
  a call on (a binding) overrides these instead.
- *steps* (`_step…`), what a parent calls on its children: the traced behaviour, or the hand-written `invoke` of a
  class made for LangChain (see `_legacy`).

The public twins hold no logic.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, overload

from foldline._drive import drive, drive_each
from foldline._lazy import late, lazily
from foldline.exceptions import UsageError
from foldline.runnables._forward import Forward
from foldline.runnables._legacy import Legacy, adopt
from foldline.runnables._types import Types

if TYPE_CHECKING:
    from foldline import _io, _run
    from foldline._config import Configs, RunnableConfig
    from foldline._io import IO
    from foldline._run import Kind, Run
    from foldline.runnables import _opening, _trace
    from foldline.runnables._opening import Opening
else:
    Kind = str  # for Pydantic, which reads it for every class below
    _io = late("foldline._io")
    _run = late("foldline._run")
    _opening = late("foldline.runnables._opening")
    _trace = late("foldline.runnables._trace")

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
Other = TypeVar("Other")


class Runnable(Types, Legacy, Forward[Input, Output], ABC, Generic[Input, Output]):
    """A unit of work that can be invoked, batched, streamed, transformed and composed.

    ```python
    from foldline.runnables import RunnableLambda

    add = RunnableLambda(lambda x: x + 1)
    double = RunnableLambda(lambda x: x * 2)
    print((add | double).invoke(1))
    #> 4
    ```
    """

    if TYPE_CHECKING:  # Pydantic would read it again for every class below
        name: str | None
        """The name of this runnable in traces; a subclass that has none leaves it unset."""

    _kind: ClassVar[Kind] = "chain"
    _run_type: ClassVar[str | None] = None
    """What traces call this run where it is no plain chain: `prompt`, `parser`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        adopt(cls)

    # -- behaviours: a subclass overrides one or more of these

    async def _once(self, input: Any, run: Run) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} implements neither `_once` nor `invoke`: write one of them"
        )

    async def _pieces(self, input: Any, run: Run) -> AsyncGenerator[Any, None]:
        yield await self._once(input, run)

    async def _flow(self, inputs: AsyncGenerator[Any, None], run: Run) -> AsyncGenerator[Any, None]:
        whole = await _trace.add_up(inputs)
        if whole is _trace.NOTHING:
            return
        async with aclosing(self._pieces(whole, run)) as outputs:
            async for output in outputs:
                yield output

    # -- the same, with listeners told

    async def _traced(self, input: Any, run: Run) -> Any:
        if run.manager is None:
            return await self._once(input, run)
        return await _trace.call(self, input, run)

    def _traced_stream(self, input: Any, run: Run) -> AsyncGenerator[Any, None]:
        if run.manager is None:
            return self._pieces(input, run)
        return _trace.stream(self, input, run)

    def _traced_transform(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        if run.manager is None:
            return self._flow(inputs, run)
        return _trace.transform(self, inputs, run)

    # -- what a parent calls; `adopt` replaces these in classes that hand-write the public twins

    _step = _traced
    _step_stream = _traced_stream
    _step_transform = _traced_transform

    # -- once

    def invoke(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Output:
        """Run once."""
        output: Output = drive(self._traced(input, _run.Run.root(_io.BLOCKING, config, kwargs)))
        return output

    async def ainvoke(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Output:
        """Run once."""
        output: Output = await self._traced(input, _run.Run.root(_io.ASYNC, config, kwargs))
        return output

    # -- many at once

    async def _run_each(
        self,
        inputs: Sequence[Any],
        config: Configs,
        io: IO,
        kwargs: dict[str, Any],
        *,
        keep_errors: bool,
    ) -> list[Any]:
        inputs = list(inputs) if not hasattr(inputs, "__len__") else inputs  # a generator, say
        results: list[Any] = [None] * len(inputs)
        async with aclosing(
            self._as_completed(inputs, config, io, kwargs, keep_errors=keep_errors)
        ) as done:
            async for place, result in done:
                results[place] = result
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
        run_of, limit = _trace.runs_of(inputs, config, io, kwargs)
        outcomes = io.as_completed(
            lambda place: self._step(inputs[place], run_of(place)), range(len(inputs)), limit=limit
        )
        async with aclosing(outcomes):
            async for place, value, error in outcomes:
                if error is not None and not (keep_errors and isinstance(error, Exception)):
                    raise error
                yield place, value if error is None else error

    @overload
    def batch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: Literal[False] = False,
        **kwargs: Any,
    ) -> list[Output]: ...
    @overload
    def batch(
        self, inputs: list[Input], config: Configs = None, *, return_exceptions: bool, **kwargs: Any
    ) -> list[Output | Exception]: ...
    def batch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Run for each input, at most `max_concurrency` at once, in threads; results in the inputs' order."""
        return drive(
            self._run_each(inputs, config, _io.BLOCKING, kwargs, keep_errors=return_exceptions)
        )

    async def abatch(
        self,
        inputs: list[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Run for each input, at most `max_concurrency` at once, in tasks; results in the inputs' order."""
        return await self._run_each(
            inputs, config, _io.ASYNC, kwargs, keep_errors=return_exceptions
        )

    def batch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> Iterator[tuple[int, Any]]:
        """Run for each input; give (place, result) pairs as they come."""
        return drive_each(
            self._as_completed(inputs, config, _io.BLOCKING, kwargs, keep_errors=return_exceptions)
        )

    def abatch_as_completed(
        self,
        inputs: Sequence[Input],
        config: Configs = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> AsyncIterator[tuple[int, Any]]:
        """Run for each input; give (place, result) pairs as they come."""
        return self._as_completed(inputs, config, _io.ASYNC, kwargs, keep_errors=return_exceptions)

    # -- piece by piece

    def stream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        """Run once; give the output piece by piece."""
        return drive_each(self._traced_stream(input, _run.Run.blocking(config, kwargs)))

    def astream(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Output, None]:
        """Run once; give the output piece by piece."""
        return self._traced_stream(input, _run.Run.asynchronous(config, kwargs))

    def transform(
        self, input: Iterable[Input], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Output]:
        """Turn a stream of inputs into a stream of outputs."""
        run = _run.Run.blocking(config, kwargs)
        return drive_each(self._traced_transform(run.io.each(input), run))

    def atransform(
        self,
        input: AsyncIterator[Input] | Iterable[Input],
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Output, None]:
        """Turn a stream of inputs into a stream of outputs."""
        run = _run.Run.asynchronous(config, kwargs)
        return self._traced_transform(run.io.each(input), run)

    # -- a model's stream of events

    def stream_v2(self, input: Input, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Give the stream of a chat model's answer; nothing happens before it is read."""
        return self._open_stream_v2(_opening.Opening(input, _run.Run.blocking(config, kwargs)))

    async def astream_v2(
        self, input: Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Give the stream of a chat model's answer; nothing happens before it is read."""
        return self._open_stream_v2(_opening.Opening(input, _run.Run.asynchronous(config, kwargs)))

    def _open_stream_v2(self, opening: Opening) -> Any:
        raise UsageError(
            f"{self.get_name()} gives no stream of message events: `stream_v2` is for a chat model or a sequence that "
            "ends in one. Use `stream`, or `astream_events` to see the models inside"
        )

    def _own_run(self, run: Run) -> Run:
        """Give the run that listeners are told of: not yet started, with what the constructor adds."""
        return run.patched()

    def _serialized(self) -> dict[str, Any] | None:
        """What `on_*_start` says of this runnable."""
        return None


# Names that LangChain keeps in this module.
__getattr__ = lazily(
    __name__,
    {
        "._chain": "chain",
        ".binding": "RunnableBinding RunnableBindingBase",
        ".coerce": "RunnableLike coerce_to_runnable",
        ".each": "RunnableEach RunnableEachBase",
        ".generator": "RunnableGenerator",
        ".lambda_": "RunnableLambda",
        ".parallel": "RunnableMap RunnableParallel",
        ".sequence": "RunnableSequence",
        ".serializable": "RunnableSerializable",
    },
)
