"""Shared by the tests of tools: a tool, a call of it, and a handler that records its calls."""

from __future__ import annotations

from typing import Any

from foldline.callbacks import BaseCallbackHandler
from foldline.tools import tool


def calling(name: str, args: Any = None, id: str | None = "call_1") -> dict[str, Any]:
    return {"type": "tool_call", "name": name, "args": {} if args is None else args, "id": id}


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.records: list[tuple[str, Any, dict[str, Any]]] = []

    def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
        self.records.append(("start", (serialized, input_str), kwargs))

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.records.append(("end", output, kwargs))

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        self.records.append(("error", error, kwargs))

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.records.append(("chain", inputs, kwargs))

    @property
    def events(self) -> list[str]:
        return [event for event, _, _ in self.records]
