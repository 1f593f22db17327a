"""Suggestions for mistyped names: the nearest known name, and a warning that is shown once."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Hashable, Iterable
from functools import cache
from typing import Any, cast

from foldline._traceback import HOME, WAITING_MODULES

__all__ = [
    "argument_names",
    "callers_level",
    "checked_names",
    "is_built_from_data",
    "nearest",
    "warn_of_typo",
    "warn_of_unknown",
]

LONGEST = 64
"""Longer names are not compared: the time grows with the square of the length."""

CONSTRUCTORS = ("__init__", "_check_extra", "_warn_of_unknown_arguments", "warn_of_unknown")
"""Functions of a constructor, which its caller does not call himself."""

checked_names: set[tuple[str, str]] = set()
"""Pairs of a place and a name for which a warning was given, or was not needed."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is at most two letters away (of a name of up to four letters: one), or None.

    ```python
    from foldline.utils._suggest import nearest

    print(nearest("temprature", ["temperature", "top_p"]))
    #> temperature
    ```
    """
    limit = 1 if len(name) < 5 else 2
    if len(name) < 2 or len(name) > LONGEST:
        return None
    best: tuple[int, str] | None = None
    for candidate in known:
        if abs(len(candidate) - len(name)) <= limit and len(candidate) > 2:
            match = (_distance(name.lower(), candidate.lower()), candidate)
            if match[0] <= limit and (best is None or match < best):
                best = match
    return None if best is None else best[1]


def warn_of_typo(where: str, name: str, known: Iterable[str], otherwise: str) -> None:
    """Warn once of a name that is near a known one; `otherwise` says how the name is treated."""
    if (where, name) in checked_names:
        return
    checked_names.add((where, name))
    near = nearest(name, known)
    if near is not None and near != name:
        warnings.warn(
            f"{where} does not know the option {name} (did you mean {near!r}?): {otherwise}",
            UserWarning,
            stacklevel=callers_level(),
        )


def warn_of_unknown(cls: type[Any], names: Iterable[str]) -> None:
    """Warn of arguments of a constructor that are no fields of its class, and so would be ignored in silence."""
    if cls.model_config.get("extra", "ignore") != "ignore":
        return
    unknown = sorted(set(names) - argument_names(cast("Hashable", cls)))
    if not unknown or is_built_from_data():
        return
    near = [(name, nearest(name, cls.model_fields)) for name in unknown]
    descriptions = [f"{name} (did you mean {match!r}?)" if match else name for name, match in near]
    warnings.warn(
        f"{cls.__name__} does not know {', '.join(descriptions)}: it has no effect",
        UserWarning,
        stacklevel=callers_level(),
    )


@cache
def argument_names(cls: Any) -> frozenset[str]:  # noqa: ANN401  a model's class
    """Return the names that a constructor takes: the fields, and their aliases."""
    names = set(cls.model_fields)
    for field in cls.model_fields.values():
        for alias in (field.alias, field.validation_alias):
            choices = getattr(alias, "choices", None) or [getattr(alias, "path", [alias])[0]]
            names |= {getattr(choice, "path", [choice])[0] for choice in choices}
    return frozenset(names - {None})


def callers_level() -> int:
    """Return the `stacklevel` for a warning in the calling function that shows the line that called foldline."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_machinery(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


def is_built_from_data() -> bool:
    """Whether foldline itself calls the constructor that is running, with names that came as data."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name in CONSTRUCTORS:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(HOME)


def _is_machinery(file: str) -> bool:
    return file.startswith((HOME, *WAITING_MODULES)) or f"{os.sep}pydantic{os.sep}" in file


def _distance(first: str, second: str) -> int:
    """Count the letters to change, add, omit or swap with their neighbour."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for place, letter in enumerate(first, start=1):
        earlier, before, row = before, row, [place]
        for other, candidate in enumerate(second, start=1):
            cost = min(before[other] + 1, row[-1] + 1, before[other - 1] + (letter != candidate))
            is_swap = place > 1 and other > 1 and letter == second[other - 2]
            if is_swap and candidate == first[place - 2]:
                cost = min(cost, earlier[other - 2] + 1)
            row.append(cost)
    return row[-1]
