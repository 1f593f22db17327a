"""Tools that start while the message still streams; a result counts only if its call is in the complete message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from foldline._io import RunningBody
from foldline.agents._run_context import AgentContext
from foldline.agents._tool_runner import ToolRunner
from foldline.messages.tool import ToolCall
from foldline.workflows.interrupts import FlowInterrupt

__all__ = ["EagerTools"]

Outcome = tuple[Any, BaseException | None]


class EagerTools:
    """The calls of one answer that run before the answer is complete."""

    def __init__(self, context: AgentContext, runner: ToolRunner) -> None:
        self.context = context
        self.runner = runner
        self._started: dict[str, tuple[ToolCall, RunningBody]] = {}

    def start(self, block: Mapping[str, Any]) -> None:
        """Start the tool of a finished block, if it is a call of a tool marked `eager`."""
        eager = self.context.setup.eager
        if block.get("type") != "tool_call" or block.get("name") not in eager:
            return
        if not block.get("id"):
            return
        call = cast(
            "ToolCall", {key: block[key] for key in ("name", "args", "id")} | {"type": "tool_call"}
        )

        async def body() -> Outcome:
            try:
                return await self.runner.run(call, self.context.run), None
            except (Exception, FlowInterrupt) as error:  # noqa: BLE001
                return None, error

        self._started[call["id"] or ""] = (call, self.context.io.start(body()))

    def take(self, call: ToolCall) -> RunningBody | None:
        """Return the task of a call that was started early; None if it was not."""
        entry = self._started.pop(call["id"] or "", None) if self._started else None
        return None if entry is None else entry[1]

    def drop_stale(self, calls: list[ToolCall]) -> None:
        """Cancel the tools whose call is not in the complete message."""
        final_args = {call["id"]: call["args"] for call in calls}
        for id, (call, started) in list(self._started.items()):
            if final_args.get(id) != call["args"]:
                started.cancel()
                del self._started[id]

    def drop(self) -> None:
        """Cancel all tools that were started for an answer that is discarded."""
        dropped, self._started = self._started, {}
        for _, started in dropped.values():
            started.cancel()
