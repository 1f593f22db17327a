"""Which arguments an author's method takes."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Final

__all__ = ["passes_argument"]

ALL_ARGUMENTS: Final = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


@cache
def passes_argument(cls: type[Any], method: str, name: str) -> bool:
    """Return whether a method has a parameter of this name, or takes all arguments as `(*args, **kwargs)`.

    `**kwargs` alone is not enough: authors send it on to their provider.
    """
    try:
        parameters = inspect.signature(getattr(cls, method)).parameters
    except (TypeError, ValueError):  # not a Python function
        return False
    kinds = {parameter.kind for parameter in parameters.values()}
    return name in parameters or kinds >= ALL_ARGUMENTS
