"""The matrix of options: what happens with a wrong value of each public option.

A file of this folder lists its targets and its rows as data; its test walks them:

- `wrong_outcome(row, target)` runs one row, and returns what is wrong with what happened, or "".
- `options_without_row(targets, rows)` finds the options that nobody wrote a row for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

__all__ = [
    "Outcome",
    "Row",
    "Target",
    "options_of",
    "options_without_row",
    "targets_without_unknown_option",
    "wrong_outcome",
]

Outcome = Literal["error at construction", "error at the call", "sent on"]


@dataclass(frozen=True)
class Row:
    """One wrong value of one option. An option that the target does not have is a row for unknown keywords."""

    target: str
    option: str
    value: Any
    outcome: Outcome
    match: str
    """A piece of the error's text; for "sent on" a piece of the text of what was sent."""

    def __str__(self) -> str:
        value = getattr(self.value, "__name__", None) or repr(self.value)
        return f"{self.target}({self.option}={value[:40]})"


@dataclass(frozen=True)
class Target:
    """A class or function with options: how to build it, and how to call what was built."""

    options: frozenset[str]
    build: Callable[..., Any]
    """Takes the option of a row as a keyword, and fills in what else is required."""
    call: Callable[[Any], Any] = field(default=lambda built: built)
    """Takes what was built; returns what was sent, where a row says "sent on"."""


def options_of(thing: Any, *, without: Iterable[str] = ()) -> frozenset[str]:
    """Return the names of the options: the fields of a model, or the parameters of a function."""
    if inspect.isclass(thing) and issubclass(thing, BaseModel):
        names = set(thing.model_fields)
    else:
        parameters = inspect.signature(thing).parameters.values()
        names = {
            parameter.name
            for parameter in parameters
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }
    return frozenset(names - {"self", "cls"} - set(without))


def options_without_row(targets: dict[str, Target], rows: Iterable[Row]) -> list[str]:
    """Return the options, as `target(option)`, that have no row."""
    known = {(row.target, row.option) for row in rows}
    return [
        f"{name}({option})"
        for name, target in targets.items()
        for option in sorted(target.options)
        if (name, option) not in known
    ]


def targets_without_unknown_option(targets: dict[str, Target], rows: Iterable[Row]) -> list[str]:
    """Return the targets that have no row for a keyword that they do not know."""
    known = {row.target for row in rows if row.option not in targets[row.target].options}
    return sorted(targets.keys() - known)


def wrong_outcome(row: Row, target: Target) -> str:
    """Run a row; return how its outcome differs from the promised one, or an empty text."""
    stage: Outcome = "error at construction"
    try:
        built = target.build(**{row.option: row.value})
        stage = "error at the call"
        sent = target.call(built)
    except Exception as error:  # noqa: BLE001  which error it is, is what the row says
        return _wrong_error(row, stage, error)
    if row.outcome != "sent on":
        return f"it was accepted: {sent!r}"
    return "" if row.match in repr(sent) else f"it was not sent on: {sent!r}"


def _wrong_error(row: Row, stage: Outcome, error: Exception) -> str:
    text = str(error)
    if stage != row.outcome:
        return f"{stage}, not {row.outcome}: {type(error).__name__}: {text}"
    if row.option.lower() not in text.lower():
        return f"the error does not name {row.option}: {type(error).__name__}: {text}"
    return "" if row.match in text else f"{type(error).__name__}: {text}"
