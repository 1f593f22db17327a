"""Constructor arguments, translated from their aliases to the names of the fields."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.utils._suggest import callers_level
from foldline.utils.strings import suggestion

__all__ = ["read_names"]


def read_names(cls: type[BaseModel], values: object, aliases: Mapping[str, str]) -> Any:  # noqa: ANN401  as a validator gets it
    """Return settings under field names; unknown ones are moved to `model_kwargs`, with a warning."""
    if not isinstance(values, dict):
        return values
    settings: dict[str, Any] = {}
    for name, value in values.items():
        field = aliases.get(str(name)) or str(name)
        if field in settings and settings[field] != value and None not in (value, settings[field]):
            raise UsageError(f"{cls.__name__}: {name} and {field} mean the same: give one")
        if field not in settings or value is not None:
            settings[field] = value
    unknown = [name for name in settings if name not in cls.model_fields]
    if unknown:
        descriptions = [f"{name}{suggestion(name, cls.model_fields)}" for name in sorted(unknown)]
        warnings.warn(
            f"{cls.__name__} does not know {', '.join(descriptions)}: sent as given, in model_kwargs",
            UserWarning,
            stacklevel=callers_level(),
        )
        extra = {name: settings.pop(name) for name in unknown}
        further = settings.get("model_kwargs") or {}
        if isinstance(further, Mapping):  # else the field's own type refuses it
            settings["model_kwargs"] = {**extra, **further}
    return settings
