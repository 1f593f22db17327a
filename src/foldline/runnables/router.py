"""`RouterRunnable`: the input has the name of the runnable that gets it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar, cast

from typing_extensions import TypedDict

from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.runnables import _types
from foldline.runnables._coerce import coerce_to_runnable
from foldline.runnables._trace import NOTHING, add_up
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable

Output = TypeVar("Output", covariant=True)


class RouterInput(TypedDict):
    """The name of a runnable, and its input."""

    key: str
    """The name of the runnable."""
    input: Any
    """Its input."""


class RouterRunnable(RunnableSerializable[RouterInput, Output]):
    """Forwards a call to the runnable that is named by `input["key"]`.

    ```python
    from foldline.runnables import RouterRunnable

    router = RouterRunnable({"add": lambda x: x + 1, "square": lambda x: x * x})
    print(router.invoke({"key": "square", "input": 3}))
    #> 9
    ```
    """

    runnables: Mapping[str, Runnable[Any, Any]]
    """The runnables by name."""

    def __init__(
        self, runnables: Mapping[str, Runnable[Any, Output] | Callable[[Any], Output]]
    ) -> None:
        """Take runnables or functions by name."""
        super().__init__(
            runnables={key: coerce_to_runnable(runnable) for key, runnable in runnables.items()}
        )

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether this can be serialized: yes, if its runnables can."""
        return True

    def _route(self, value: object) -> tuple[Runnable[Any, Any], Any]:
        if not isinstance(value, Mapping) or "key" not in value or "input" not in value:
            raise UsageError(f"RouterRunnable needs {{'key': …, 'input': …}}, not {value!r:.200}")
        if value["key"] not in self.runnables:
            raise UsageError(
                f"no runnable is called {value['key']!r}; there are {', '.join(map(repr, self.runnables))}"
            )
        return self.runnables[value["key"]], value["input"]

    async def _invoke_traced(self, input: RouterInput, run: Run) -> Output:
        runnable, value = self._route(input)
        output: Output = await runnable._step(value, run)
        return output

    async def _stream_traced(self, input: RouterInput, run: Run) -> AsyncGenerator[Any, None]:
        runnable, value = self._route(input)
        async with aclosing(runnable._step_stream(value, run)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        total = await add_up(inputs)
        if total is NOTHING:
            return
        async with aclosing(self._stream_traced(cast("RouterInput", total), run)) as chunks:
            async for chunk in chunks:
                yield chunk

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of all runnables."""
        return _types.unique_specs(runnable.config_specs for runnable in self.runnables.values())
