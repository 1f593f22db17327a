"""The runs of many prompts: callbacks, tags and metadata for all of them, or a list with one for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.language_models.base import Params

__all__ = ["PerPrompt", "runs_of_prompts"]

PerPrompt = Any
"""One value for all prompts, or a list with one for each."""


def runs_of_prompts(
    io: IO,
    prompts: object,
    callbacks: PerPrompt,
    tags: PerPrompt,
    metadata: PerPrompt,
    run_name: PerPrompt,
    run_id: UUID | list[UUID | None] | None,
    kwargs: Params,
) -> list[Run]:
    """Return the run of each prompt."""
    if not isinstance(prompts, list):
        return []
    count = len(prompts)
    columns = {
        "callbacks": _column(callbacks, count, lambda value: not value or _is_per_prompt(value)),
        "tags": _column(tags, count, _is_per_prompt),
        "metadata": _column(metadata, count, lambda value: isinstance(value, list)),
        "run_name": _column(run_name, count, lambda value: isinstance(value, list)),
        # An id belongs to one run: the first.
        "run_id": list(run_id) if isinstance(run_id, list) else [run_id, *[None] * count][:count],
    }
    configs = [
        {name: values[index] for name, values in columns.items() if values[index] is not None}
        for index in range(count)
    ]
    return [Run.root(io, cast("RunnableConfig", config), kwargs) for config in configs]


def _is_per_prompt(value: PerPrompt) -> bool:
    """Return whether a value is a list of lists, or of managers: one for each prompt."""
    return isinstance(value, list) and bool(value) and not _is_plain(value[0])


def _is_plain(item: object) -> bool:
    return isinstance(item, str) or (hasattr(item, "on_llm_end") and not hasattr(item, "handlers"))


def _column(value: PerPrompt, count: int, is_per_prompt: Callable[[PerPrompt], bool]) -> list[Any]:
    if isinstance(value, list) and value and is_per_prompt(value):
        if len(value) != count:
            raise UsageError(
                f"one value per prompt is needed: {count} prompts, {len(value)} values"
            )
        return value
    return [value] * count
