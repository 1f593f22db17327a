"""`RunnableSequence`: the output of each step is the input of the next; streams pass through in chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from foldline._config import Configs, RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.runnables import _trace, _types
from foldline.runnables._coerce import coerce_to_runnable
from foldline.runnables._stream_call import EventStream, StreamCall, StreamCallWrapper
from foldline.runnables.base import Chunk, Input, Output, Runnable
from foldline.runnables.serializable import RunnableSerializable

if TYPE_CHECKING:
    from foldline.utils.progress import ProgressOption


class RunnableSequence(RunnableSerializable[Input, Output, Chunk]):
    """A chain of steps, most often written with `|`.

    ```python
    from foldline.runnables import RunnableLambda

    sequence = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: x * 2)
    print(sequence.batch([1, 2, 3]))
    #> [4, 6, 8]
    ```
    """

    first: Runnable[Any, Any]
    """The step that gets the input."""
    middle: list[Runnable[Any, Any]] = Field(default_factory=list)
    """The steps between `first` and `last`."""
    last: Runnable[Any, Any]
    """The step that returns the output."""

    def __init__(
        self,
        *steps: object,  # runnables, or values that coerce_to_runnable accepts
        name: str | None = None,
        first: object = None,
        middle: list[Any] | None = None,
        last: object = None,
    ) -> None:
        """Make a sequence of at least two steps, one by one or as a list; unnamed sequences in it are flattened."""
        if len(steps) == 1 and isinstance(steps[0], list | tuple):
            steps = tuple(steps[0])
        parts = list(steps) or [step for step in (first, *(middle or []), last) if step is not None]
        runnables: list[Runnable[Any, Any]] = []
        for step in parts:
            runnable = coerce_to_runnable(step)
            runnables.extend(
                runnable.steps
                if isinstance(runnable, RunnableSequence) and not runnable.name
                else [runnable]
            )
        if len(runnables) < 2:
            raise UsageError(f"a sequence needs at least 2 steps, got {len(runnables)}")
        super().__init__(first=runnables[0], middle=runnables[1:-1], last=runnables[-1], name=name)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its steps can."""
        return True

    @property
    def steps(self) -> list[Runnable[Any, Any]]:
        """All the steps, in order."""
        return [self.first, *self.middle, self.last]

    async def _invoke_body(self, input: Input, run: Run) -> object:
        value = input
        if run.manager is None:
            child = run.child()
            value = await self.first._step(value, run if run.kwargs else child)
            for step in self.middle:
                value = await step._step(value, child)
            return await self.last._step(value, child)
        for number, step in enumerate(self.steps, start=1):
            value = await step._step(value, self._child(run, number))
        return value

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
        if keep_errors or not any(step._has_patched_batch for step in self.steps):
            return await super()._run_each(
                inputs, config, io, kwargs, keep_errors=keep_errors, progress=progress
            )
        run_of, _ = _trace.runs_of(inputs, config, io, kwargs)
        runs = [self._own_run(run_of(index)) for index in range(len(inputs))]
        return await self._run_batches(list(inputs), runs, io)

    async def _run_batches(self, values: list[Any], runs: list[Run], io: IO) -> list[Any]:
        """Run all inputs through one step after the other: for steps whose `batch` is patched."""
        for value, run in zip(values, runs, strict=True):
            await _trace.begin(self, value, run)
        try:
            for number, step in enumerate(self.steps, start=1):
                children = [self._child(run, number) for run in runs]
                batch = step.batch if io.blocking else step.abatch
                configs = [child.own_config() for child in children]
                values = await io.call(batch, values, configs, **children[0].kwargs)
        except BaseException as error:
            for run in runs:
                await run.dispatch("on_chain_error", error)
            raise
        for value, run in zip(values, runs, strict=True):
            await run.dispatch("on_chain_end", value)
        return values

    def _child(self, run: Run, number: int) -> Run:
        child = run.child(f"seq:step:{number}")
        # Keyword arguments of the call are for the first step, as in LangChain.
        return child.patched(kwargs=run.kwargs) if number == 1 and run.kwargs else child

    def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        return self._transform_body(_trace.single(input), run)

    def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        stream = inputs
        if run.manager is None:
            child = run.child()
            stream = self.first._step_transform(stream, run if run.kwargs else child)
            for step in self.middle:
                stream = step._step_transform(stream, child)
            return self.last._step_transform(stream, child)
        for number, step in enumerate(self.steps, start=1):
            stream = step._step_transform(stream, self._child(run, number))
        return stream

    def _open_stream_v2(self, call: StreamCall) -> EventStream:
        return self.last._open_stream_v2(_SequenceStreamCall(call, self))

    # -- types

    @property
    def InputType(self) -> object:
        """The input type of the first step."""
        return self.first.InputType

    @property
    def OutputType(self) -> object:
        """The output type of the last step."""
        return self.last.OutputType

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input schema of the first step; if it adds keys, without the keys it adds."""
        schema = self.last.get_input_schema(config)
        for step in reversed(self.steps[:-1]):
            schema = step._schema_before(schema, config)
        return schema

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output schema of the last step; if it adds or picks keys, based on the steps before it."""
        schema = self.first.get_output_schema(config)
        for step in self.steps[1:]:
            schema = step._schema_after(schema, config)
        return schema

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of all steps."""
        return _types.unique_specs(step.config_specs for step in self.steps)

    def __repr__(self) -> str:
        return "\n".join(
            ("| " if index else "") + (_types.indent_nested(repr(step)) if index else repr(step))
            for index, step in enumerate(self.steps)
        )


class _SequenceStreamCall(StreamCallWrapper):
    """Runs the steps before the last one when the last one's stream is first read."""

    def __init__(self, inner: StreamCall, sequence: RunnableSequence[Any, Any]) -> None:
        super().__init__(inner)
        self._sequence = sequence
        self._sequence_run: Run | None = None

    async def begin(self) -> tuple[Any, Run]:
        value, run = await self._inner.begin()
        steps = self._sequence.steps
        self._sequence_run = run = run.patched()
        await _trace.begin(self._sequence, value, run)
        try:
            for number, step in enumerate(steps[:-1], start=1):
                value = await step._step(value, self._sequence._child(run, number))
        except BaseException as error:
            await self.fail(error)
            raise
        return value, self._sequence._child(run, len(steps))

    async def end(self, output: object) -> None:
        if self._sequence_run is not None:
            await self._sequence_run.dispatch("on_chain_end", output)
        await self._inner.end(output)

    async def fail(self, error: BaseException) -> None:
        if self._sequence_run is not None:
            await self._sequence_run.dispatch("on_chain_error", error)
        await self._inner.fail(error)


def sequence_of(steps: Sequence[Any], name: str | None = None) -> RunnableSequence[Any, Any]:
    """Return a sequence of anything that can be converted to a runnable."""
    return RunnableSequence(*steps, name=name)
