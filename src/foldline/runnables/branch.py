"""`RunnableBranch`: the first condition that is true selects the runnable that gets the input."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel
from typing_extensions import TypeVar

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline._traceback import closing
from foldline.exceptions import UsageError
from foldline.runnables import _types
from foldline.runnables._coerce import coerce_to_runnable
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable

Input = TypeVar("Input", contravariant=True, default=Any)
Output = TypeVar("Output", covariant=True, default=Any)
In = TypeVar("In")
Out = TypeVar("Out")
BranchStep: TypeAlias = (
    Runnable[In, Out]
    | Callable[[In], Coroutine[Any, Any, Out]]
    | Callable[[In], Out]
    | Mapping[str, Any]
)


class RunnableBranch(RunnableSerializable[Input, Output]):
    """Runs the first branch whose condition is true for the input, or the default.

    ```python
    from foldline.runnables import RunnableBranch

    branch = RunnableBranch(
        (lambda x: isinstance(x, str), lambda x: x.upper()),
        (lambda x: isinstance(x, int), lambda x: x + 1),
        lambda x: "goodbye",
    )
    print(branch.batch(["hi", 1, None]))
    #> ['HI', 2, 'goodbye']
    ```
    """

    branches: Sequence[tuple[Runnable[Any, Any], Runnable[Any, Any]]]
    """Conditions, each with the runnable that gets the input if it is true."""
    default: Runnable[Any, Any]
    """The runnable that gets the input if no condition is true."""

    def __init__(
        self,
        *branches: tuple[BranchStep[Input, Any], BranchStep[Input, Output]]
        | BranchStep[Input, Output],
        default: BranchStep[Input, Output] | None = None,
        **fields: Any,
    ) -> None:
        """Take (condition, runnable) pairs and, last, the default."""
        if not branches and default is not None:  # fields of a serialized branch
            branches = (*fields.pop("branches"), default)
        if len(branches) < 2:
            raise UsageError(
                "RunnableBranch requires at least two branches: one (condition, runnable) pair and a default"
            )
        last = branches[-1]
        if not isinstance(last, Runnable | Mapping) and not callable(last):
            raise TypeError(
                f"the default of RunnableBranch must be a Runnable, a function or a dict, not {type(last).__name__}"
            )
        pairs = [_pair(branch) for branch in branches[:-1]]
        super().__init__(branches=pairs, default=coerce_to_runnable(last), **fields)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its branches can."""
        return True

    async def _choose(self, input: object, run: Run) -> tuple[Runnable[Any, Any], Run]:
        for number, (condition, runnable) in enumerate(self.branches, start=1):
            if await condition._step(input, run.child(f"condition:{number}")):
                return runnable, self._child(run, f"branch:{number}")
        return self.default, self._child(run, "branch:default")

    def _child(self, run: Run, tag: str) -> Run:
        child = run.child(tag)
        return child.patched(kwargs=run.kwargs) if run.kwargs else child

    async def _invoke_body(self, input: Input, run: Run) -> object:
        runnable, child = await self._choose(input, run)
        return await runnable._step(input, child)

    async def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        runnable, child = await self._choose(input, run)
        async with closing(runnable._step_stream(input, child)) as chunks:
            async for chunk in chunks:
                yield chunk

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input schema of the first part that declares one."""
        parts = [self.default, *(runnable for pair in self.branches for runnable in pair)]
        for part in parts:
            schema = part.get_input_schema(config)
            if not _types.is_anything(schema):
                return schema
        return super().get_input_schema(config)

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of all parts."""
        parts = [self.default, *(runnable for pair in self.branches for runnable in pair)]
        return _types.unique_specs(part.config_specs for part in parts)


def _pair(branch: object) -> tuple[Runnable[Any, Any], Runnable[Any, Any]]:
    if not isinstance(branch, tuple | list):
        raise TypeError(
            f"a branch must be a tuple (condition, runnable), not {type(branch).__name__}: {branch!r:.200}"
        )
    if len(branch) != 2:
        raise UsageError(
            f"a branch must be a tuple (condition, runnable), not of length {len(branch)}"
        )
    return coerce_to_runnable(branch[0]), coerce_to_runnable(branch[1])
