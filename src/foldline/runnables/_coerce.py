"""Conversion to runnables: of a function, a generator function, or a dict of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

from foldline.runnables.base import Runnable

RunnableLike: TypeAlias = Runnable[Any, Any] | Callable[..., Any] | Mapping[str, Any]
"""What can be converted to a runnable."""


def coerce_to_runnable(step: object) -> Runnable[Any, Any]:
    """Return a function, a generator function or a dict as a runnable; return a runnable as it is."""
    if isinstance(step, Runnable):
        return step
    if is_generator_function(step):
        from foldline.runnables.generator import RunnableGenerator  # noqa: PLC0415  they coerce too

        return RunnableGenerator(step)
    if isinstance(step, Mapping):
        from foldline.runnables.parallel import RunnableParallel  # noqa: PLC0415

        return RunnableParallel(dict(step))
    if callable(step):
        from foldline.runnables.lambda_ import RunnableLambda  # noqa: PLC0415

        return RunnableLambda(step)
    raise TypeError(
        f"a step must be a Runnable, a function or a dict of them, not {type(step).__name__}: {step!r}"
    )


def is_generator_function(value: object) -> TypeGuard[Callable[..., Iterator[Any]]]:
    """Return whether calling this returns a generator, sync or async."""
    function: object = getattr(type(value), "__call__", value)  # noqa: B004
    return (
        inspect.isgeneratorfunction(value)
        or inspect.isasyncgenfunction(value)
        or (
            not inspect.isfunction(value)
            and not isinstance(value, type)
            and (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function))
        )
    )
