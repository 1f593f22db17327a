"""`RunnableSequence`: one step's output is the next one's input; streams flow through piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, Field

from foldline._config import Configs, RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.runnables import _trace, _types
from foldline.runnables._opening import EventStream, Opening, Wrapped
from foldline.runnables.base import Runnable
from foldline.runnables.coerce import coerce_to_runnable
from foldline.runnables.serializable import RunnableSerializable

if TYPE_CHECKING:
    from foldline.utils.progress import ProgressOption

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class RunnableSequence(RunnableSerializable[Input, Output]):
    """Steps in a row, most often written with `|`.

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
    """The steps between."""
    last: Runnable[Any, Any]
    """The step that gives the output."""

    def __init__(
        self,
        *steps: object,  # a runnable or what coerce_to_runnable takes
        name: str | None = None,
        first: object = None,
        middle: list[Any] | None = None,
        last: object = None,
    ) -> None:
        """Make a sequence of at least two steps, one by one or as a list; nested ones without a name are flattened."""
        if len(steps) == 1 and isinstance(steps[0], list | tuple):
            steps = tuple(steps[0])
        given = list(steps) or [step for step in (first, *(middle or []), last) if step is not None]
        flat: list[Runnable[Any, Any]] = []
        for step in given:
            runnable = coerce_to_runnable(step)
            flat.extend(
                runnable.steps
                if isinstance(runnable, RunnableSequence) and not runnable.name
                else [runnable]
            )
        if len(flat) < 2:
            raise UsageError(f"a sequence needs at least 2 steps, got {len(flat)}")
        super().__init__(first=flat[0], middle=flat[1:-1], last=flat[-1], name=name)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether this can be dumped: yes, if its steps can."""
        return True

    @property
    def steps(self) -> list[Runnable[Any, Any]]:
        """All the steps, in order."""
        return [self.first, *self.middle, self.last]

    async def _once(self, input: Input, run: Run) -> object:
        value = input
        if run.manager is None:
            child = run.child()
            value = await self.first._step(value, run if run.kwargs else child)
            for step in self.middle:
                value = await step._step(value, child)
            return await self.last._step(value, child)
        for place, step in enumerate(self.steps, start=1):
            value = await step._step(value, self._child(run, place))
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
        runs = [self._own_run(run_of(place)) for place in range(len(inputs))]
        return await self._run_batches(list(inputs), runs, io)

    async def _run_batches(self, values: list[Any], runs: list[Run], io: IO) -> list[Any]:
        """Run all inputs through one step after the other: a step whose `batch` somebody patched gets them all."""
        for value, run in zip(values, runs, strict=True):
            await _trace.begin(self, value, run)
        try:
            for place, step in enumerate(self.steps, start=1):
                children = [self._child(run, place) for run in runs]
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

    def _child(self, run: Run, place: int) -> Run:
        child = run.child(f"seq:step:{place}")
        # Keyword arguments of the call are for the first step, as in LangChain.
        return child.patched(kwargs=run.kwargs) if place == 1 and run.kwargs else child

    def _pieces(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        return self._flow(_trace.one(input), run)

    def _flow(self, inputs: AsyncGenerator[Any, None], run: Run) -> AsyncGenerator[Any, None]:
        flow = inputs
        if run.manager is None:
            child = run.child()
            flow = self.first._step_transform(flow, run if run.kwargs else child)
            for step in self.middle:
                flow = step._step_transform(flow, child)
            return self.last._step_transform(flow, child)
        for place, step in enumerate(self.steps, start=1):
            flow = step._step_transform(flow, self._child(run, place))
        return flow

    def _open_stream_v2(self, opening: Opening) -> EventStream:
        return self.last._open_stream_v2(_StepsFirst(opening, self))

    # -- types

    @property
    def InputType(self) -> object:
        """The first step's."""
        return self.first.InputType

    @property
    def OutputType(self) -> object:
        """The last step's."""
        return self.last.OutputType

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return what the first step takes; behind a step that adds keys, less those keys."""
        schema = self.last.get_input_schema(config)
        for step in reversed(self.steps[:-1]):
            schema = step._schema_before(schema, config)
        return schema

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return what the last step gives; a step that adds or picks keys goes by what came before it."""
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
            ("| " if place else "") + (_types.indented(repr(step)) if place else repr(step))
            for place, step in enumerate(self.steps)
        )


class _StepsFirst(Wrapped):
    """Runs the steps before the last one when the last one's stream is first read."""

    def __init__(self, inner: Opening, sequence: RunnableSequence[Any, Any]) -> None:
        super().__init__(inner)
        self._sequence = sequence
        self._own: Run | None = None

    async def begin(self) -> tuple[Any, Run]:
        value, run = await self._inner.begin()
        steps = self._sequence.steps
        self._own = run = run.patched()
        await _trace.begin(self._sequence, value, run)
        try:
            for place, step in enumerate(steps[:-1], start=1):
                value = await step._step(value, self._sequence._child(run, place))
        except BaseException as error:
            await self.fail(error)
            raise
        return value, self._sequence._child(run, len(steps))

    async def end(self, output: object) -> None:
        if self._own is not None:
            await self._own.dispatch("on_chain_end", output)
        await self._inner.end(output)

    async def fail(self, error: BaseException) -> None:
        if self._own is not None:
            await self._own.dispatch("on_chain_error", error)
        await self._inner.fail(error)


def sequence_of(steps: Sequence[Any], name: str | None = None) -> RunnableSequence[Any, Any]:
    """Make a sequence of anything that can be a step."""
    return RunnableSequence(*steps, name=name)
