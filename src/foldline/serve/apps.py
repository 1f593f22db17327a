"""`ServedApp`: a model, an agent, a graph, a chain or embeddings under a name; and what one run of it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from foldline._config import RunnableConfig
from foldline.agents.agent import Agent
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.messages import BaseMessage
from foldline.prices import find_prices
from foldline.prices.types import Prices
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.runnables.fallbacks import RunnableWithFallbacks
from foldline.runnables.lambda_ import RunnableLambda
from foldline.serve.json_object import JsonObject
from foldline.utils.short_repr import short_repr
from foldline.workflows.interrupts import Command
from foldline.workflows.loop_runnable import LoopRunnable

if TYPE_CHECKING:
    from foldline.agents.agent import StateSnapshot as AgentSnapshot
    from foldline.graph.types import StateSnapshot as GraphSnapshot

__all__ = [
    "AppKind",
    "Emit",
    "InsideView",
    "RunRequest",
    "Servable",
    "ServedApp",
    "Snapshot",
    "as_apps",
]

AppKind = Literal["model", "agent", "runnable", "embeddings"]
Emit = Callable[[str, object, "list[str] | None", "str | None"], None]
"""Takes an event's method, data, namespace and node."""
InsideView = Literal["stream_log", "stream_events"]
"""The ways in which LangServe's clients watch a run from inside."""
Snapshot: TypeAlias = "AgentSnapshot | GraphSnapshot"
"""A checkpoint of a thread."""
CHATTY_NAMES: Final = ("messages", "chat_history", "history")


@dataclass(slots=True)
class RunRequest:
    """What is asked of an app in one run."""

    input: object = None
    """Messages, or any JSON that the app takes; None carries on with the thread."""
    options: JsonObject = field(default_factory=dict)
    """Options of the model: temperature, tools, and so on; agents have their own."""
    thread: str | None = None
    """The thread as the app's checkpointer knows it."""
    command: Command[Any] | None = None
    """Answers to questions, in the place of an input."""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    keeps_values: bool = False
    """Whether the state after each step goes into the log."""
    streams: bool = True
    """Whether a model is asked for a stream; an answer that is wanted at once costs less."""
    inside: InsideView | None = None
    """The form in which the steps inside go into the log, in the place of the app's own events."""
    inside_options: JsonObject = field(default_factory=dict)
    """Filters of what is seen inside: `include_names` and so on."""

    def copy(self) -> RunRequest:
        """Return the same for another run: each run has a config and a thread of its own."""
        return replace(self, config=RunnableConfig(**self.config))


class ServedApp:
    """One thing that is served."""

    __repr__ = short_repr

    def __init__(
        self,
        name: str,
        target: object,
        *,
        on_disconnect: Literal["cancel", "continue"] | None = None,
        provider_name: str | None = None,
    ) -> None:
        self.name = name
        self.target: Any = target
        """The object itself. `kind` says which methods it has."""
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
    def checkpointer(self) -> BaseCheckpointSaver | None:
        """The checkpointer that stores its threads."""
        if isinstance(self.target, Agent):
            return self.target.setup.checkpointer
        saver = getattr(self.target, "checkpointer", None)
        return saver if isinstance(saver, BaseCheckpointSaver) else None

    @property
    def prices(self) -> Prices | None:
        """What its model costs, where it is one model whose price is known."""
        if self.model is None:
            return None
        own = (self.model.profile or {}).get("prices")
        return own or find_prices(self.model._provider, self.model._model_name)

    def input_of_chat(self, messages: list[BaseMessage]) -> object:
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
        value: JsonObject = {}
        if chatty:
            value[chatty[0]] = messages if not plain else messages[:-1]
        if plain:
            value[plain[0]] = text
        return value


Servable: TypeAlias = ServedApp | Runnable[Any, Any] | Embeddings | Callable[..., Any]
"""What can be served. A plain function becomes a `RunnableLambda`."""


def kind_of(name: str, target: object) -> AppKind:
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


def model_of(target: object) -> BaseChatModel | None:
    """Return the chat model that answers for a runnable which gives a chat model's answers; None for others."""
    if isinstance(target, BaseChatModel):
        return target
    if isinstance(target, RunnableBindingBase):
        return model_of(target.bound)
    if isinstance(target, RunnableWithFallbacks):
        inner = [model_of(inner_target) for inner_target in (target.runnable, *target.fallbacks)]
        return inner[0] if all(inner_target is not None for inner_target in inner) else None
    return None


def as_apps(apps: Servable | Mapping[str, Servable]) -> dict[str, ServedApp]:
    """Return what is served, by name: of one object, or of a mapping of names."""
    if isinstance(apps, ServedApp):
        return {apps.name: apps}
    if not isinstance(apps, Mapping):
        name = getattr(apps, "name", None) or "app"
        apps = {str(name): apps}
    served: dict[str, ServedApp] = {}
    for name, target in apps.items():
        if not isinstance(target, ServedApp):
            if callable(target) and not isinstance(target, Runnable | Embeddings):
                target = RunnableLambda(target)
            target = ServedApp(name, target)
        served[name] = target
    if not served:
        raise UsageError("nothing to serve: name an app or a model")
    return served
