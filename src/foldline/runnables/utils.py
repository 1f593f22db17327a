"""Helpers of runnables: values that add up, configurable fields, inspection of functions."""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing
from contextvars import Context
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

from foldline._io import ASYNC
from foldline._io.waiting import is_async_callable as is_async_callable
from foldline.exceptions import UsageError
from foldline.runnables._source import (
    FunctionNonLocals as FunctionNonLocals,
    GetLambdaSource as GetLambdaSource,
    IsFunctionArgDict as IsFunctionArgDict,
    IsLocalDict as IsLocalDict,
    NonLocals as NonLocals,
    get_function_first_arg_dict_keys as get_function_first_arg_dict_keys,
    get_function_nonlocals as get_function_nonlocals,
    get_lambda_source as get_lambda_source,
)
from foldline.runnables._trace import NOTHING

T = TypeVar("T")
Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class SupportsAdd(Protocol[T_contra, T_co]):
    """An object that has `+`."""

    def __add__(self, x: T_contra, /) -> T_co:
        """Add another."""


Addable = TypeVar("Addable", bound=SupportsAdd[Any, Any])


# -- configurable fields


class ConfigurableField(NamedTuple):
    """A setting whose value a config may set."""

    id: str
    """Its key in `config["configurable"]`."""
    name: str | None = None
    description: str | None = None
    annotation: Any = None
    """Its type, if it is not that of the setting."""
    is_shared: bool = False
    """Whether alternatives share it, so that its id gets no prefix."""


class ConfigurableFieldSingleOption(NamedTuple):
    """A setting for which a config may select one of several named values."""

    id: str
    options: Mapping[str, Any]
    """Name -> value."""
    default: str
    """The name of the default value."""
    name: str | None = None
    description: str | None = None
    is_shared: bool = False

    def __hash__(self) -> int:
        return hash((self.id, tuple(self.options), self.default))


class ConfigurableFieldMultiOption(NamedTuple):
    """A setting for which a config may select several of some named values."""

    id: str
    options: Mapping[str, Any]
    """Name -> value."""
    default: Sequence[str]
    """The names of the default values."""
    name: str | None = None
    description: str | None = None
    is_shared: bool = False

    def __hash__(self) -> int:
        return hash((self.id, tuple(self.options), tuple(self.default)))


AnyConfigurableField: TypeAlias = (
    ConfigurableField | ConfigurableFieldSingleOption | ConfigurableFieldMultiOption
)


class ConfigurableFieldSpec(NamedTuple):
    """The description of one configurable field of a runnable."""

    id: str
    annotation: Any
    name: str | None = None
    description: str | None = None
    default: Any = None
    is_shared: bool = False
    dependencies: list[str] | None = None


class AddableDict(dict[str, Any]):
    """A dict that can be added to others: new keys are added, values of the same key are summed.

    ```python
    from foldline.runnables import AddableDict

    print(AddableDict(text="a") + AddableDict(text="b", done=True))
    #> {'text': 'ab', 'done': True}
    ```
    """

    def __add__(self, other: dict[str, Any]) -> AddableDict:
        """Add another dict's values to this one's."""
        return _add_dicts(self, other)

    def __radd__(self, other: dict[str, Any]) -> AddableDict:
        """Add this dict's values to another one's."""
        return _add_dicts(other, self)


def _add_dicts(first: dict[str, Any], second: dict[str, Any]) -> AddableDict:
    total = AddableDict(first)
    for key, value in second.items():
        if total.get(key) is None:
            total[key] = value
        elif value is not None:
            try:
                total[key] = total[key] + value
            except TypeError:
                total[key] = value
    return total


def add(addables: Iterable[T]) -> T | None:
    """Return the sum of the items; None if there are none."""
    total: Any = NOTHING
    for item in addables:
        total = item if total is NOTHING else total + item
    return None if total is NOTHING else total


async def aadd(addables: AsyncIterable[T]) -> T | None:
    """Return the sum of the items of an async iterable; None if there are none."""
    total: Any = NOTHING
    async for item in addables:
        total = item if total is NOTHING else total + item
    return None if total is NOTHING else total


def get_unique_config_specs(specs: Iterable[ConfigurableFieldSpec]) -> list[ConfigurableFieldSpec]:
    """Return each configurable field once; raise if two different ones share an id."""
    by_id: dict[str, ConfigurableFieldSpec] = {}
    for spec in specs:
        first_spec = by_id.setdefault(spec.id, spec)
        if first_spec != spec:
            raise UsageError(
                f"two configurable fields share the id {spec.id!r}: {first_spec!r} and {spec!r}"
            )
    return [by_id[key] for key in sorted(by_id)]


# -- waiting


async def gather_with_concurrency(n: int | None, *coros: Coroutine[Any, Any, Any]) -> list[Any]:
    """Await all, at most `n` at once; return the results in order. The first error cancels the others."""
    coroutines = list(coros)
    results: list[Any] = [None] * len(coroutines)

    async def await_one(coro: Coroutine[Any, Any, Any]) -> object:
        return await coro

    try:
        async with aclosing(ASYNC.as_completed(await_one, coroutines, limit=n)) as outcomes:
            async for index, value, error in outcomes:
                if error is not None:
                    raise error
                results[index] = value
    finally:
        for coro in coroutines:
            coro.close()  # those that were never started; the others are finished
    return results


async def gated_coro(
    semaphore: AbstractAsyncContextManager[Any], coro: Coroutine[Any, Any, T]
) -> T:
    """Await a coroutine while holding a semaphore."""
    async with semaphore:
        return await coro


def coro_with_context(
    coro: Coroutine[Any, Any, T], context: Context, *, create_task: bool = False
) -> Awaitable[T]:
    """Run a coroutine concurrently, in a copy of a context."""
    return context.run(ASYNC.start, coro).result()


def asyncio_accepts_context() -> bool:
    """Return whether tasks can have a context: yes, since Python 3.11."""
    return True


# -- inspection of functions


def is_async_generator(func: object) -> TypeGuard[Callable[..., AsyncIterator[Any]]]:
    """Return whether calling this returns an async generator, also for objects with such a `__call__`."""
    return inspect.isasyncgenfunction(func) or inspect.isasyncgenfunction(
        getattr(type(func), "__call__", None)  # noqa: B004
    )


def _accepts(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (ValueError, TypeError):
        return False


def accepts_run_manager(callable: Callable[..., Any]) -> bool:
    """Return whether a function takes `run_manager`."""
    return _accepts(callable, "run_manager")


def accepts_config(callable: Callable[..., Any]) -> bool:
    """Return whether a function takes `config`."""
    return _accepts(callable, "config")


def accepts_context(callable: Callable[..., Any]) -> bool:
    """Return whether a function takes `context`."""
    return _accepts(callable, "context")


def indent_lines_after_first(text: str, prefix: str) -> str:
    """Indent all lines but the first by the width of a prefix."""
    return text.replace("\n", "\n" + " " * len(prefix))
