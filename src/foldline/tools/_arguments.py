"""Reads the parameters of a function, and which of them the program passes instead of the model.

The program passes a parameter that is annotated `Annotated[X, InjectedToolArg]` (or a subclass), whose type is such a
marker itself (`runtime: ToolRuntime`), that is a `RunnableConfig`, or that is named `run_manager` or `callbacks`.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions

from foldline._config import RunnableConfig
from foldline._io.waiting import is_async_callable
from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.utils._short_repr import short_repr

FILTERED_ARGS = ("run_manager", "callbacks")
"""Parameters that the program passes because of their name."""

Parameter = inspect.Parameter
VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class InjectedToolArg:
    """Mark an argument that the program passes and the model never sees: `Annotated[str, InjectedToolArg]`."""

    __repr__ = short_repr


class InjectedToolCallId(InjectedToolArg):
    """Mark an argument that is the id of the call: `Annotated[str, InjectedToolCallId]`."""


class _DirectlyInjectedToolArg:
    """Base of types whose parameters are injected without `Annotated`."""


INJECTION_MARKERS = (InjectedToolArg, _DirectlyInjectedToolArg)


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a function, with its annotation resolved."""

    name: str
    annotation: Any
    default: Any
    kind: Any


def read_arguments(function: Callable[..., Any]) -> list[Argument]:
    """Return the parameters of a function, a bound method, a partial or a callable object."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C have no signature
        return [Argument("kwargs", Any, Parameter.empty, Parameter.VAR_KEYWORD)]
    hints = resolved_hints(function)
    return [
        Argument(name, hints.get(name, _unresolved(parameter)), parameter.default, parameter.kind)
        for name, parameter in parameters.items()
    ]


def _unresolved(parameter: Parameter) -> object:
    return Any if parameter.annotation is Parameter.empty else parameter.annotation


def resolved_hints(function: object) -> dict[str, Any]:
    """Return the annotations of a function as types; those that cannot be resolved are left out."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        function = function.__init__  # type: ignore[misc]  # the class's own `__init__`
    elif not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return typing_extensions.get_type_hints(function, include_extras=True)
    except NameError:  # a name is unknown: resolve the annotations one at a time
        return dict(_resolve_each(function))
    except TypeError:
        return {}


def _resolve_each(function: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  a function, a class or a method
    inner = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    names = {**getattr(inner, "__globals__", {}), **_closure(inner)}
    for name, annotation in inner.__annotations__.items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            yield from typing_extensions.get_type_hints(holder, names, include_extras=True).items()
        except NameError:
            continue


def _closure(function: object) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    variables = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            variables[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return variables


# -- what the program passes


def is_injected(
    annotation: object, mark: type[Any] | tuple[type[Any], ...] = INJECTION_MARKERS
) -> bool:
    """Whether the program, not the model, passes an argument with this annotation."""
    if isinstance(annotation, type):
        return issubclass(annotation, mark)
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        return is_injected(inner, mark) or any(_is_mark(item, mark) for item in notes)
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(is_injected(item, mark) for item in get_args(annotation))
    return isinstance(origin, type) and issubclass(origin, mark)


def _is_mark(value: object, mark: type[Any] | tuple[type[Any], ...]) -> bool:
    return issubclass(value, mark) if isinstance(value, type) else isinstance(value, mark)


def is_config(annotation: object) -> bool:
    """Whether a parameter takes the config of the call."""
    if isinstance(annotation, str):  # its import may be for type checkers only
        return "RunnableConfig" in annotation
    if annotation is RunnableConfig:
        return True
    return get_origin(annotation) in (Union, types.UnionType, Annotated) and any(
        is_config(item) for item in get_args(annotation) if not isinstance(item, str)
    )


def config_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes the config, if there is one."""
    return next(
        (argument.name for argument in read_arguments(function) if is_config(argument.annotation)),
        None,
    )


def schema_arguments(arguments: list[Argument]) -> list[Argument]:
    """Return the arguments without the config and those passed by name; injected ones stay."""
    selected = [
        argument
        for argument in arguments
        if argument.name not in FILTERED_ARGS and not is_config(argument.annotation)
    ]
    for argument in selected:
        if isinstance(argument.annotation, str):
            raise UsageError(
                f"the annotation {argument.annotation!r} of {argument.name!r} cannot be found: define it at "
                "module level, or import it at run time"
            )
    return selected


def is_unbound_method(function: object) -> bool:
    """Whether this is a function of a class body whose `self` or `cls` is not bound."""
    if not inspect.isfunction(function):
        return False
    scopes = function.__qualname__.split(".")
    if len(scopes) < 2 or scopes[-2] == "<locals>":
        return False
    return next(iter(inspect.signature(function).parameters), None) in ("self", "cls")


# -- how it is called


class Target:
    """A function to call with validated arguments; its signature is read once."""

    __slots__ = (
        "_by_position",
        "config",
        "filled_names",
        "function",
        "is_async",
        "names",
        "var_keyword",
        "var_positional",
    )

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.is_async = is_async_callable(function)
        arguments = read_arguments(function)
        self.config = next(
            (argument.name for argument in arguments if is_config(argument.annotation)), None
        )
        self.filled_names = tuple(
            argument.name for argument in arguments if argument.name in FILTERED_ARGS
        )
        self.names = frozenset(argument.name for argument in arguments)
        kinds = {argument.kind: argument.name for argument in arguments}
        self.var_positional = kinds.get(Parameter.VAR_POSITIONAL)
        self.var_keyword = kinds.get(Parameter.VAR_KEYWORD)
        needs_positions = self.var_positional or Parameter.POSITIONAL_ONLY in kinds
        self._by_position = (
            tuple(argument.name for argument in arguments if argument.kind in BY_POSITION)
            if needs_positions
            else ()
        )

    @property
    def takes_any_name(self) -> bool:
        """Whether the function has `**kwargs`."""
        return self.var_keyword is not None

    def bind(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments by position and by keyword; `*args` and `**kwargs` are unpacked."""
        if self.var_keyword is None and not self._by_position and self.var_positional is None:
            return (), arguments
        keywords = dict(arguments)
        variadic = keywords.pop(self.var_positional, None) if self.var_positional else None
        extra = keywords.get(self.var_keyword) if self.var_keyword else None
        if self.var_keyword in keywords and (extra is None or isinstance(extra, Mapping)):
            keywords = {
                **{key: value for key, value in keywords.items() if key != self.var_keyword},
                **(extra or {}),
            }
        positional: list[Any] = []
        for name in self._by_position:
            if name not in keywords:  # the function's default applies: pass what follows by keyword
                break
            positional.append(keywords.pop(name))
        return (*positional, *(variadic or ())), keywords


publish("foldline.tools", InjectedToolArg, InjectedToolCallId)
