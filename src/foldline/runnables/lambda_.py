"""`RunnableLambda`: a function as a runnable, sync, async or both."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from foldline._config import RunnableConfig
from foldline._io.waiting import is_async_callable
from foldline._run import Run
from foldline._traceback import closing
from foldline.exceptions import BlockingCallError, RecursionLimitError, UsageError
from foldline.runnables import _functions, _types
from foldline.runnables._legacy import PatchableInstance
from foldline.runnables._trace import NOTHING, plus
from foldline.runnables.base import Runnable
from foldline.runnables.utils import (
    get_function_first_arg_dict_keys,
    get_function_nonlocals,
    get_lambda_source,
)

# Any: the input of a lambda that nothing else tells what it is given.
Input = TypeVar("Input", contravariant=True, default=Any)
Output = TypeVar("Output", covariant=True, default=Any)

if TYPE_CHECKING:
    Argument = TypeVar("Argument", covariant=True)
    In = TypeVar("In")
    Out = TypeVar("Out")

    class Untyped(Protocol[Argument, Output]):
        """A function of anything: pyright reads the body of a lambda with it if no other type fits.

        The second overload is for mypy, which else would infer nothing from a union of this and a `Callable`.
        """

        @overload
        def __call__(self, input: Any, /) -> Output: ...  # noqa: ANN401
        @overload
        def __call__(self, input: Argument, /) -> Output: ...  # type: ignore[misc, overload-cannot-match]

    Function = Callable[[In], Out] | Untyped[In, Out]


class RunnableLambda(PatchableInstance, Runnable[Input, Output]):
    """A function as a runnable.

    The function may take `config` or `run_manager` in addition to its input, may be async, may be a generator, and may
    return a runnable, which is then run in its place.

    ```python
    from foldline.runnables import RunnableLambda

    print(RunnableLambda(lambda word: word.upper()).invoke("hi"))
    #> HI
    ```
    """

    @overload
    def __init__(
        self, func: Function[Input, Coroutine[Any, Any, Output]], *, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self, func: Function[Input, AsyncGenerator[Output, None]], *, name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self,
        func: Function[Input, Generator[Output, None, None]],
        afunc: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        func: Function[Input, Runnable[Input, Output]],
        afunc: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        func: Function[Input, Output],
        afunc: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        func: Callable[[Input, RunnableConfig], Coroutine[Any, Any, Output]],
        *,
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        func: Callable[[Input, RunnableConfig], Output],
        afunc: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        func: Callable[..., Any],
        afunc: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Wrap a function; `afunc` is its async version, if there is one."""
        if not callable(func):
            raise TypeError(f"RunnableLambda needs a function, not {type(func).__name__}: {func!r}")
        if isinstance(func, Runnable):
            raise UsageError(f"{func!r} is a Runnable already: use it as it is")
        is_async = is_async_callable(func) or inspect.isasyncgenfunction(func)
        if is_async and afunc is not None:
            raise UsageError(
                "func is async already: pass the sync function as func, and the async one as afunc"
            )
        self.func: Callable[..., Any] | None = None if is_async else func
        self.afunc: Callable[..., Any] | None = func if is_async else afunc
        function_name = getattr(func, "__name__", None)
        self.name: str | None = name or (
            function_name if function_name and function_name != "<lambda>" else None
        )
        # For the sync function and for the async one. Not by identity: a lambda may be pickled.
        self._wants = [
            () if function is None else _functions.injected_arguments(function)
            for function in (self.func, self.afunc)
        ]

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

    async def _call(self, input: object, run: Run) -> object:
        function = self._choose(run)
        wants = self._wants[function is self.afunc]
        if run.manager is None and not run.call_config:
            if run.io.blocking and not wants and not run.kwargs:
                return await run.io.call(function, input)
            return await run.io.call(function, input, **_functions.extras(wants, run))
        with run.current():
            return await run.io.call(function, input, **_functions.extras(wants, run))

    async def _invoke_body(self, input: Input, run: Run) -> object:
        try:
            result = await self._call(input, run)
        except RecursionError as error:
            if isinstance(error, RecursionLimitError):  # raised by an inner call
                raise
            raise RecursionLimitError(
                f"{self.get_name()} calls functions too deep for Python's stack: end the recursion, return a "
                "runnable instead of invoking it, or raise sys.setrecursionlimit()"
            ) from error
        if isinstance(result, Runnable):
            return await result._step(input, self._deeper(run))
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            total: Any = NOTHING
            async with closing(run.io.each(result, run.current())) as chunks:
                async for chunk in chunks:
                    total = plus(total, chunk)
            return None if total is NOTHING else total
        return result

    def _deeper(self, run: Run) -> Run:
        remaining_depth = run.recursion_limit - 1
        if remaining_depth <= 0:
            raise RecursionLimitError(
                f"{self.get_name()} returned runnables that return runnables too deep: "
                "raise config['recursion_limit'] or end the recursion"
            )
        child = run.child()
        return Run(
            child.io,
            {**child.call_config, "recursion_limit": remaining_depth},
            child.manager,
            child.kwargs,
        )

    async def _stream_body(self, input: Input, run: Run) -> AsyncGenerator[Any, None]:
        result = await self._call(input, run)
        if isinstance(result, Runnable):
            stream = result._step_stream(input, self._deeper(run))
        elif inspect.isgenerator(result) or inspect.isasyncgen(result):
            stream = run.io.each(result, run.current())
        else:
            yield result
            return
        async with closing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    # -- types

    @cached_property
    def deps(self) -> list[Runnable[Any, Any]]:
        """The runnables that the function refers to: in its closure, and in its module."""
        values = get_function_nonlocals(self._function) if self._function is not None else []
        owners = [getattr(value, "__self__", value) for value in values]
        return [owner for owner in owners if isinstance(owner, Runnable)]

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of the runnables that the function refers to."""
        # Without other functions, which may refer to this one.
        runnables = [runnable for runnable in self.deps if not isinstance(runnable, RunnableLambda)]
        return _types.unique_specs(runnable.config_specs for runnable in runnables)

    @property
    def _function(self) -> Callable[..., Any] | None:
        return self.func or self.afunc

    @property
    def InputType(self) -> object:
        """The annotated type of the first parameter."""
        return _functions.parameter_type(self._function)

    @property
    def OutputType(self) -> object:
        """The annotated type of the result; for a generator, that of its items."""
        annotation = _functions.return_type(self._function)
        is_stream = inspect.isgeneratorfunction(self._function) or inspect.isasyncgenfunction(
            self._function
        )
        return _functions.item_type(annotation) if is_stream else annotation

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return a schema of the keys that the function reads from a dict, if its source shows them."""
        if self.InputType is not Any:
            return super().get_input_schema(config)
        keys = _functions.item_keys(self._function)
        if keys and not all(isinstance(key, str) for key in keys):
            return _types.value_model(self.get_name("Input"), list[Any])
        if not keys and self._function is not None:
            keys = tuple(sorted(get_function_first_arg_dict_keys(self._function) or ()))
        if not keys:
            return super().get_input_schema(config)
        return _types.object_model(self.get_name("Input"), dict.fromkeys(keys, (Any, ...)))

    # -- names

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunnableLambda):
            return False
        return self.func == other.func and self.afunc == other.afunc

    def __hash__(self) -> int:
        return hash((self.func, self.afunc))

    def __repr__(self) -> str:
        if isinstance(self.func, itemgetter):
            return f"RunnableLambda({str(self.func).removeprefix('operator.')})"
        if self.func is None:
            return f"RunnableLambda(afunc={self.name or '...'})"
        source = get_lambda_source(self.func)
        return f"RunnableLambda({'...' if source in (None, '<lambda>') else source})"
