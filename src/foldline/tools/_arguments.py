"""What a function takes, read once: its parameters, and which of them the program fills in instead of the model.

A parameter is the program's if it is annotated `Annotated[X, InjectedToolArg]` (or a subclass), if its type is itself
such a mark (`runtime: ToolRuntime`), if it is a `RunnableConfig`, or if it is named `run_manager` or `callbacks`.
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
from foldline.utils.short_repr import short_repr

FILTERED_ARGS = ("run_manager", "callbacks")
"""Parameters that are filled in by their name."""

Parameter = inspect.Parameter
SPREAD = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class InjectedToolArg:
    """Mark an argument that the program gives and the model never sees: `Annotated[str, InjectedToolArg]`."""

    __repr__ = short_repr


class InjectedToolCallId(InjectedToolArg):
    """Mark an argument that is the id of the call: `Annotated[str, InjectedToolCallId]`."""


class _DirectlyInjectedToolArg:
    """Base of types that are injected wherever they annotate a parameter, without `Annotated`."""


MARKS = (InjectedToolArg, _DirectlyInjectedToolArg)


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a function, its annotation resolved."""

    name: str
    annotation: Any
    default: Any
    kind: Any


def read_arguments(function: Callable[..., Any]) -> list[Argument]:
    """Return the parameters of a function, a bound method, a partial or a callable object."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C say nothing of themselves
        return [Argument("kwargs", Any, Parameter.empty, Parameter.VAR_KEYWORD)]
    hints = resolved_hints(function)
    return [
        Argument(name, hints.get(name, _unresolved(parameter)), parameter.default, parameter.kind)
        for name, parameter in parameters.items()
    ]


def _unresolved(parameter: Parameter) -> object:
    return Any if parameter.annotation is Parameter.empty else parameter.annotation


def resolved_hints(function: object) -> dict[str, Any]:
    """Return the annotations of a function as types; one that cannot be found stays text."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        function = function.__init__  # type: ignore[misc]  # its own, whatever class it is
    elif not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return typing_extensions.get_type_hints(function, include_extras=True)
    except NameError:  # one name is unknown: the others are found one by one
        return dict(_one_by_one(function))
    except TypeError:
        return {}


def _one_by_one(function: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  a function, a class or a method
    inner = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    names = {**getattr(inner, "__globals__", {}), **_closure(inner)}
    for name, annotation in inner.__annotations__.items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            yield from typing_extensions.get_type_hints(alone, names, include_extras=True).items()
        except NameError:
            continue


def _closure(function: object) -> dict[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    found = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return found


# -- whose is it


def is_injected(annotation: object, mark: type[Any] | tuple[type[Any], ...] = MARKS) -> bool:
    """Say whether the program and not the model gives an argument of this annotation."""
    if isinstance(annotation, type):
        return issubclass(annotation, mark)
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return is_injected(inner, mark) or any(_is_mark(one, mark) for one in marks)
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(is_injected(one, mark) for one in get_args(annotation))
    return isinstance(origin, type) and issubclass(origin, mark)


def _is_mark(value: object, mark: type[Any] | tuple[type[Any], ...]) -> bool:
    return issubclass(value, mark) if isinstance(value, type) else isinstance(value, mark)


def is_config(annotation: object) -> bool:
    """Say whether a parameter takes the config of the call."""
    if isinstance(annotation, str):  # imported for checkers only, perhaps
        return "RunnableConfig" in annotation
    if annotation is RunnableConfig:
        return True
    return get_origin(annotation) in (Union, types.UnionType, Annotated) and any(
        is_config(one) for one in get_args(annotation) if not isinstance(one, str)
    )


def config_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes the config, if there is one."""
    return next(
        (argument.name for argument in read_arguments(function) if is_config(argument.annotation)),
        None,
    )


def for_the_model(arguments: list[Argument]) -> list[Argument]:
    """Leave out what is filled in by name or is the config; marked arguments stay."""
    kept = [
        argument
        for argument in arguments
        if argument.name not in FILTERED_ARGS and not is_config(argument.annotation)
    ]
    for argument in kept:
        if isinstance(argument.annotation, str):
            raise UsageError(
                f"the annotation {argument.annotation!r} of {argument.name!r} cannot be found: define it at "
                "module level, or import it at run time"
            )
    return kept


def is_unbound_method(function: object) -> bool:
    """Say whether this is a function of a class body that still waits for its `self` or `cls`."""
    if not inspect.isfunction(function):
        return False
    scopes = function.__qualname__.split(".")
    if len(scopes) < 2 or scopes[-2] == "<locals>":
        return False
    return next(iter(inspect.signature(function).parameters), None) in ("self", "cls")


# -- how it is called


class Target:
    """A function to be called with validated arguments, its signature read once."""

    __slots__ = (
        "_by_position",
        "config",
        "filled",
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
        self.config = next((one.name for one in arguments if is_config(one.annotation)), None)
        self.filled = tuple(one.name for one in arguments if one.name in FILTERED_ARGS)
        self.names = frozenset(one.name for one in arguments)
        kinds = {one.kind: one.name for one in arguments}
        self.var_positional = kinds.get(Parameter.VAR_POSITIONAL)
        self.var_keyword = kinds.get(Parameter.VAR_KEYWORD)
        needs_places = self.var_positional or Parameter.POSITIONAL_ONLY in kinds
        self._by_position = (
            tuple(one.name for one in arguments if one.kind in BY_POSITION) if needs_places else ()
        )

    @property
    def takes_any_name(self) -> bool:
        """Whether it has `**kwargs`."""
        return self.var_keyword is not None

    def bind(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Say by which places and names to pass the arguments; `*args` and `**kwargs` are spread."""
        if self.var_keyword is None and not self._by_position and self.var_positional is None:
            return (), arguments
        named = dict(arguments)
        spread = named.pop(self.var_positional, None) if self.var_positional else None
        more = named.get(self.var_keyword) if self.var_keyword else None
        if self.var_keyword in named and (more is None or isinstance(more, Mapping)):
            named = {
                **{key: one for key, one in named.items() if key != self.var_keyword},
                **(more or {}),
            }
        places: list[Any] = []
        for name in self._by_position:
            if name not in named:  # a default of the function's own: what follows goes by name
                break
            places.append(named.pop(name))
        return (*places, *(spread or ())), named


publish("foldline.tools", InjectedToolArg, InjectedToolCallId)
