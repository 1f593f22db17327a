"""What counts as a step: a runnable, a function, a generator function, or a dict of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

from foldline.runnables.base import Runnable

RunnableLike: TypeAlias = Runnable[Any, Any] | Callable[..., Any] | Mapping[str, Any]
"""What can be a step."""


def coerce_to_runnable(thing: object) -> Runnable[Any, Any]:
    """Make a runnable of a function, a generator function or a dict; runnables stay as they are."""
    if isinstance(thing, Runnable):
        return thing
    if is_generator_function(thing):
        from foldline.runnables.generator import RunnableGenerator  # noqa: PLC0415  they coerce too

        return RunnableGenerator(thing)
    if isinstance(thing, Mapping):
        from foldline.runnables.parallel import RunnableParallel  # noqa: PLC0415

        return RunnableParallel(dict(thing))
    if callable(thing):
        from foldline.runnables.lambda_ import RunnableLambda  # noqa: PLC0415

        return RunnableLambda(thing)
    raise TypeError(
        f"a step must be a Runnable, a function or a dict of them, not {type(thing).__name__}: {thing!r}"
    )


def is_generator_function(thing: object) -> TypeGuard[Callable[..., Iterator[Any]]]:
    """Whether calling this gives a generator, blocking or async."""
    function: object = getattr(type(thing), "__call__", thing)  # noqa: B004
    return (
        inspect.isgeneratorfunction(thing)
        or inspect.isasyncgenfunction(thing)
        or (
            not inspect.isfunction(thing)
            and not isinstance(thing, type)
            and (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function))
        )
    )
