"""The environment's switches: `FOLDLINE_TRACES=1` and `LANGSMITH_TRACING=true` attach a tracer to every run.

Where that cannot be, a warning says why, and the runs go on.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

from foldline.callbacks.hooks import register_configure_hook
from foldline.exceptions import MissingExtraError, StoreError
from foldline.utils._data_places import VARIABLE, traces_variable

if TYPE_CHECKING:
    from foldline.tracers._database_tracer import DatabaseTracer

__all__ = ["file_tracer", "langsmith_tracer", "tracing_variable"]

VARIABLES = (
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING",
)
"""The names under which LangSmith's own libraries know the switch, the first that is set counts."""


def tracing_variable() -> str | None:
    """Return the variable that switches tracing on; None where none does."""
    for variable in VARIABLES:
        if value := os.environ.get(variable):
            return variable if value.lower() == "true" else None
    return None


@cache
def langsmith_tracer() -> object:
    """Return the tracer of this process, if the environment enables one.

    Read at the first run and kept, as LangSmith's own libraries do; `langsmith_tracer.cache_clear()` reads it again.
    """
    variable = tracing_variable()
    if variable is None:
        return None
    try:
        from foldline.tracers.langchain import LangChainTracer  # noqa: PLC0415  an extra

        return LangChainTracer()
    except MissingExtraError as error:
        warnings.warn(f"{variable}=true, but no run is traced: {error}", UserWarning, stacklevel=2)
        return None


@cache
def file_tracer() -> DatabaseTracer | None:
    """Return the tracer into the file or the database that `FOLDLINE_TRACES` names; None where it names none.

    Read at the first run and kept; `file_tracer.cache_clear()` reads it again.
    """
    place = traces_variable()
    if place is None:
        return None
    from foldline.tracers._open import open_tracer  # noqa: PLC0415  most programs trace nothing

    try:
        return open_tracer(place)
    except (StoreError, MissingExtraError) as error:
        warnings.warn(
            f"{VARIABLE} is set, but no run is traced: {error}", UserWarning, stacklevel=2
        )
        return None


# Every run calls the cached function itself, without a frame of this file.
register_configure_hook(SimpleNamespace(get=langsmith_tracer), inheritable=True)
register_configure_hook(SimpleNamespace(get=file_tracer), inheritable=True)
