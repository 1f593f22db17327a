"""Tracers that join every run of a context, whoever starts it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from foldline.callbacks.hooks import register_configure_hook
from foldline.tracers.run_collector import RunCollectorCallbackHandler

__all__ = ["collect_runs", "register_configure_hook"]

_collecting: ContextVar[RunCollectorCallbackHandler | None] = ContextVar(
    "run_collector", default=None
)
register_configure_hook(_collecting, inheritable=True)


@contextmanager
def collect_runs() -> Generator[RunCollectorCallbackHandler, None, None]:
    """Collect every trace that begins inside the block.

    ```python
    from foldline.runnables import RunnableLambda
    from foldline.tracers.context import collect_runs

    with collect_runs() as runs:
        RunnableLambda(lambda x: x + 1).invoke(1)
    print(len(runs.traced_runs))
    #> 1
    ```
    """
    collector = RunCollectorCallbackHandler()
    token = _collecting.set(collector)
    try:
        yield collector
    finally:
        _collecting.reset(token)
