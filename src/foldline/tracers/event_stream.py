"""`astream_events`: everything that happens inside a runnable, as a stream of small dicts, LangChain's v1 and v2.

One handler turns callbacks into v2 events as they happen; v1 is a translation of v2. The root's start event has
the caller's input; its end event has none.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict
from uuid import UUID

from foldline._config import RunnableConfig
from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive_each
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.mixins import Metadata
from foldline.exceptions import UsageError
from foldline.tracers._filter import Filters, shows, take_filters
from foldline.tracers._streaming import StreamingHandler, StreamObserver
from foldline.tracers.core import llm_outputs
from foldline.tracers.memory_stream import read_while_running, with_handler
from foldline.tracers.schemas import run_key
from foldline.utils.uuid import uuid7

if TYPE_CHECKING:
    from foldline.outputs import LLMResult

__all__ = [
    "EventStreamHandler",
    "RunInfo",
    "StandardStreamEvent",
    "StreamEvent",
    "astream_events",
    "stream_events",
]

UNKNOWN = {"input": ""}
"""The input that a streamed step reports at its start, before it has read it."""


class RunInfo(TypedDict):
    """What the stream remembers of a run while it lasts."""

    name: str
    run_type: str
    tags: list[str]
    metadata: dict[str, Any]
    inputs: NotRequired[Any]
    parent_run_id: UUID | None
    parent_ids: list[str]
    outer: RunInfo | None
    shown: bool
    key: str
    """Its id as text."""
    has_pieces: bool
    """Whether its pieces were seen inside."""


class StandardStreamEvent(TypedDict):
    """One thing that happened: `on_<type>_<start|stream|end>`, or `on_custom_event`."""

    event: str
    name: str
    run_id: str
    parent_ids: list[str]
    tags: list[str]
    metadata: dict[str, Any]
    data: Any


StreamEvent = StandardStreamEvent


class EventStreamHandler(BaseCallbackHandler, StreamingHandler, StreamObserver):
    """Turns callbacks into v2 events and hands each to `send`."""

    run_inline = True

    def __init__(self, send: Callable[[StreamEvent], None], filters: Filters | None = None) -> None:
        self._send = send
        self._filters = filters or {}
        self._runs: dict[UUID, RunInfo] = {}

    # -- runs

    def _begin(
        self,
        run_type: str,
        data: dict[str, Any],
        inputs: object,
        serialized: dict[str, Any] | None,
        kwargs: dict[str, Any],
    ) -> None:
        run_id: UUID = kwargs["run_id"]
        parent: UUID | None = kwargs.get("parent_run_id")
        name = kwargs.get("name") or _class_name(serialized)
        tags = kwargs.get("tags") or []
        info: RunInfo = {
            "name": name,
            "run_type": run_type,
            "tags": tags,
            "metadata": kwargs.get("metadata") or {},
            "parent_run_id": parent,
            "parent_ids": [] if parent is None else [*self._above(parent), run_key(parent)],
            "outer": self._runs.get(run_id),
            "shown": shows(self._filters, name, run_type, tags),
            "key": run_key(run_id),
            "has_pieces": False,
        }
        if inputs is not None:
            info["inputs"] = inputs
        self._runs[run_id] = info
        self._send_event("start", info, data)

    def _end(self, run_id: UUID, data: dict[str, Any], what: str = "end") -> None:
        info = self._leave(run_id)
        if info is None:
            return
        if "input" not in data and "inputs" in info:
            data["input"] = info["inputs"]
        self._send_event(what, info, data)

    def _leave(self, run_id: UUID) -> RunInfo | None:
        """Forget a run; one of the same id that was there before it, as a parent's may be, is there again."""
        info = self._runs.pop(run_id, None)
        if info is not None and (outer := info["outer"]) is not None:
            self._runs[run_id] = outer
        return info

    def _send_event(self, what: str, info: RunInfo, data: dict[str, Any]) -> None:
        if info["shown"]:
            self._send(
                {
                    "event": f"on_{info['run_type']}_{what}",
                    "data": data,
                    "name": info["name"],
                    "tags": list(info["tags"]),
                    "run_id": info["key"],
                    "metadata": dict(info["metadata"]),
                    "parent_ids": info["parent_ids"].copy(),
                }
            )

    def _above(self, run_id: UUID) -> list[str]:
        """Return the ids of the runs above one that runs, outermost first."""
        info = self._runs.get(run_id)
        return info["parent_ids"] if info is not None else []

    # -- models

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: object, **kwargs: object
    ) -> None:
        """A chat model starts."""
        inputs = {"messages": messages}
        self._begin("chat_model", {"input": inputs}, inputs, serialized, kwargs)

    def on_llm_start(self, serialized: dict[str, Any], prompts: object, **kwargs: object) -> None:
        """A text model starts."""
        inputs = {"prompts": prompts}
        self._begin("llm", {"input": inputs}, inputs, serialized, kwargs)

    def on_llm_new_token(
        self, token: object, *, chunk: object = None, run_id: UUID, **kwargs: object
    ) -> None:
        """A piece of an answer arrived."""
        info = self._runs.get(run_id)
        if info is not None and info["shown"]:
            self._send_event("stream", info, {"chunk": _piece(info["run_type"], token, chunk)})

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: object) -> None:
        """A model answered."""
        info = self._runs.get(run_id)
        if info is None:
            return
        if info["run_type"] == "chat_model":
            answers = [answer for answers in response.generations for answer in answers]
            output = getattr(answers[-1], "message", None) if answers else None
        else:
            output = llm_outputs(response, dump=False)
        self._end(run_id, {"output": output})

    # -- chains, prompts, parsers

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: object,
        *,
        run_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        """A chain starts."""
        has_input = inputs != UNKNOWN if isinstance(inputs, dict) else inputs is not None
        data = {"input": inputs} if has_input else {}
        # A step of a flow is a chain here, as a task is in LangGraph.
        kind = "chain" if run_type in (None, "step") else str(run_type)
        self._begin(kind, data, inputs if has_input else None, serialized, kwargs)

    def on_chunk(self, run_id: UUID | None, chunk: object) -> None:
        """A piece of a run's output passed by."""
        info = self._runs.get(run_id) if run_id is not None else None
        if info is not None:
            info["has_pieces"] = True
            self._send_event("stream", info, {"chunk": chunk})

    def on_root_piece(self, run_id: UUID, piece: object) -> None:
        """Send a piece of the root's output, unless its pieces were seen inside (not in a hand-written `astream`)."""
        info = self._runs.get(run_id)
        if info is not None and info["run_type"] == "chain" and not info["has_pieces"]:
            self._send_event("stream", info, {"chunk": piece})

    def on_chain_end(
        self, outputs: object, *, run_id: UUID, inputs: object = None, **kwargs: object
    ) -> None:
        """A chain finished."""
        data = {"output": outputs}
        if inputs is not None:
            data["input"] = inputs
        self._end(run_id, data)

    # -- tools and retrievers

    def on_tool_start(
        self, serialized: dict[str, Any], input_str: str, *, inputs: object = None, **kwargs: object
    ) -> None:
        """A tool starts."""
        values = inputs if inputs is not None else {}
        self._begin("tool", {"input": values}, values, serialized, kwargs)

    def on_tool_end(self, output: object, *, run_id: UUID, **kwargs: object) -> None:
        """A tool returned."""
        self._end(run_id, {"output": output})

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: object) -> None:
        """A tool failed: the only error that is an event, because an agent goes on after it."""
        call_id = kwargs.get("tool_call_id")
        self._end(run_id, {"error": error, "tool_call_id": call_id}, "error")

    def on_retriever_start(self, serialized: dict[str, Any], query: str, **kwargs: object) -> None:
        """A retriever starts."""
        inputs = {"query": query}
        self._begin("retriever", {"input": inputs}, inputs, serialized, kwargs)

    def on_retriever_end(self, documents: object, *, run_id: UUID, **kwargs: object) -> None:
        """A retriever returned documents."""
        self._end(run_id, {"output": documents})

    # -- the rest

    def on_custom_event(
        self,
        name: str,
        data: object,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        **kwargs: object,
    ) -> None:
        """An event of the application's own."""
        if shows(self._filters, name, "on_custom_event", tags or []):
            self._send(
                {
                    "event": "on_custom_event",
                    "data": data,
                    "name": name,
                    "tags": list(tags or []),
                    "run_id": run_key(run_id),
                    "metadata": dict(metadata or {}),
                    "parent_ids": self._above(run_id).copy(),
                }
            )

    def _forget(self, error: BaseException, *, run_id: UUID, **kwargs: object) -> None:
        """A run failed: there is no event for it, the error is raised."""
        self._leave(run_id)

    on_chain_error: Callable[..., None] = _forget
    on_llm_error: Callable[..., None] = _forget
    on_retriever_error: Callable[..., None] = _forget


def _class_name(serialized: dict[str, Any] | None) -> str:
    if not serialized:
        return "Unnamed"
    return str(serialized.get("name") or (serialized.get("id") or ["Unnamed"])[-1])


def _piece(run_type: str, token: Any, chunk: Any) -> object:  # noqa: ANN401  a text and a chunk; their classes are loaded below
    if run_type == "chat_model":
        from foldline.messages import AIMessageChunk  # noqa: PLC0415  streams of chains need no messages

        return chunk.message if chunk is not None else AIMessageChunk(content=token)
    from foldline.outputs import GenerationChunk  # noqa: PLC0415

    return chunk if chunk is not None else GenerationChunk(text=token)


async def events_of(
    io: IO,
    runnable: object,
    value: object,
    config: RunnableConfig | None,
    version: Literal["v1", "v2"],
    filters: Filters,
    kwargs: dict[str, Any],
) -> AsyncGenerator[StreamEvent, None]:
    """Stream a runnable; yield the events inside it."""
    if version not in ("v1", "v2"):
        raise UsageError(
            f'astream_events knows the versions "v1" and "v2" (and "v3" of a chat model), not {version!r}'
        )
    channel = io.channel()
    handler = EventStreamHandler(channel.put, filters)
    config = with_handler(config, handler)
    run_id = config.setdefault("run_id", uuid7()) or uuid7()
    config["run_id"] = run_id
    root = _Root(str(run_id), value, version)
    on_piece = functools.partial(handler.on_root_piece, run_id)
    async with aclosing(
        read_while_running(io, runnable, value, config, kwargs, channel, on_piece)
    ) as events:
        async for event in events:
            if version == "v2" and event["run_id"] != root.run_id:
                yield event
                continue
            for translated in root.translate(event):
                yield translated


def astream_events(
    runnable: Any,  # noqa: ANN401  a Runnable, whose layer is above this one
    value: object,
    config: RunnableConfig | None = None,
    *,
    version: Literal["v1", "v2", "v3"] = "v2",
    **kwargs: Any,
) -> Any:  # noqa: ANN401  an async generator of events, or the stream of a chat model
    """Return the events inside a runnable, async; "v3" is the event stream of a chat model."""
    if version == "v3":
        return runnable.astream_v2(value, config, **kwargs)
    return events_of(ASYNC, runnable, value, config, version, take_filters(kwargs), kwargs)


def stream_events(
    runnable: Any,  # noqa: ANN401  a Runnable, whose layer is above this one
    value: object,
    config: RunnableConfig | None = None,
    *,
    version: Literal["v1", "v2", "v3"] = "v2",
    **kwargs: Any,
) -> Any:  # noqa: ANN401  a generator of events, or the stream of a chat model
    """Return the events inside a runnable; "v3" is the event stream of a chat model."""
    if version == "v3":
        return runnable.stream_v2(value, config, **kwargs)
    return drive_each(
        events_of(BLOCKING, runnable, value, config, version, take_filters(kwargs), kwargs)
    )


class _Root:
    """Sets the root's input to the caller's, and translates events to v1."""

    def __init__(self, run_id: str, value: object, version: str) -> None:
        self.run_id, self._value, self._version = run_id, value, version
        self._is_tool = False

    def translate(self, event: StreamEvent) -> list[StreamEvent]:
        before: list[StreamEvent] = []
        if event["run_id"] == self.run_id and event["event"] != "on_custom_event":
            data = dict(event["data"])
            if event["event"].endswith("_start"):
                data["input"] = self._value
            elif event["event"].endswith("_end"):
                data.pop("input", None)
                before = self._streamed(event, data)
            event["data"] = data
        return [*before, event] if self._version == "v2" else [*before, *self._v1(event)]

    def _streamed(self, end: StreamEvent, data: dict[str, Any]) -> list[StreamEvent]:
        """In v1 a root without pieces (a tool) streams its output as one piece."""
        kind = end["event"].removeprefix("on_").removesuffix("_end")
        if self._version == "v2" or kind not in ("tool", "retriever", "prompt"):
            return []
        return [
            {
                **end,
                "event": f"on_{kind}_stream",
                "data": {"chunk": data["output"]},
                "parent_ids": [],
            }
        ]

    def _v1(self, event: StreamEvent) -> list[StreamEvent]:
        if event["event"] in ("on_custom_event", "on_tool_error"):
            return []
        event = {**event, "parent_ids": []}
        if event["event"] == "on_chat_model_end" and event["run_id"] != self.run_id:
            message = event["data"]["output"]
            kind = (
                "ChatGenerationChunk"
                if type(message).__name__.endswith("Chunk")
                else "ChatGeneration"
            )
            answer = {
                "text": str(message.text),
                "generation_info": None,
                "type": kind,
                "message": message,
            }
            result = {
                "generations": [[answer]],
                "llm_output": None,
                "run": None,
                "type": "LLMResult",
            }
            event["data"] = {**event["data"], "output": result}
        return [event]
