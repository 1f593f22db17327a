"""`RunnableEach`: runs a runnable for each item of a list; the result of `.map()`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.runnables import _types
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class RunnableEachBase(RunnableSerializable[Sequence[Input], list[Output]]):
    """Runs a runnable for each item of its input, at most `max_concurrency` at once."""

    bound: Runnable[Any, Any]
    """The runnable that gets the items."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its parts can."""
        return True

    async def _invoke_body(self, input: Sequence[Input], run: Run) -> list[Any]:
        if isinstance(input, str | bytes | dict) or not hasattr(input, "__iter__"):
            raise UsageError(
                f"{self.get_name()} needs a list of inputs, not {type(input).__name__}: {input!r:.200}"
            )
        items = list(input)
        outputs: list[Any] = [None] * len(items)

        async def run_item(item: object) -> object:
            child = run.child()
            return await self.bound._step(
                item, child.patched(kwargs=run.kwargs) if run.kwargs else child
            )

        async with aclosing(
            run.io.as_completed(run_item, items, limit=run.max_concurrency)
        ) as outcomes:
            async for index, value, error in outcomes:
                if error is not None:
                    raise error
                outputs[index] = value
        return outputs

    @property
    def InputType(self) -> object:
        """A list of the input type of `bound`."""
        return list[self.bound.InputType]  # type: ignore[name-defined]

    @property
    def OutputType(self) -> object:
        """A list of the output type of `bound`."""
        return list[self.bound.OutputType]  # type: ignore[name-defined]

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input as a Pydantic model."""
        item: Any = self.bound.get_input_schema(config)
        return _types.value_model(self.get_name("Input"), list[item])

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output as a Pydantic model."""
        item: Any = self.bound.get_output_schema(config)
        return _types.value_model(self.get_name("Output"), list[item])

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of `bound`."""
        return self.bound.config_specs


class RunnableEach(RunnableEachBase[Input, Output]):
    """Runs a runnable for each item of its input; bound config and arguments apply to every item.

    ```python
    from foldline.runnables import RunnableLambda

    print(RunnableLambda(lambda x: x + 1).map().invoke([1, 2, 3]))
    #> [2, 3, 4]
    ```
    """

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name shown in traces, which includes that of `bound`."""
        return super().get_name(
            suffix, name=name or self.name or f"RunnableEach<{self.bound.get_name()}>"
        )

    def bind(self, **kwargs: object) -> RunnableEach[Input, Output]:
        """Bind arguments for every item."""
        return RunnableEach(bound=self.bound.bind(**kwargs))

    def with_config(
        self, config: RunnableConfig | None = None, **kwargs: object
    ) -> RunnableEach[Input, Output]:
        """Bind config for every item."""
        return RunnableEach(bound=self.bound.with_config(config, **kwargs))

    def with_listeners(self, **listeners: object) -> RunnableEach[Input, Output]:
        """Call listeners with the run of every item."""
        return RunnableEach(bound=cast("Any", self.bound).with_listeners(**listeners))

    def with_alisteners(self, **listeners: object) -> RunnableEach[Input, Output]:
        """Await listeners with the run of every item."""
        return RunnableEach(bound=cast("Any", self.bound).with_alisteners(**listeners))
