"""`RunnableLambda`: a function as a runnable, of either colour or both."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from weft._run import Run
from weft.exceptions import BlockingCallError, RecursionLimitError, UsageError
from weft.runnables._trace import NOTHING, plus
from weft.runnables.base import Runnable, is_async_callable

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class RunnableLambda(Runnable[Input, Output]):
    """A function as a runnable.

    The function may take `config` or `run_manager` beside its input, may be async, may be a generator, and may
    return a runnable, which is then run in its place.

    ```python
    from weft.runnables import RunnableLambda

    print(RunnableLambda(lambda word: word.upper()).invoke("hi"))
    #> HI
    ```
    """

    def __init__(
        self,
        func: Callable[..., Any],
        afunc: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Wrap a function; `afunc` is its async twin where it has one."""
        if not callable(func):
            raise TypeError(f"RunnableLambda needs a function, not {type(func).__name__}: {func!r}")
        if isinstance(func, Runnable):
            raise UsageError(f"{func!r} is a Runnable already: use it as it is")
        is_async = is_async_callable(func) or inspect.isasyncgenfunction(func)
        if is_async and afunc is not None:
            raise UsageError("func is async already: give the blocking function first, its async twin as afunc")
        self.func: Callable[..., Any] | None = None if is_async else func
        self.afunc: Callable[..., Any] | None = func if is_async else afunc
        given = getattr(func, "__name__", None)
        self.name = name or (given if given and given != "<lambda>" else None)
        self._wants = {id(one): _wanted(one) for one in (self.func, self.afunc) if one is not None}

    def _choose(self, run: Run) -> Callable[..., Any]:
        if run.io.blocking:
            if self.func is None:
                raise BlockingCallError(
                    f"{self.get_name()} is an async function and was reached by a blocking call: use ainvoke, "
                    "astream or abatch, or give RunnableLambda a blocking function too"
                )
            return self.func
        function = self.afunc or self.func
        if function is None:
            raise UsageError("RunnableLambda has no function")
        return function

    def _extras(self, function: Callable[..., Any], run: Run) -> dict[str, Any]:
        extras = dict(run.kwargs)
        for wanted in self._wants[id(function)]:
            extras[wanted] = run.config() if wanted == "config" else run.run_manager()
        return extras

    async def _call(self, input: Any, run: Run) -> Any:
        function = self._choose(run)
        wants = self._wants[id(function)]
        if run.manager is None and not run.given:
            if run.io.blocking and not wants and not run.kwargs:
                return await run.io.call(function, input)
            return await run.io.call(function, input, **self._extras(function, run))
        with run.current():
            return await run.io.call(function, input, **self._extras(function, run))

    async def _once(self, input: Any, run: Run) -> Any:
        result = await self._call(input, run)
        if isinstance(result, Runnable):
            return await result._step(input, self._deeper(run))
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            whole: Any = NOTHING
            async with aclosing(run.io.each(result)) as pieces:
                async for piece in pieces:
                    whole = plus(whole, piece)
            return None if whole is NOTHING else whole
        return result

    def _deeper(self, run: Run) -> Run:
        left = run.recursion_limit - 1
        if left <= 0:
            raise RecursionLimitError(
                f"{self.get_name()} returned runnables that return runnables too deep: "
                "raise config['recursion_limit'] or end the recursion"
            )
        child = run.child()
        return Run(child.io, {**child.given, "recursion_limit": left}, child.manager, child.kwargs)

    async def _pieces(self, input: Any, run: Run) -> AsyncGenerator[Any, None]:
        result = await self._call(input, run)
        if isinstance(result, Runnable):
            stream = result._step_stream(input, self._deeper(run))
        elif inspect.isgenerator(result) or inspect.isasyncgen(result):
            stream = run.io.each(result)
        else:
            yield result
            return
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                yield piece

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunnableLambda):
            return False
        return self.func == other.func and self.afunc == other.afunc

    def __hash__(self) -> int:
        return hash((self.func, self.afunc))

    def __repr__(self) -> str:
        return f"RunnableLambda({self.get_name() if self.name else '...'})"


def _wanted(function: Callable[..., Any]) -> tuple[str, ...]:
    """Say which of `config` and `run_manager` a function takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return ()
    return tuple(name for name in ("config", "run_manager") if name in parameters)
