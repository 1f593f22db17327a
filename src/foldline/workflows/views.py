"""What `stream(stream_mode=…)` gives for agents, flows and graphs: views of a run's events, in LangGraph's shapes.

updates    {step: what it changed}; {"__interrupt__": (…)} when the run stops for a person
values     the whole state, after each step
messages   (chunk, metadata) pieces of every model's answer, and the tools' messages
custom     what tools, nodes, steps and middleware wrote with a stream writer
tasks      a node or step begins, and what came of it
checkpoints  a checkpoint was written
debug      tasks and checkpoints, with their step and time
events     everything, as events of the protocol
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from foldline.exceptions import UsageError
from foldline.messages import ToolMessage
from foldline.messages._view import ChunkView
from foldline.workflows.events import CHANNELS, FlowEvent, envelope
from foldline.workflows.interrupts import Interrupt

__all__ = ["StreamMode", "View"]

StreamMode = Literal[
    "updates", "values", "messages", "custom", "checkpoints", "tasks", "debug", "events"
]
NEEDS: dict[str, frozenset[str]] = {
    "updates": frozenset({"updates", "input.requested"}),
    "values": frozenset({"values"}),
    "messages": frozenset({"messages", "updates", "tokens"}),
    "custom": frozenset({"custom"}),
    "checkpoints": frozenset({"checkpoints"}),
    "tasks": frozenset({"tasks"}),
    "debug": frozenset({"tasks", "checkpoints"}),
    "events": frozenset(CHANNELS),
}


class View:
    """Turns what a run says into what a caller of `stream` asked for."""

    def __init__(
        self, mode: str | Sequence[str], *, subgraphs: bool, channels: Iterable[str] | None = None
    ) -> None:
        self._is_many = not isinstance(mode, str)
        self._modes: Sequence[str] = [mode] if isinstance(mode, str) else list(mode)
        unknown = [one for one in self._modes if one not in NEEDS]
        if unknown or not self._modes:
            raise UsageError(f"stream_mode={mode!r}: say one or several of {', '.join(NEEDS)}")
        self._subgraphs = subgraphs
        self._chunks: dict[tuple[str, ...], ChunkView] = {}
        self._seq = 0
        self.wants: frozenset[str] = frozenset().union(*(NEEDS[one] for one in self._modes))
        if channels is not None:
            asked = {"input.requested" if one == "input" else one for one in channels}
            if not asked <= CHANNELS:
                raise UsageError(
                    f"channels={list(channels)!r}: some of {', '.join(sorted(CHANNELS))}"
                )
            self.wants = frozenset(asked)

    def pieces(self, said: FlowEvent) -> Iterator[Any]:
        """Return the pieces that one thing said makes."""
        for mode in self._modes:
            if (
                said.namespace
                and not self._subgraphs
                and mode not in ("events", "messages", "custom")
            ):
                continue
            for piece in getattr(self, f"_{mode}")(said):
                labelled = (mode, piece) if self._is_many else piece
                if self._subgraphs and mode != "events":
                    labelled = (
                        (said.namespace, *labelled) if self._is_many else (said.namespace, piece)
                    )
                yield labelled

    def _events(self, said: FlowEvent) -> Iterator[Any]:
        self._seq += 1
        yield envelope(said, self._seq)

    def _updates(self, said: FlowEvent) -> Iterator[Any]:
        if said.method == "updates":
            yield {said.data["node"]: said.data["values"]}
        elif said.method == "input.requested":
            yield {"__interrupt__": (Interrupt(said.data["payload"], said.data["interrupt_id"]),)}

    def _values(self, said: FlowEvent) -> Iterator[Any]:
        if said.method == "values":
            yield said.data

    def _custom(self, said: FlowEvent) -> Iterator[Any]:
        if said.method == "custom":
            yield said.data["payload"]

    def _checkpoints(self, said: FlowEvent) -> Iterator[Any]:
        if said.method == "checkpoints":
            yield said.data

    def _tasks(self, said: FlowEvent) -> Iterator[Any]:
        if said.method == "tasks":
            yield {key: value for key, value in said.data.items() if key not in ("step", "type")}

    def _debug(self, said: FlowEvent) -> Iterator[Any]:
        if said.method in ("tasks", "checkpoints"):
            data = dict(said.data)
            kind = data.pop("type", "checkpoint")
            step = data.pop("step", data.get("metadata", {}).get("step"))
            stamp = datetime.now(UTC).isoformat()
            yield {"step": step, "timestamp": stamp, "type": kind, "payload": data}

    def _messages(self, said: FlowEvent) -> Iterator[Any]:
        about = {"langgraph_node": said.node, "namespace": said.namespace}
        if said.method == "messages":
            if said.data.get("event") == "message-start":
                self._chunks[said.namespace] = ChunkView("v0")
            chunk = self._chunks.setdefault(said.namespace, ChunkView("v0")).feed(said.data)
            if chunk is not None:
                yield chunk, about
        elif said.method == "tokens":
            yield said.data
        elif said.method == "updates":
            values = said.data["values"]
            messages = values.get("messages", ()) if isinstance(values, Mapping) else ()
            for message in messages if isinstance(messages, list | tuple) else (messages,):
                if isinstance(message, ToolMessage):
                    yield message, about
