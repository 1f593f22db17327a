"""Runs an app once, and emits its events in the published protocol's form.

A chat model emits message events. An agent or a graph also emits tools, updates and questions. Other runnables emit
chunks of their output. LangServe's `stream_log` and `stream_events` emit the steps inside the app instead.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from typing import Any, Final

from foldline._io import ASYNC, OutOfTime
from foldline._streams.stream import AsyncChatModelStream
from foldline.agents.agent import Agent
from foldline.exceptions import BudgetExceeded, UsageError
from foldline.language_models._call.bridge import ChunkBridge
from foldline.load import dumpd
from foldline.messages import AIMessageChunk, BaseMessage, convert_to_messages
from foldline.outputs import ChatGenerationChunk
from foldline.protocol.replay import message_to_events
from foldline.protocol.writer import EventWriter
from foldline.runnables.utils import AddableDict
from foldline.serve._json_object import JsonObject
from foldline.serve.apps import Emit, RunOutput, RunRequest, ServedApp
from foldline.serve.errors import ServeError
from foldline.workflows._loop_runnable import LoopRunnable
from foldline.workflows._run_events import jsonable
from foldline.workflows.flow import Workflow
from foldline.workflows.interrupts import request_data

__all__ = ["messages_from", "run_app", "run_within"]

CHANNELS: Final = frozenset(
    {
        "lifecycle",
        "messages",
        "tools",
        "input.requested",
        "updates",
        "values",
        "checkpoints",
        "custom",
    }
)


async def run_app(app: ServedApp, request: RunRequest, output: RunOutput) -> object:
    """Run an app once, emit its events, giving way to others between them, and return the output as JSON."""
    if request.inner_view == "stream_log":
        return await _run_stream_log(app, request, output)
    if request.inner_view == "stream_events":
        return await _run_stream_events(app, request, output)
    if app.kind == "model":
        if request.streams:
            return await _run_model(app, request, output)
        return await _invoke_model(app, request, output)
    if isinstance(app.target, LoopRunnable):
        return await _run_loop(app.target, request, output)
    return await _run_runnable(app, request, output)


async def run_within(seconds: float, body: Coroutine[Any, Any, object]) -> object:
    """Run an app within the time of a run; after it, cancel it and raise `ServeError`."""
    start = time.monotonic()
    try:
        return await ASYNC.bounded(seconds, body)
    except (OutOfTime, BudgetExceeded) as error:
        if isinstance(error, BudgetExceeded) and time.monotonic() - start < seconds:
            raise
        text = f"the run took longer than the {seconds:g} s that this server allows"
        raise ServeError("timeout", text, code="run_timeout") from error


async def _run_model(app: ServedApp, request: RunRequest, output: RunOutput) -> object:
    messages = messages_from(request.input)
    stream = await app.target.astream_v2(messages, request.config, **request.options)
    return await _emit_messages(stream, output)


async def _emit_messages(stream: AsyncChatModelStream, output: RunOutput) -> object:
    try:
        async for event in stream:
            if event["event"] != "error":  # the run's own end reports it
                output.emit("messages", event, None, None)
                await output.pace()
    finally:
        await stream.aclose()
    return dumpd(stream.output_message)


async def _invoke_model(app: ServedApp, request: RunRequest, output: RunOutput) -> object:
    messages = messages_from(request.input)
    message = await app.target.ainvoke(messages, request.config, **request.options)
    for event in message_to_events(message):
        output.emit("messages", event, None, None)
        await output.pace()
    return dumpd(message)


async def _run_loop(
    target: LoopRunnable[Any, Any], request: RunRequest, output: RunOutput
) -> object:
    value = request.command if request.command is not None else request.input
    loop_output = LoopOutput(output.emit, keeps_values=request.keeps_values)
    mode: Any = "events" if isinstance(target, Agent) else ["events", "messages"]
    async with aclosing(target.astream(value, request.config, stream_mode=mode)) as pieces:
        async for piece in pieces:
            loop_output.take(piece)
            await output.pace()
    return loop_output.result()


async def _run_runnable(app: ServedApp, request: RunRequest, output: RunOutput) -> object:
    value: Any = request.command if request.command is not None else request.input
    if not isinstance(app.target, Workflow):
        try:
            stream = await app.target.astream_v2(value, request.config)
        except UsageError:
            pass  # its answer does not come from a chat model
        else:
            return await _emit_messages(stream, output)
    total: Any = None
    async with aclosing(app.target.astream(value, request.config)) as pieces:
        async for piece in pieces:
            output.emit("chunk", jsonable_lc(piece), None, None)
            await output.pace()
            total = piece if total is None else _add_outputs(total, piece)
    _emit_questions(total, output.emit)
    return jsonable_lc(total)


def _emit_questions(output: object, emit: Emit) -> None:
    """Emit the open questions to a person in an output."""
    if isinstance(output, Mapping) and output.get("__interrupt__"):
        for item in output["__interrupt__"]:
            emit("input.requested", jsonable(request_data(item)), None, None)


# -- the steps inside


async def _run_stream_log(app: ServedApp, request: RunRequest, output: RunOutput) -> object:
    value: Any = request.command if request.command is not None else request.input
    final: Any = None
    stream = app.target.astream_log(value, request.config, **request.inner_options)
    async with aclosing(stream) as patches:
        async for patch in patches:
            output.emit("log_patch", jsonable_lc({"ops": patch.ops}), None, None)
            await output.pace()
            for operation in patch.ops:
                if operation["path"] == "/final_output":
                    final = operation["value"]
    _emit_questions(final, output.emit)
    return jsonable_lc(final)


async def _run_stream_events(app: ServedApp, request: RunRequest, output: RunOutput) -> object:
    value: Any = request.command if request.command is not None else request.input
    final: Any = None
    options = {"version": "v2", **request.inner_options}
    async with aclosing(app.target.astream_events(value, request.config, **options)) as events:
        async for event in events:
            output.emit("stream_event", jsonable_lc(event), None, None)
            await output.pace()
            if event["event"].endswith("_end") and not event.get("parent_ids"):
                final = (event.get("data") or {}).get("output")
    _emit_questions(final, output.emit)
    return jsonable_lc(final)


# -- agents and graphs


class LoopOutput:
    """Emits the events of an agent or a graph, and keeps its last state."""

    def __init__(self, emit: Emit, *, keeps_values: bool) -> None:
        self._emit = emit
        self._keeps_values = keeps_values
        self._chunks = ChunkEvents(emit)
        self._state: object = None
        self._questions: list[JsonObject] = []

    def take(self, part: JsonObject | tuple[str, Any]) -> None:
        """Handle a part of the stream: an event, or a pair of a stream mode and what it streamed."""
        event: JsonObject
        if isinstance(part, tuple):
            mode, content = part
            if mode == "messages":
                self._chunks.feed(content[0])
                return
            event = content
        else:
            event = part
        method, params = event["method"], event["params"]
        if method in CHANNELS and self._is_wanted(method, params):
            self._emit(method, params["data"], params["namespace"], params.get("node"))

    def _is_wanted(self, method: str, params: JsonObject) -> bool:
        is_inner, data = bool(params["namespace"]), params["data"]
        if method == "messages" and data.get("event") == "message-start":
            self._chunks.seen.add(data["id"])
        elif method == "updates":
            self._chunks.finish()
        elif method == "input.requested" and not is_inner:
            self._questions.append(data)
        elif method == "values":
            if not is_inner:
                self._state = data
            return self._keeps_values
        return True

    def result(self) -> object:
        """Return the last state, with the open questions."""
        self._chunks.finish()
        if self._questions and isinstance(self._state, dict):
            interrupts = [as_interrupt(item) for item in self._questions]
            return {**self._state, "__interrupt__": interrupts}
        return self._state


class ChunkEvents:
    """Turns the chunks that a graph's models stream into message events."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._open: dict[str, tuple[EventWriter, ChunkBridge]] = {}
        self.seen: set[str] = set()

    def feed(self, chunk: object) -> None:
        """Emit the events of a chunk, unless its message already emitted its own."""
        if not isinstance(chunk, AIMessageChunk) or chunk.id in self.seen:
            return
        id = chunk.id or ""
        if id not in self._open:
            metadata = chunk.response_metadata
            model_fields = {
                "provider": metadata.get("model_provider"),
                "model": metadata.get("model_name"),
            }
            writer = EventWriter(
                id,
                metadata={name: value for name, value in model_fields.items() if value is not None},
            )
            self._open[id] = (writer, ChunkBridge(writer, id))
        writer, bridge = self._open[id]
        for event in bridge.feed(ChatGenerationChunk(message=chunk)):
            self._emit("messages", event, None, None)
        if chunk.chunk_position == "last":
            self._finish(id)

    def finish(self) -> None:
        """Emit the ends of open messages."""
        for id in list(self._open):
            self._finish(id)

    def _finish(self, id: str) -> None:
        writer, _ = self._open.pop(id)
        self.seen.add(id)
        if not writer.is_over:
            for event in writer.finish():
                self._emit("messages", event, None, None)


def messages_from(value: object) -> list[BaseMessage]:
    """Return an input of a chat model as messages."""
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    messages: list[BaseMessage] = convert_to_messages(value)
    if not messages:
        raise UsageError("the input has no message: send at least one")
    return messages


def as_interrupt(data: Mapping[str, Any]) -> JsonObject:
    """Return a question in LangGraph's form."""
    return {"id": data["interrupt_id"], "value": data["payload"]}


def jsonable_lc(value: object) -> object:
    """Return a value as JSON; messages, documents and the like in LangChain's serialised form."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping) and value.get("__interrupt__"):
        questions = [jsonable(as_interrupt(request_data(item))) for item in value["__interrupt__"]]
        value = {**value, "__interrupt__": questions}
    return jsonable(dumpd(value))


def _add_outputs(total: Any, piece: Any) -> object:  # noqa: ANN401  outputs of any runnable
    try:
        return total + piece
    except TypeError:
        if isinstance(total, Mapping) and isinstance(piece, Mapping):
            return AddableDict(total) + AddableDict(piece)
        return piece
