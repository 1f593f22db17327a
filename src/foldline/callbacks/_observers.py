"""`RunObserver`: what tracers record of a run besides the arguments of its callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from foldline.utils._trace_context import TraceContext

__all__ = ["PAUSE", "RunObserver"]

PAUSE = "pause"
"""The event of a graph that stopped before a node (`interrupt_before`) and waits to be continued."""


class RunObserver:
    """A base class of handlers that record the config of a run and values that its code obtained, without waiting."""

    def on_run_config(self, run_id: UUID, configurable: Mapping[str, Any]) -> None:
        """Take `configurable` of a run, just before it starts. It may hold secrets: record chosen keys only."""

    def trace_context(self, run_id: UUID) -> TraceContext | None:
        """Return the span of a run that lasts, for the requests that it sends; None if it has none."""
        return None

    def on_run_event(self, run_id: UUID, name: str, details: dict[str, Any]) -> None:
        """Take something that happened in a run: a time or a random number it drew, what it read from a store."""
