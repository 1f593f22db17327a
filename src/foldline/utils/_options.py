"""Checks the options of a function when it is called: unknown names, values of another type, and ranges.

`@check_options()` reads the function's annotations at its first call. An error names the function, the option, the
value, and what to pass instead.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from foldline.exceptions import UsageError
from foldline.utils._suggest import argument_names
from foldline.utils.strings import suggestion

__all__ = ["check_field_names", "check_fields", "check_names", "check_options", "fits"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
UNIONS = (Union, types.UnionType)


def check_options(
    *,
    at_least: Mapping[str, float] | None = None,
    advice: Mapping[str, str] | None = None,
    skip: Collection[str] = (),
) -> Callable[[FunctionT], FunctionT]:
    """Decorate a function, or the `__init__` of a class: its options are checked before it runs.

    `at_least` has the smallest value of some numbers; `advice` what to write instead of names of other libraries; the
    function itself checks the options in `skip`.

    ```python
    from foldline.utils._options import check_options

    @check_options(at_least={"size": 1})
    def split(text: str, *, size: int = 3) -> list[str]:
        return [text[start : start + size] for start in range(0, len(text), size)]

    try:
        split("hello", sise=2)
    except ValueError as error:
        print(error)
        #> split has no option 'sise' (did you mean 'size'?): its options are text, size
    ```
    """

    def decorate(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        hints: dict[str, Any] = {}

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> object:
            owner = _owner(function, args)
            if not any(
                parameter.kind is parameter.VAR_KEYWORD
                for parameter in signature.parameters.values()
            ):
                names = [name for name in signature.parameters if name != "self"]
                check_names(owner, kwargs, names, advice)
            if not hints:
                hints.update(_hints(function))
            for name, value in signature.bind_partial(*args, **kwargs).arguments.items():
                if name in hints and name not in skip:
                    kind = signature.parameters[name].kind
                    values = value if kind is inspect.Parameter.VAR_POSITIONAL else (value,)
                    for item in () if kind is inspect.Parameter.VAR_KEYWORD else values:
                        _check_value(owner, name, item, hints[name], (at_least or {}).get(name))
            return function(*args, **kwargs)

        return cast("FunctionT", call)

    return decorate


def check_fields(instance: object, *, at_least: Mapping[str, float] | None = None) -> None:
    """Check the fields of a dataclass; for its `__post_init__`."""
    for name, annotation in get_type_hints(type(instance), include_extras=True).items():
        minimum = (at_least or {}).get(name)
        _check_value(type(instance).__name__, name, getattr(instance, name), annotation, minimum)


def check_field_names(cls: Any, values: object) -> None:  # noqa: ANN401  a class of Pydantic, whose import takes time
    """Raise `UsageError` for an argument that a Pydantic class does not have, and would ignore."""
    if not isinstance(values, dict) or cls.model_config.get("extra") in ("allow", "forbid"):
        return
    aliases = argument_names(cls) - cls.model_fields.keys()
    check_names(cls.__name__, map(str, values), [*cls.model_fields, *sorted(aliases)])


def check_names(
    owner: str,
    names: Iterable[str],
    known: Iterable[str],
    advice: Mapping[str, str] | None = None,
) -> None:
    """Raise `UsageError` for an option that is not known, with the nearest one."""
    known = list(known)
    for name in names:
        if name not in known:
            if advice and name in advice:
                raise UsageError(f"{owner} has no option {name!r}: {advice[name]}")
            raise UsageError(
                f"{owner} has no option {name!r}{suggestion(name, known)}: its options are {', '.join(known)}"
            )


def fits(value: object, annotation: Any) -> bool:  # noqa: ANN401  what an annotation can be
    """Return whether a value is of an annotated type; True for what cannot be decided.

    ```python
    from foldline.utils._options import fits

    print(fits(["a"], list[str]), fits("a", list[str]), fits(True, int), fits(1, float))
    #> True False False True
    ```
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return fits(value, arguments[0])
    if origin in UNIONS:
        return any(fits(value, option) for option in arguments)
    if origin is Literal:
        return any(value == option and isinstance(value, type(option)) for option in arguments)
    if annotation is None or annotation is type(None):
        return value is None
    if origin is not None:
        return _fits_generic(value, origin, arguments)
    return _fits_class(value, annotation)


def _fits_generic(value: object, origin: Any, arguments: tuple[Any, ...]) -> bool:  # noqa: ANN401  what an origin can be
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type)
    if not _fits_class(value, origin) or (isinstance(value, str) and origin is not str):
        return False
    return _fits_items(value, origin, arguments)


def _fits_items(value: object, origin: Any, arguments: tuple[Any, ...]) -> bool:  # noqa: ANN401  what an origin can be
    if isinstance(value, Mapping) and len(arguments) == 2:
        return all(
            fits(key, arguments[0]) and fits(item, arguments[1]) for key, item in value.items()
        )
    if isinstance(value, tuple) and origin is tuple and arguments[-1] is not ...:
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if isinstance(value, list | tuple | set | frozenset) and arguments:
        return all(fits(item, arguments[0]) for item in value)
    return True


def _fits_class(value: object, annotation: Any) -> bool:  # noqa: ANN401  what an annotation can be
    if is_typeddict(annotation):
        return isinstance(value, Mapping)
    if not isinstance(annotation, type) or annotation is object:
        return True
    if annotation in (int, float) and isinstance(value, bool):
        return False
    if annotation in (int, float):  # those of NumPy too
        return isinstance(value, Integral if annotation is int else Real)
    try:
        return isinstance(value, annotation)
    except TypeError:  # a protocol that is not checked at run time
        return True


def _check_value(
    owner: str,
    name: str,
    value: object,
    annotation: Any,  # noqa: ANN401  what an annotation can be
    minimum: float | None,
) -> None:
    if not fits(value, annotation):
        raise UsageError(
            f"{owner}({name}={value!r:.80}): {name} must be {_text(annotation)}, not {type(value).__name__}"
        )
    if minimum is not None and isinstance(value, Real) and value < minimum:
        raise UsageError(f"{owner}({name}={value!r}): {name} must be {minimum} or more")


def _text(annotation: Any) -> str:  # noqa: ANN401  what an annotation can be
    """Return an annotation as it is written in a program."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in UNIONS:
        return " | ".join(_text(option) for option in arguments)
    if origin is Literal:
        return " | ".join(map(repr, arguments))
    if annotation is type(None):
        return "None"
    if origin is not None and arguments:
        inner = ", ".join(
            "..." if item is ... else _text(item)
            for item in arguments
            if not isinstance(item, list)
        )
        return f"{getattr(origin, '__name__', origin)}[{inner}]"
    return getattr(annotation, "__name__", str(annotation))


def _owner(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    if function.__name__ == "__init__":
        return type(args[0]).__name__
    return function.__qualname__ if "<locals>" not in function.__qualname__ else function.__name__


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    hints: dict[str, Any] = {"return": None}
    for name, annotation in inspect.get_annotations(function).items():
        holder = types.SimpleNamespace(
            __annotations__={name: annotation}, __globals__=inspect.unwrap(function).__globals__
        )
        with suppress(NameError):  # of a name that is imported for type checkers only
            hints |= get_type_hints(holder, include_extras=True)
    return hints
