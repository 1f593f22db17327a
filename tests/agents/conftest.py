"""Shared by the agents' tests: two small tools, and a handler that records its calls."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.callbacks import BaseCallbackHandler
from foldline.tools import tool
from tests.servers.databases import postgres_server

__all__ = ["Recorder", "add", "fail", "postgres_server"]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


class Recorder(BaseCallbackHandler):
    """Writes down every start and end, with the names of runs and their parents."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.names: dict[Any, str] = {}
        self.parents: dict[str, str | None] = {}

    def _start(self, kind: str, name: str, run_id: Any, parent: Any) -> None:
        self.names[run_id] = name
        self.parents[name] = self.names.get(parent)
        self.events.append((f"{kind}_start", name))

    def _end(self, event: str, run_id: Any) -> None:
        self.events.append((event, self.names[run_id]))

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **kwargs):
        self._start("chain", kwargs.get("name") or "?", run_id, parent_run_id)

    def on_chain_end(self, outputs, *, run_id, **kwargs):
        self._end("chain_end", run_id)

    def on_chain_error(self, error, *, run_id, **kwargs):
        self._end("chain_error", run_id)

    def on_chat_model_start(self, serialized, messages, *, run_id, parent_run_id=None, **kwargs):
        self._start("llm", kwargs.get("name") or "model", run_id, parent_run_id)

    def on_llm_end(self, response, *, run_id, **kwargs):
        self._end("llm_end", run_id)

    def on_llm_error(self, error, *, run_id, **kwargs):
        self._end("llm_error", run_id)

    def on_tool_start(self, serialized, input_str, *, run_id, parent_run_id=None, **kwargs):
        self._start("tool", serialized["name"], run_id, parent_run_id)

    def on_tool_end(self, output, *, run_id, **kwargs):
        self._end("tool_end", run_id)

    def on_tool_error(self, error, *, run_id, **kwargs):
        self._end("tool_error", run_id)

    def starts(self) -> int:
        return sum(event.endswith("_start") for event, _ in self.events)

    def ends(self) -> int:
        return len(self.events) - self.starts()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
