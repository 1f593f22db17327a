"""`RunnableGenerator`: a generator function from a stream to a stream, sync, async or both."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing
from typing import Any, TypeVar, cast

from foldline._io.drive import GeneratorStream, drive_each
from foldline._run import Run
from foldline.exceptions import BlockingCallError
from foldline.runnables import _functions
from foldline.runnables._coerce import is_generator_function
from foldline.runnables._trace import NOTHING, plus, single
from foldline.runnables.base import Runnable

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class RunnableGenerator(Runnable[Input, Output]):
    """A generator function as a runnable: takes the stream of inputs, yields the stream of outputs.

    A sync generator function serves async calls too, in a thread.

    ```python
    from collections.abc import Iterator

    from foldline.runnables import RunnableGenerator

    def shout(words: Iterator[str]) -> Iterator[str]:
        for word in words:
            yield word.upper()

    print(list(RunnableGenerator(shout).transform(iter(["a", "b"]))))
    #> ['A', 'B']
    ```
    """

    def __init__(
        self,
        transform: Callable[..., Iterator[Any]] | Callable[..., AsyncIterator[Any]],
        atransform: Callable[..., AsyncIterator[Any]] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """Wrap a generator function; `atransform` is its async version, if there is one."""
        if not is_generator_function(transform):
            raise TypeError(
                f"RunnableGenerator needs a generator function, not {type(transform).__name__}: {transform!r:.200}; "
                "use RunnableLambda for other functions"
            )
        is_async = inspect.isasyncgenfunction(transform) or inspect.isasyncgenfunction(
            getattr(type(transform), "__call__", None)  # noqa: B004
        )
        self._blocking: Callable[..., Any] | None = None if is_async else transform
        self._async: Callable[..., Any] | None = transform if is_async else atransform
        function_name = getattr(transform, "__name__", None)
        self.name: str | None = name or (
            function_name if function_name and function_name != "<lambda>" else type(self).__name__
        )

    def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        is_untraced = run.io.blocking and run.manager is None and not run.call_config
        if not is_untraced or self._blocking is None:
            return self._transform_guarded(inputs, run)
        if isinstance(inputs, GeneratorStream):
            return GeneratorStream(self._call(self._blocking, inputs.items, run), inputs.chain)
        source = drive_each(inputs)
        return GeneratorStream(self._call(self._blocking, source, run), (source,))

    async def _transform_guarded(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        if run.io.blocking and self._blocking is None:
            raise BlockingCallError(
                f"{self.get_name()} is an async generator and was reached by a blocking call: use ainvoke, "
                "astream or atransform, or give RunnableGenerator a blocking generator too"
            )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(aclosing(inputs))
            if self._async is not None and not run.io.blocking:
                outputs = self._call(self._async, inputs, run)
            else:
                source = await stack.enter_async_context(run.io.iterate(inputs))
                outputs = self._call(cast("Callable[..., Any]", self._blocking), source, run)
            chunks = await stack.enter_async_context(aclosing(run.io.each(outputs, run.current())))
            async for chunk in chunks:
                yield chunk

    def _call(self, function: Callable[..., Any], source: object, run: Run) -> Any:  # noqa: ANN401  a generator of either mode
        """Return the user's generator, not started."""
        return function(source, **_functions.extras(_functions.injected_arguments(function), run))

    def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        return self._transform_body(single(input), run)

    async def _invoke_body(self, input: Input, run: Run) -> object:
        total: Any = NOTHING
        async with aclosing(self._stream_body(input, run)) as chunks:
            async for chunk in chunks:
                total = plus(total, chunk)
        return None if total is NOTHING else total

    @property
    def InputType(self) -> object:
        """The item type of the annotated first parameter."""
        return _functions.item_type(_functions.parameter_type(self._blocking or self._async))

    @property
    def OutputType(self) -> object:
        """The item type of the annotated result."""
        return _functions.item_type(_functions.return_type(self._blocking or self._async))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunnableGenerator):
            return False
        return self._blocking == other._blocking and self._async == other._async

    def __hash__(self) -> int:
        return hash((self._blocking, self._async))

    def __repr__(self) -> str:
        return f"RunnableGenerator({self.name})"
