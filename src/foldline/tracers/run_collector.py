"""A tracer that keeps finished traces in a list."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from foldline.tracers.base import BaseTracer
from foldline.tracers.schemas import Run
from foldline.utils._options import check_options

__all__ = ["RunCollectorCallbackHandler"]


class RunCollectorCallbackHandler(BaseTracer):
    """Keeps finished traces in `traced_runs`: roots, children below."""

    name: str = "run-collector_callback_handler"
    run_inline = True

    @check_options()
    def __init__(self, example_id: UUID | str | None = None, **kwargs: Any) -> None:
        """`example_id` of LangChain belongs to a hosted service; it is kept and not used."""
        super().__init__(**kwargs)
        self.example_id: UUID | None = (
            UUID(example_id) if isinstance(example_id, str) else example_id
        )
        self.traced_runs: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.traced_runs.append(run)

    def _repr_html_(self) -> str:
        from foldline._display.runs import runs_html  # noqa: PLC0415  for notebooks only

        return runs_html(self.traced_runs)
