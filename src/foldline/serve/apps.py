"""`ServedApp`: a model, an agent, a graph, a chain or embeddings under a name. `RunRequest`: one run of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from foldline._config import RunnableConfig
from foldline._items.base import BaseStore
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
from foldline.serve._json_object import JsonObject
from foldline.utils._options import check_options
from foldline.utils._short_repr import short_repr
from foldline.workflows._loop_runnable import LoopRunnable
from foldline.workflows.interrupts import Command

if TYPE_CHECKING:
    from foldline.agents.agent import StateSnapshot as AgentSnapshot
    from foldline.graph.types import StateSnapshot as GraphSnapshot

__all__ = [
    "ServedApp",
]

AppKind = Literal["model", "agent", "runnable", "embeddings"]
Emit = Callable[[str, object, "list[str] | None", "str | None"], None]
"""Takes an event's method, data, namespace and node."""
InnerView = Literal["stream_log", "stream_events"]
"""The two forms in which LangServe's clients watch the steps inside a run."""
Snapshot: TypeAlias = "AgentSnapshot | GraphSnapshot"
"""A checkpoint of a thread."""
CHATTY_NAMES: Final = ("messages", "chat_history", "history")


class RunOutput(Protocol):
    """Takes the events of a run."""

    def emit(
        self, method: str, data: object, namespace: list[str] | None = None, node: str | None = None
    ) -> None:
        """Take an event."""

    async def pace(self) -> None:
        """Give way to other runs, where it is time; called after each event."""


@dataclass(slots=True)
class RunRequest:
    """The input, the options and the config of one run."""

    input: object = None
    """Messages, or any JSON that the app takes; None continues the thread."""
    options: JsonObject = field(default_factory=dict)
    """Options of the model: temperature, tools, and so on. Agents set their own."""
    thread: str | None = None
    """The thread's id in the app's checkpointer."""
    command: Command[Any] | None = None
    """Answers to questions, instead of an input."""
    goes_on: bool = False
    """Whether the run goes on without the answers if they are in the thread already: its server died after that."""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    keeps_values: bool = False
    """Whether the state after each step is logged."""
    streams: bool = True
    """Whether the model streams; an answer in one piece costs less."""
    inner_view: InnerView | None = None
    """How the steps inside the app are logged, instead of the app's own events."""
    inner_options: JsonObject = field(default_factory=dict)
    """Filters of the steps inside the app: `include_names` and so on."""

    def copy(self) -> RunRequest:
        """Return a copy for another run, which needs its own config and thread."""
        return replace(self, config=RunnableConfig(**self.config))


class ServedApp:
    """A served object and its name."""

    __repr__ = short_repr

    @check_options()
    def __init__(
        self,
        name: str,
        target: object,
        *,
        on_disconnect: Literal["cancel", "continue"] | None = None,
        provider_name: str | None = None,
        max_runs: int | None = None,
        run_timeout: float | None = None,
    ) -> None:
        for field_name, number in (("max_runs", max_runs), ("run_timeout", run_timeout)):
            if number is not None and not number > 0:
                raise UsageError(
                    f"{field_name} of the app {name!r} is a number above 0, not {number!r}"
                )
        self.max_runs = max_runs
        """How many of its runs are under way at once in one process; None for no limit of its own."""
        self.run_timeout = run_timeout
        """Seconds after which a run ends with an error; None for that of the server."""
        self.name = name
        self.target: Any = target
        """The object itself. `kind` says which methods it has."""
        self.on_disconnect = on_disconnect
        self.kind: AppKind = kind_of(name, target)
        model = model_of(target)
        self.model = model
        self.label: str = provider_name or (
            f"{model._provider}:{model._model_name}" if model is not None else name
        )

    @property
    def store(self) -> BaseStore | None:
        """What an agent or a graph shares beside its threads."""
        owner = self.target.setup if isinstance(self.target, Agent) else self.target
        store = getattr(owner, "store", None)
        return store if isinstance(store, BaseStore) else None

    @property
    def has_threads(self) -> bool:
        """Whether the app stores conversations."""
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
        """The prices of its model; None where they are not known or it has several models."""
        if self.kind == "embeddings":
            names = (getattr(self.target, name, None) for name in ("_provider", "_model_name"))
            provider, model = (name if isinstance(name, str) else None for name in names)
            return find_prices(provider, model)
        if self.model is None:
            return None
        profile_prices = (self.model.profile or {}).get("prices")
        return profile_prices or find_prices(self.model._provider, self.model._model_name)

    @cached_property
    def needed_fields(self) -> frozenset[str]:
        """The fields that the input of a prompt or a chain must have; none where it is no object."""
        schema = self.target.get_input_schema().model_json_schema()
        if schema.get("type") != "object":
            return frozenset()
        return frozenset(schema.get("required", ()))

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
        return self._fields_of_chat(messages, fields, needed)

    def _fields_of_chat(
        self, messages: list[BaseMessage], fields: Collection[str], needed: list[str]
    ) -> JsonObject:
        """Return a conversation as an object: the field of a chat gets it, one other field the last text."""
        chatty = [name for name in CHATTY_NAMES if name in fields]
        plain = [name for name in needed if name not in chatty]
        if len(plain) > 1:
            raise UsageError(
                f"{self.name} takes {', '.join(plain)}, not a conversation: call it at /{self.name}/invoke"
            )
        value: JsonObject = {}
        if chatty:
            value[chatty[0]] = messages if not plain else messages[:-1]
        if plain:
            value[plain[0]] = messages[-1].text if messages else ""
        return value


Servable: TypeAlias = ServedApp | Runnable[Any, Any] | Embeddings | Callable[..., Any]
"""What can be served. A plain function becomes a `RunnableLambda`."""


def kind_of(name: str, target: object) -> AppKind:
    """Return the kind of an object; raise `UsageError` where it cannot be served."""
    if isinstance(target, Embeddings):
        return "embeddings"
    if isinstance(target, LoopRunnable):
        return "agent"
    if model_of(target) is not None:
        return "model"
    if isinstance(target, Runnable):
        return "runnable"
    raise UsageError(
        f"the target of the app {name!r} is a {type(target).__name__}: apps are chat models, agents, graphs, "
        "runnables or embeddings"
    )


def model_of(target: object) -> BaseChatModel | None:
    """Return the chat model inside a binding or fallbacks; None for other runnables."""
    if isinstance(target, BaseChatModel):
        return target
    if isinstance(target, RunnableBindingBase):
        return model_of(target.bound)
    if isinstance(target, RunnableWithFallbacks):
        inner = [model_of(inner_target) for inner_target in (target.runnable, *target.fallbacks)]
        return inner[0] if all(inner_target is not None for inner_target in inner) else None
    return None


def _check_names(names: Iterable[object]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise UsageError(f"the name of an app is a text, not {name!r:.80}")


def as_apps(
    apps: Servable | Mapping[str, Servable], name: str | None = None
) -> dict[str, ServedApp]:
    """Return the served apps by name, from one object or a mapping of names.

    `name` is that of one object; without it, the object's own.
    """
    if isinstance(apps, list | tuple | set | frozenset):
        raise UsageError(
            f"a {type(apps).__name__} has no names, and an app needs one: write a dict, {{'name': app, …}}"
        )
    if isinstance(apps, ServedApp):
        return {name or apps.name: apps}
    if not isinstance(apps, Mapping):
        apps = {name or str(getattr(apps, "name", None) or "app"): apps}
    elif name is not None:
        raise UsageError(f"{name}: a dict of apps has their names: leave out {name}=")
    served: dict[str, ServedApp] = {}
    _check_names(apps)
    for key, target in apps.items():
        if not isinstance(target, ServedApp):
            if callable(target) and not isinstance(target, Runnable | Embeddings):
                target = RunnableLambda(target)
            target = ServedApp(key, target)
        served[key] = target
    if not served:
        raise UsageError("nothing to serve: name an app or a model")
    return served
