"""Finds the graphs that a node runs: the node itself, or graphs that its code names.

A function is not called for that: the names that its byte code loads are looked up where the function would find them,
in its closure, its globals and the object of a bound method, and attributes that the code reads of them.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from foldline.runnables.base import Runnable

__all__ = ["subgraphs_of"]

PARTS = ("func", "afunc", "bound", "first", "last", "middle", "steps", "runnable", "action")
"""Attributes of runnables that hold functions or other runnables."""


def subgraphs_of(action: object) -> list[Runnable[Any, Any]]:
    """Return the graphs that a node runs, each once, in the order in which its code names them."""
    found: dict[int, Any] = {}
    for value in _values(action, set()):
        if _is_graph(value):
            found.setdefault(id(value), value)
    return list(found.values())


def _is_graph(value: object) -> bool:
    return isinstance(value, Runnable) and hasattr(type(value), "graph_nodes")


def _values(value: object, seen: set[int]) -> Iterator[object]:
    """Yield what may be a graph: the value, the parts of a runnable, and what the code of a function names."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if _is_graph(value):
        yield value
        return
    if isinstance(value, Runnable):
        for name in PARTS:
            part = inspect.getattr_static(value, name, None)
            for item in part if isinstance(part, list | tuple) else (part,):
                if isinstance(item, Runnable) or callable(item):
                    yield from _values(item, seen)
        return
    function = _function_of(value)
    if function is not None:
        for named in _named_values(function):
            yield named
            if isinstance(named, Runnable):
                yield from _values(named, seen)


def _function_of(value: object) -> FunctionType | MethodType | None:
    """Return the function with the code of a callable."""
    while isinstance(value, partial):
        value = value.func
    if isinstance(value, FunctionType | MethodType):
        wrapped: object = inspect.unwrap(value)
        return wrapped if isinstance(wrapped, FunctionType | MethodType) else None
    if callable(value) and not isinstance(value, type):
        call: object = getattr(value, "__call__", None)  # noqa: B004  the bound method is needed
        return call if isinstance(call, MethodType) else None
    return None


def _named_values(function: FunctionType | MethodType) -> Iterator[object]:
    names: dict[str, object] = {}
    plain: Callable[..., Any] = function
    if isinstance(function, MethodType):
        plain = function.__func__
        code = getattr(plain, "__code__", None)
        if code is not None and code.co_varnames:
            names[code.co_varnames[0]] = function.__self__
    if not isinstance(plain, FunctionType):
        return
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    yield from _loaded(plain.__code__, names, plain.__globals__)


def _loaded(
    code: CodeType, names: Mapping[str, object], module: Mapping[str, object]
) -> Iterator[object]:
    """Yield the values that code loads by names that are known before it runs, and attributes of them."""
    current: object = None
    for instruction in dis.get_instructions(code):
        operation, argument = instruction.opname, instruction.argval
        if operation in ("LOAD_ATTR", "LOAD_METHOD"):
            current = _attribute(current, argument)
        elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = module.get(argument)
        elif operation.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            current = names.get(argument) if isinstance(argument, str) else None
        else:
            current = None
        if current is not None:
            yield current
    for constant in code.co_consts:
        if isinstance(constant, CodeType):  # a function, lambda or comprehension in it
            yield from _loaded(constant, names, module)


def _attribute(value: object, name: str) -> object:
    if value is None:
        return None
    try:
        found: object = getattr(value, name, None)
    except Exception:  # noqa: BLE001  a property of somebody's class
        return None
    return found
