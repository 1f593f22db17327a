"""The views of `stream(stream_mode=…)` for agents, flows and graphs, in LangGraph's shapes.

updates    {step: its update}; {"__interrupt__": (…)} when the run stops for a person
values     the complete state, after each step
messages   (chunk, metadata) pairs of every model's answer, and the tool messages
custom     what tools, nodes, steps and middleware write with a stream writer
tasks      the start and the result of each node or step
checkpoints  a checkpoint was written
debug      tasks and checkpoints, with their step and time
events     all events, in the form of the protocol
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from foldline.exceptions import UsageError
from foldline.messages import ToolMessage
from foldline.messages._view import ChunkView
from foldline.workflows._run_events import CHANNELS, FlowEvent, envelope
from foldline.workflows.interrupts import Interrupt

__all__ = [
    "StreamMode",
]

StreamMode = Literal[
    "updates", "values", "messages", "custom", "checkpoints", "tasks", "debug", "events"
]
CHANNELS_BY_MODE: dict[str, frozenset[str]] = {
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
    """Converts the events of a run to the pieces that a caller of `stream` requested."""

    def __init__(
        self,
        mode: str | Sequence[str],
        *,
        subgraphs: bool,
        channels: Iterable[str] | None = None,
        option: str = "stream_mode",
    ) -> None:
        self._is_many = not isinstance(mode, str)
        self._modes: Sequence[str] = [mode] if isinstance(mode, str) else list(mode)
        unknown = [name for name in self._modes if name not in CHANNELS_BY_MODE]
        if unknown or not self._modes:
            raise UsageError(
                f"{option}={mode!r}: use one or several of {', '.join(CHANNELS_BY_MODE)}"
            )
        self._subgraphs = subgraphs
        self._chunks: dict[tuple[str, ...], ChunkView] = {}
        self._seq = 0
        self.wants: frozenset[str] = frozenset().union(
            *(CHANNELS_BY_MODE[name] for name in self._modes)
        )
        if channels is not None:
            requested = {"input.requested" if name == "input" else name for name in channels}
            if not requested <= CHANNELS:
                raise UsageError(
                    f"channels={list(channels)!r}: some of {', '.join(sorted(CHANNELS))}"
                )
            self.wants = frozenset(requested)

    def pieces(self, event: FlowEvent) -> Iterator[Any]:
        """Yield the pieces for an event."""
        for mode in self._modes:
            if (
                event.namespace
                and not self._subgraphs
                and mode not in ("events", "messages", "custom")
            ):
                continue
            for piece in getattr(self, f"_{mode}")(event):
                labelled = (mode, piece) if self._is_many else piece
                if self._subgraphs and mode != "events":
                    labelled = (
                        (event.namespace, *labelled) if self._is_many else (event.namespace, piece)
                    )
                yield labelled

    def _events(self, event: FlowEvent) -> Iterator[Any]:
        self._seq += 1
        yield envelope(event, self._seq)

    def _updates(self, event: FlowEvent) -> Iterator[Any]:
        if event.method == "updates":
            update = {event.data["node"]: event.data["values"]}
            if event.data.get("is_cached"):
                update["__metadata__"] = {"cached": True}
            yield update
        elif event.method == "input.requested":
            data = event.data
            question: Interrupt[Any] = Interrupt(
                data["payload"], data["interrupt_id"], response_schema=data.get("response_schema")
            )
            yield {"__interrupt__": (question,)}

    def _values(self, event: FlowEvent) -> Iterator[Any]:
        if event.method == "values":
            yield event.data

    def _custom(self, event: FlowEvent) -> Iterator[Any]:
        if event.method == "custom":
            yield event.data["payload"]

    def _checkpoints(self, event: FlowEvent) -> Iterator[Any]:
        if event.method == "checkpoints":
            yield event.data

    def _tasks(self, event: FlowEvent) -> Iterator[Any]:
        if event.method == "tasks":
            yield {key: value for key, value in event.data.items() if key not in ("step", "type")}

    def _debug(self, event: FlowEvent) -> Iterator[Any]:
        if event.method in ("tasks", "checkpoints"):
            data = dict(event.data)
            kind = data.pop("type", "checkpoint")
            step = data.pop("step", data.get("metadata", {}).get("step"))
            stamp = datetime.now(UTC).isoformat()
            yield {"step": step, "timestamp": stamp, "type": kind, "payload": data}

    def _messages(self, event: FlowEvent) -> Iterator[Any]:
        metadata = {"langgraph_node": event.node, "namespace": event.namespace}
        if event.method == "messages":
            if event.data.get("event") == "message-start":
                self._chunks[event.namespace] = ChunkView("v0")
            chunk = self._chunks.setdefault(event.namespace, ChunkView("v0")).feed(event.data)
            if chunk is not None:
                yield chunk, metadata
        elif event.method == "tokens":
            yield event.data
        elif event.method == "updates" and not event.data.get("is_cached"):
            values = event.data["values"]
            messages = values.get("messages", ()) if isinstance(values, Mapping) else ()
            for message in messages if isinstance(messages, list | tuple) else (messages,):
                if isinstance(message, ToolMessage):
                    yield message, metadata
