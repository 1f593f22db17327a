"""`ServedApp`: a model, an agent, a graph, a chain or embeddings under a name; and how one run of it becomes events.

A chat model speaks in message events. An agent or a graph says more: tools, updates, questions. Whatever else is
runnable gives pieces of its output. All of it goes to the run log in the published protocol's form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from foldline._config import RunnableConfig
from foldline.agents.agent import Agent
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.language_models.call.chunk_bridge import ChunkBridge
from foldline.load import dumpd
from foldline.messages import AIMessageChunk, BaseMessage, convert_to_messages
from foldline.outputs import ChatGenerationChunk
from foldline.prices import find_prices
from foldline.prices.types import Prices
from foldline.protocol.writer import EventWriter
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.runnables.fallbacks import RunnableWithFallbacks
from foldline.runnables.lambda_ import RunnableLambda
from foldline.runnables.utils import AddableDict
from foldline.utils.short_repr import short_repr
from foldline.workflows.events import jsonable
from foldline.workflows.flow import Workflow
from foldline.workflows.interrupts import Command
from foldline.workflows.loop_runnable import LoopRunnable

__all__ = ["AppKind", "Emit", "RunRequest", "ServedApp", "as_apps"]

Json: TypeAlias = Any
AppKind = Literal["model", "agent", "runnable", "embeddings"]
Emit = Callable[[str, Json, "list[str] | None", "str | None"], None]
"""Takes an event's method, data, namespace and node."""
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
CHATTY_NAMES: Final = ("messages", "chat_history", "history")


@dataclass(slots=True)
class RunRequest:
    """What is asked of an app in one run."""

    input: Json = None
    """Messages, or any JSON that the app takes; None carries on with the thread."""
    options: dict[str, Json] = field(default_factory=dict)
    """Options of the model: temperature, tools, and so on; agents have their own."""
    thread: str | None = None
    """The thread as the app's checkpointer knows it."""
    command: Command[Any] | None = None
    """Answers to questions, in the place of an input."""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    keeps_values: bool = False
    """Whether the state after each step goes into the log."""


class ServedApp:
    """One thing that is served."""

    __repr__ = short_repr

    def __init__(
        self,
        name: str,
        target: Any,
        *,
        on_disconnect: Literal["cancel", "continue"] | None = None,
        provider_name: str | None = None,
    ) -> None:
        self.name = name
        self.target = target
        self.on_disconnect = on_disconnect
        self.kind: AppKind = kind_of(name, target)
        model = model_of(target)
        self.model = model
        self.label = provider_name or (
            f"{model._provider}:{model._model_name}" if model is not None else name
        )

    @property
    def has_threads(self) -> bool:
        """Whether conversations are kept on the server."""
        if isinstance(self.target, Agent):
            return self.target.setup.checkpointer is not None
        return getattr(self.target, "checkpointer", None) not in (None, False)

    @property
    def checkpointer(self) -> Any:
        """Where its threads are kept."""
        if isinstance(self.target, Agent):
            return self.target.setup.checkpointer
        return getattr(self.target, "checkpointer", None)

    @property
    def prices(self) -> Prices | None:
        """What its model costs, where it is one model whose price is known."""
        if self.model is None:
            return None
        own = (self.model.profile or {}).get("prices")
        return own or find_prices(self.model._provider, self.model._model_name)

    # -- running

    async def run(self, request: RunRequest, emit: Emit) -> Json:
        """Run once; say what happens; return the output as JSON."""
        if self.kind == "model":
            return await self._run_model(self.target, request, emit)
        if isinstance(self.target, LoopRunnable):
            return await self._run_loop(self.target, request, emit)
        return await self._run_runnable(request, emit)

    async def _run_model(self, target: Runnable[Any, Any], request: RunRequest, emit: Emit) -> Json:
        stream = await target.astream_v2(
            messages_from(request.input), request.config, **request.options
        )
        try:
            async for event in stream:
                if event["event"] != "error":  # the run says it, in its own words
                    emit("messages", event, None, None)
        finally:
            await stream.aclose()
        return dumpd(stream.output_message)

    async def _run_loop(
        self, target: LoopRunnable[Any, Any], request: RunRequest, emit: Emit
    ) -> Json:
        value = request.command if request.command is not None else request.input
        output = LoopOutput(emit, keeps_values=request.keeps_values)
        mode: Any = "events" if isinstance(target, Agent) else ["events", "messages"]
        async with aclosing(target.astream(value, request.config, stream_mode=mode)) as pieces:
            async for piece in pieces:
                output.take(piece)
        return output.result()

    async def _run_runnable(self, request: RunRequest, emit: Emit) -> Json:
        value: Any = request.command if request.command is not None else request.input
        if not isinstance(self.target, Workflow):
            try:
                await self.target.astream_v2(None, request.config)
            except UsageError:
                pass
            else:
                stream = await self.target.astream_v2(value, request.config)
                async for event in stream:
                    if event["event"] != "error":
                        emit("messages", event, None, None)
                return dumpd(stream.output_message)
        total: Any = None
        async with aclosing(self.target.astream(value, request.config)) as pieces:
            async for piece in pieces:
                data = jsonable_lc(piece)
                emit("chunk", data, None, None)
                total = piece if total is None else _added(total, piece)
        output = jsonable_lc(total)
        if isinstance(total, Mapping) and total.get("__interrupt__"):
            for item in total["__interrupt__"]:
                data = {"interrupt_id": item.id, "payload": jsonable(item.value)}
                emit("input.requested", data, None, None)
        return output

    def input_of_chat(self, messages: list[BaseMessage]) -> Json:
        """Return a conversation as this app's input."""
        if self.kind == "model":
            return messages
        if isinstance(self.target, LoopRunnable):
            return {"messages": messages}
        schema = self.target.get_input_schema().model_json_schema()
        fields = schema.get("properties")
        text = messages[-1].text if messages else ""
        if schema.get("type") == "string":
            return text
        if not isinstance(fields, dict) or schema.get("type") != "object" or not fields:
            return messages if schema.get("type") == "array" or "anyOf" in schema else text
        needed = [name for name in schema.get("required", ()) if name in fields] or list(fields)
        chatty = [name for name in CHATTY_NAMES if name in fields]
        plain = [name for name in needed if name not in chatty]
        if len(plain) > 1:
            raise UsageError(
                f"{self.name} takes {', '.join(plain)} and no conversation: call it at /{self.name}/invoke"
            )
        value: dict[str, Json] = {}
        if chatty:
            value[chatty[0]] = messages if not plain else messages[:-1]
        if plain:
            value[plain[0]] = text
        return value


class LoopOutput:
    """Takes what an agent or a graph streams; passes its events on, and keeps the state it comes to."""

    def __init__(self, emit: Emit, *, keeps_values: bool) -> None:
        self._emit = emit
        self._keeps_values = keeps_values
        self._chunks = ChunkEvents(emit)
        self._state: Json = None
        self._questions: list[Json] = []

    def take(self, piece: Json) -> None:
        """Take a piece of the stream: an event, or a labelled one."""
        if isinstance(piece, tuple):
            label, piece = piece
            if label == "messages":
                self._chunks.feed(piece[0])
                return
        method, params = piece["method"], piece["params"]
        if method in CHANNELS and self._is_wanted(method, params):
            self._emit(method, params["data"], params["namespace"], params.get("node"))

    def _is_wanted(self, method: str, params: Json) -> bool:
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

    def result(self) -> Json:
        """Return the last state, with the questions that are open."""
        self._chunks.finish()
        if self._questions and isinstance(self._state, dict):
            asked = [as_interrupt(item) for item in self._questions]
            return {**self._state, "__interrupt__": asked}
        return self._state


class ChunkEvents:
    """Turns the chunks that a graph's models stream into message events."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._open: dict[str, tuple[EventWriter, ChunkBridge]] = {}
        self.seen: set[str] = set()

    def feed(self, chunk: Json) -> None:
        """Say what a chunk says, but for messages that said their own events."""
        if not isinstance(chunk, AIMessageChunk) or chunk.id in self.seen:
            return
        id = chunk.id or ""
        if id not in self._open:
            metadata = chunk.response_metadata
            about = {
                "provider": metadata.get("model_provider"),
                "model": metadata.get("model_name"),
            }
            writer = EventWriter(
                id, metadata={name: word for name, word in about.items() if word is not None}
            )
            self._open[id] = (writer, ChunkBridge(writer, id))
        writer, bridge = self._open[id]
        for event in bridge.feed(ChatGenerationChunk(message=chunk)):
            self._emit("messages", event, None, None)
        if chunk.chunk_position == "last":
            self._finish(id)

    def finish(self) -> None:
        """End the messages that are open."""
        for id in list(self._open):
            self._finish(id)

    def _finish(self, id: str) -> None:
        writer, _ = self._open.pop(id)
        self.seen.add(id)
        if not writer.is_over:
            for event in writer.finish():
                self._emit("messages", event, None, None)


def kind_of(name: str, target: Any) -> AppKind:
    """Return what an object is served as."""
    if isinstance(target, Embeddings):
        return "embeddings"
    if isinstance(target, LoopRunnable):
        return "agent"
    if model_of(target) is not None:
        return "model"
    if isinstance(target, Runnable):
        return "runnable"
    raise UsageError(
        f"{name} is a {type(target).__name__}: serve a chat model, an agent, a graph, a runnable or embeddings"
    )


def model_of(target: Any) -> BaseChatModel | None:
    """Return the chat model that answers for a runnable which gives a chat model's answers; None for others."""
    if isinstance(target, BaseChatModel):
        return target
    if isinstance(target, RunnableBindingBase):
        return model_of(target.bound)
    if isinstance(target, RunnableWithFallbacks):
        inner = [model_of(one) for one in (target.runnable, *target.fallbacks)]
        return inner[0] if all(one is not None for one in inner) else None
    return None


def as_apps(apps: Any) -> dict[str, ServedApp]:
    """Return what is served, by name: of one object, or of a mapping of names."""
    if isinstance(apps, ServedApp):
        return {apps.name: apps}
    if not isinstance(apps, Mapping):
        name = getattr(apps, "name", None) or "app"
        apps = {str(name): apps}
    made: dict[str, ServedApp] = {}
    for name, target in apps.items():
        if not isinstance(target, ServedApp):
            if callable(target) and not isinstance(target, Runnable | Embeddings):
                target = RunnableLambda(target)
            target = ServedApp(name, target)
        made[name] = target
    if not made:
        raise UsageError("nothing to serve: name an app or a model")
    return made


def messages_from(value: Json) -> list[BaseMessage]:
    """Return an input of a chat model as messages."""
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    messages: list[BaseMessage] = convert_to_messages(value)
    return messages


def as_interrupt(data: Mapping[str, Json]) -> dict[str, Json]:
    """Return a question in LangGraph's form."""
    return {"id": data["interrupt_id"], "value": data["payload"]}


def jsonable_lc(value: Json) -> Json:
    """Return a value as JSON; messages, documents and the like in LangChain's serialised form."""
    return jsonable(dumpd(value)) if not isinstance(value, str | int | float | None) else value


def _added(total: Any, piece: Any) -> Any:
    try:
        return total + piece
    except TypeError:
        if isinstance(total, Mapping) and isinstance(piece, Mapping):
            return AddableDict(total) + AddableDict(piece)
        return piece
