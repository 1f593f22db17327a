"""Calls a user's function with its input and, if it has such parameters, `config` and `run_manager`."""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from operator import itemgetter
from typing import Any, get_args, get_origin, get_type_hints

from foldline._run import Run

EXTRAS = ("config", "run_manager")


def injected_arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of `config` and `run_manager` a function takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return ()
    return tuple(name for name in EXTRAS if name in parameters)


def extras(wants: tuple[str, ...], run: Run) -> dict[str, Any]:
    """Return the keyword arguments of a call: those of the caller, and those that the function asks for."""
    arguments = dict(run.kwargs)
    for name in wants:
        if name not in arguments:
            arguments[name] = run.config() if name == "config" else run.run_manager()
    return arguments


async def call(function: Callable[..., Any], value: object, run: Run) -> object:
    """Call a function; the runnables that it calls become children of this run."""
    with run.current():
        return await run.io.call(function, value, **extras(injected_arguments(function), run))


# -- annotations

STREAMS = (Iterator, AsyncIterator, Iterable, AsyncIterable, Generator, AsyncGenerator)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target: Any = function
    if not inspect.isroutine(function):
        target = getattr(type(function), "__call__", function)  # noqa: B004
    try:
        return get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        return dict(getattr(target, "__annotations__", {}))


def parameter_type(function: Callable[..., Any] | None) -> object:
    """Return the annotated type of the first parameter."""
    try:
        first = next(iter(inspect.signature(function).parameters), None)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return Any
    return _hints(function).get(first or "", Any) if function else Any


def return_type(function: Callable[..., Any] | None) -> object:
    """Return the annotated type of the result."""
    return _hints(function).get("return", Any) if function else Any


def item_type(annotation: object) -> object:
    """Return what a stream annotation iterates over: `str` of `Iterator[str]`."""
    arguments = get_args(annotation)
    return arguments[0] if arguments and get_origin(annotation) in STREAMS else Any


def item_keys(function: Callable[..., Any] | None) -> tuple[Any, ...]:
    """Return the keys that an `itemgetter` reads."""
    return tuple(function.__reduce__()[1]) if isinstance(function, itemgetter) else ()
