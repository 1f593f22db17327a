"""Other names of settings: what a constructor was given, under the names of the fields."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.utils.strings import suggestion
from foldline.utils.suggest import callers_level

__all__ = ["read_names"]


def read_names(cls: type[BaseModel], values: object, aliases: Mapping[str, str]) -> object:
    """Return settings under the names of the fields; what no field is goes to `model_kwargs`, with a warning."""
    if not isinstance(values, dict):
        return values
    read: dict[str, Any] = {}
    for name, value in values.items():
        field = aliases.get(str(name)) or str(name)
        if field in read and read[field] != value and None not in (value, read[field]):
            raise UsageError(f"{cls.__name__}: {name} and {field} mean the same: give one")
        if field not in read or value is not None:
            read[field] = value
    unknown = [name for name in read if name not in cls.model_fields]
    if unknown:
        told = [f"{name}{suggestion(name, cls.model_fields)}" for name in sorted(unknown)]
        warnings.warn(
            f"{cls.__name__} does not know {', '.join(told)}: sent as given, in model_kwargs",
            UserWarning,
            stacklevel=callers_level(),
        )
        extra = {name: read.pop(name) for name in unknown}
        read["model_kwargs"] = {**extra, **(read.get("model_kwargs") or {})}
    return read
