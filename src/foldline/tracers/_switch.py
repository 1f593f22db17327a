"""The environment's switch for LangSmith: `LANGSMITH_TRACING=true` attaches a tracer to every run, or says why not."""

from __future__ import annotations

import os
import warnings
from functools import cache
from types import SimpleNamespace

from foldline.callbacks.hooks import register_configure_hook
from foldline.exceptions import MissingExtraError

__all__ = ["langsmith_tracer", "tracing_variable"]

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
    """Return the tracer of this process, where the environment asks for one.

    Read at the first run and kept, as LangSmith's own libraries do; `langsmith_tracer.cache_clear()` reads it again.
    """
    variable = tracing_variable()
    if variable is None:
        return None
    try:
        from foldline.tracers.langchain import LangChainTracer  # noqa: PLC0415  an extra
    except MissingExtraError as error:
        warnings.warn(f"{variable}=true, but no run is traced: {error}", UserWarning, stacklevel=2)
        return None
    return LangChainTracer()


# The cached function itself is asked, by every run: no frame of this file is entered for it.
register_configure_hook(SimpleNamespace(get=langsmith_tracer), inheritable=True)
