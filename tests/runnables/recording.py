"""A handler that records its calls, for tests of traces."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from foldline.callbacks.base import BaseCallbackHandler


class Recorder(BaseCallbackHandler):
    """Keeps every start, end and error of a chain."""

    run_inline = True

    def __init__(self) -> None:
        self.started: dict[UUID, dict[str, Any]] = {}
        self.finished: list[tuple[UUID, str, Any]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        assert run_id not in self.started, "started twice"
        self.started[run_id] = {"inputs": inputs, **kwargs}

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.finished.append((run_id, "end", outputs))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self.finished.append((run_id, "error", error))

    def names(self) -> list[str]:
        return [run["name"] for run in self.started.values()]

    def tags_of(self, name: str) -> list[str]:
        return next(run["tags"] for run in self.started.values() if run["name"] == name)

    def parent_of(self, name: str) -> str | None:
        parent = next(run["parent_run_id"] for run in self.started.values() if run["name"] == name)
        return self.started[parent]["name"] if parent else None

    def endings(self) -> dict[str, str]:
        return {self.started[run_id]["name"]: kind for run_id, kind, _ in self.finished}

    def outputs(self) -> dict[str, Any]:
        return {self.started[run_id]["name"]: output for run_id, _, output in self.finished}

    def check(self) -> None:
        """Every started run has exactly one end or error."""
        ended_ids = [run_id for run_id, _, _ in self.finished]
        assert sorted(ended_ids) == sorted(self.started), (self.names(), self.endings())
