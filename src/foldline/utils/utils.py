"""Small checks under LangChain's names; the path is LangChain's."""

from __future__ import annotations

import contextlib
import datetime
import functools
import importlib
import importlib.metadata
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol
from uuid import uuid4

from pydantic import BaseModel, SecretStr

from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils.env import from_env, secret_from_env

__all__ = [
    "build_extra_kwargs",
    "check_package_version",
    "convert_to_secret_str",
    "ensure_id",
    "from_env",
    "get_pydantic_field_names",
    "guard_import",
    "mock_now",
    "raise_for_status_with_text",
    "secret_from_env",
    "xor_args",
]


class _Response(Protocol):
    text: str

    def raise_for_status(self) -> object: ...


def xor_args(*arg_groups: tuple[str, ...]) -> Callable[..., Any]:
    """Return a decorator that requires exactly one keyword of each group."""

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: object, **kwargs: object) -> object:
            for group in arg_groups:
                names = [name for name in group if kwargs.get(name) is not None]
                if len(names) != 1:
                    raise UsageError(
                        f"pass exactly one of {', '.join(group)}; got {names or 'none'}"
                    )
            return func(*args, **kwargs)

        return wrapper

    return decorator


def raise_for_status_with_text(response: _Response) -> None:
    """Raise for an HTTP error, with the text of the answer."""
    try:
        response.raise_for_status()
    except Exception as error:
        raise ValueError(response.text) from error


@contextlib.contextmanager
def mock_now(dt_value: datetime.datetime) -> Iterator[type]:
    """Let `datetime.datetime.now()` return `dt_value` inside the `with` block, in the whole process.

    Modules that took the class before (`from datetime import datetime`) keep the real clock.
    """
    real = datetime.datetime

    class MockDateTime(real):  # type: ignore[valid-type, misc]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return dt_value if tz is None else dt_value.astimezone(tz)

    datetime.datetime = MockDateTime  # type: ignore[misc]
    try:
        yield MockDateTime
    finally:
        datetime.datetime = real  # type: ignore[misc]


def guard_import(
    module_name: str, *, pip_name: str | None = None, package: str | None = None
) -> ModuleType:
    """Import an optional module; raise with how to install it."""
    try:
        return importlib.import_module(module_name, package)
    except ImportError as error:
        name = pip_name or module_name.split(".")[0].replace("_", "-")
        raise MissingExtraError(f"{module_name} is not installed: pip install {name}") from error


def check_package_version(
    package: str,
    lt_version: str | None = None,
    lte_version: str | None = None,
    gt_version: str | None = None,
    gte_version: str | None = None,
) -> None:
    """Raise unless the installed version of a package is within bounds."""
    text = importlib.metadata.version(package)
    version = _release(text)
    bounds: tuple[tuple[str, str | None, Callable[[Any, Any], Any]], ...] = (
        ("<", lt_version, operator.lt),
        ("<=", lte_version, operator.le),
        (">", gt_version, operator.gt),
        (">=", gte_version, operator.ge),
    )
    for sign, bound, holds in bounds:
        if bound is not None and not holds(version, _release(bound)):
            raise UsageError(f"{package} {text} is installed, and {package}{sign}{bound} is needed")


def get_pydantic_field_names(pydantic_cls: type[BaseModel]) -> set[str]:
    """Return the names and aliases of a model's fields."""
    fields = pydantic_cls.model_fields
    return set(fields) | {field.alias for field in fields.values() if field.alias}


def build_extra_kwargs(
    extra_kwargs: dict[str, Any], values: dict[str, Any], all_required_field_names: set[str]
) -> dict[str, Any]:
    """Collect the arguments that are not fields of a model, with a warning for each."""
    gathered = dict(extra_kwargs)
    for name in [name for name in values if name not in all_required_field_names]:
        if name in gathered:
            raise UsageError(f"{name!r} is given twice, directly and in model_kwargs")
        warnings.warn(f"{name!r} is not a parameter; it goes into model_kwargs", stacklevel=3)
        gathered[name] = values.pop(name)
    if field_names := sorted(all_required_field_names.intersection(gathered)):
        raise UsageError(f"{field_names} are parameters: pass them directly, not in model_kwargs")
    return gathered


def convert_to_secret_str(value: SecretStr | str) -> SecretStr:
    """Wrap a text in a `SecretStr`."""
    return value if isinstance(value, SecretStr) else SecretStr(value)


def ensure_id(id_val: str | None) -> str:
    """Return the id, or a new one with the prefix of generated ids."""
    return f"lc_{uuid4()}" if id_val is None else id_val


def _release(version: str) -> tuple[int, ...]:
    """Read the numbers of a release; 1.10 is later than 1.9, and 2.0 is 2."""
    match = re.match(r"v?(?:\d+!)?(\d+(?:\.\d+)*)", version)
    if match is None:
        raise UsageError(f"{version!r} is not a version")
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
