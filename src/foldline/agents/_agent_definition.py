"""`Setup`: everything about an agent that is the same in all its runs, computed once.

The steps of an agent and the transitions between them:

    start → before_agent… → before_model… → model → after_model… → tools → before_model… → …
                                                                  ↘ after_agent… → end

A hook may jump to another step that it declares, with `{"jump_to": "model" | "tools" | "end"}` in its update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from foldline.agents._tool_calls import unanswered
from foldline.agents.checkpoint._records import Codec
from foldline.agents.middleware.base import (
    AgentMiddleware,
    Hook,
    HookName,
    Wrap,
    hook_of,
    jumps_of,
    wrap_of,
)
from foldline.agents.requests import ModelRequest
from foldline.agents.runtime import injections_of
from foldline.agents.state import StateSchema
from foldline.agents.structured_output import ProviderReader, ToolReader, reader_of
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import UsageError
from foldline.language_models._call.policies.usage import Limits
from foldline.messages import AIMessage, BaseMessage, SystemMessage
from foldline.runnables.base import Runnable
from foldline.tools.base import BaseTool, tools_by_name
from foldline.utils.strings import suggestion
from foldline.workflows.durability import Durability

__all__ = ["END", "MODEL", "TOOLS", "LostCall", "Setup"]

MODEL = "model"
TOOLS = "tools"
END = "__end__"
MAX_BOUND_MODELS = 32
WrapKind: TypeAlias = Literal["model", "tool"]
LostCall: TypeAlias = Literal["again", "unknown"]
Reader = ToolReader | ProviderReader


class Setup:
    """The parts of an agent and the transitions between its steps."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401  a chat model, or a runnable that wraps one
        tools: Sequence[Any],
        *,
        system_message: SystemMessage | None,
        response_format: object,
        middleware: Sequence[AgentMiddleware],
        state_schema: type | None,
        checkpointer: BaseCheckpointSaver | None,
        store: object,
        limits: Limits | None,
        name: str,
        durability: Durability | None = None,
        context_schema: type | None = None,
        on_lost_call: LostCall = "again",
    ) -> None:
        self.context_schema = context_schema
        self.on_lost_call = on_lost_call
        self.name = name
        self.durability = durability
        self.model = model
        self.system_message = system_message
        self.response_format = response_format
        self.checkpointer = checkpointer
        self.store = store
        self.limits = limits
        self.middleware = list(middleware)
        self._check_names()
        self.bindable: list[Any] = [*tools, *(tool for part in middleware for tool in part.tools)]
        self.tools: dict[str, BaseTool] = tools_by_name(
            [tool for tool in self.bindable if isinstance(tool, BaseTool)]
        )
        self.injections = {
            name: injections_of(tool) for name, tool in self.tools.items() if tool.injected_args
        }
        self._check_named_tools()
        gated = self._gated = frozenset[str]().union(*(part.gated_tools for part in middleware))
        self.eager: frozenset[str] = frozenset(
            name
            for name, tool in self.tools.items()
            if tool.eager and self.runs_again(name) and name not in gated
        )
        schemas = [part.state_schema for part in middleware]
        self.schema = StateSchema([*schemas, state_schema] if state_schema else schemas)
        self.reader = self._reader(response_format, model)
        self.codec = Codec(self.schema, None if self.reader is None else self.reader.value)
        self._wire()
        self._bound: dict[Any, tuple[Any, Any]] = {}

    def runs_again(self, name: str) -> bool:
        """Whether a call of a tool runs again if the process or the run ended while it ran."""
        tool = self.tools.get(name)
        if tool is None or tool.run_once:
            return False
        return self.on_lost_call == "again" or _is_read_only(tool)

    def is_noted(self, name: str) -> bool:
        """Whether it is recorded that a call of a tool begins: it was approved, or must not run again."""
        return not self.runs_again(name) or (
            name in self._gated and not _is_read_only(self.tools[name])
        )

    def _check_names(self) -> None:
        names = [part.name for part in self.middleware]
        duplicates = [name for name in names if names.count(name) > 1]
        if duplicates:
            raise UsageError(
                f"two middleware are named {duplicates[0]!r}: give one another name (override `name`)"
            )

    def _check_named_tools(self) -> None:
        """Raise `UsageError` if a middleware names a tool that does not exist: it would have no effect (F-Y15)."""
        tool_names = {*self.tools, *filter(None, map(_declared_name, self.bindable))}
        for part in self.middleware:
            unknown = sorted((part.gated_tools | part.named_tools) - tool_names)
            if unknown:
                hint = suggestion(unknown[0], tool_names)
                raise UsageError(
                    f"{part.name} names the tool {unknown[0]!r}, which this agent does not have{hint}; "
                    f"its tools: {', '.join(sorted(tool_names)) or 'none'}"
                )

    # -- the transitions between the steps

    def _wire(self) -> None:
        self.hooks: dict[str, Hook] = {}
        self.jumps: dict[str, frozenset[str]] = {}
        """The jumps that the hooks declare, by step."""
        before_agent = self._steps("before_agent")
        before_model = self._steps("before_model")
        after_model = self._steps("after_model")[::-1]
        after_agent = self._steps("after_agent")[::-1]
        self.head = before_model[0] if before_model else MODEL
        self.exit = after_agent[0] if after_agent else END
        self.entry = before_agent[0] if before_agent else self.head
        self.follows: dict[str, str] = {}
        """The step after a step, unless the model's answer decides it."""
        for chain in (
            [*before_agent, self.head],
            [*before_model, MODEL],
            [MODEL, *after_model],
            [*after_agent, END],
        ):
            self.follows |= dict(pairwise(chain))
        self.model_wraps = self._wraps("model")
        self.tool_wraps = self._wraps("tool")

    def _steps(self, kind: HookName) -> list[str]:
        names = []
        for part in self.middleware:
            hook = hook_of(part, kind)
            if hook is not None:
                names.append(f"{part.name}.{kind}")
                self.hooks[names[-1]] = hook
                self.jumps[names[-1]] = jumps_of(part, kind)
        return names

    def _wraps(self, kind: WrapKind) -> list[tuple[str, Wrap]]:
        wraps = [(part.name, wrap_of(part, kind)) for part in self.middleware]
        return [(name, wrap) for name, wrap in wraps if wrap is not None]

    def next_step(self, node: str, values: Mapping[str, Any]) -> str:
        """Return the step after `node`, by the state."""
        if node == TOOLS:
            return self.head
        return self.follows.get(node) or self._step_by_answer(values)

    def _step_by_answer(self, values: Mapping[str, Any]) -> str:
        messages: list[BaseMessage] = values.get("messages") or []
        if unanswered(messages):
            return TOOLS
        if values.get("structured_response") is not None:
            return self.exit
        last = messages[-1] if messages else None
        if isinstance(last, AIMessage):
            # A paused answer without content is still running at the provider: asking again would restart it.
            is_paused = last.finish_reason == "pause" and bool(last.content)
            return self.head if is_paused else self.exit
        answer = next(
            (message for message in reversed(messages) if isinstance(message, AIMessage)), None
        )
        is_open = answer is not None and (answer.tool_calls or answer.invalid_tool_calls)
        return self.head if is_open or self.reader is not None else self.exit

    @property
    def nodes(self) -> set[str]:
        """The names of all steps."""
        return {*self.hooks, MODEL, TOOLS}

    # -- the model, with its tools and the form of its answer

    def _reader(self, response_format: object, model: object) -> Reader | None:
        profile = getattr(model, "profile", None)
        try:
            return reader_of(response_format, profile, has_tools=bool(self.bindable))
        except UsageError as error:
            raise UsageError(f"response_format: {error}") from error

    def bound(self, request: ModelRequest) -> tuple[Runnable[Any, Any], Reader | None]:
        """Return the model of a request with its tools bound, and the reader of its answer."""
        key = (
            id(request.model), tuple(map(id, request.tools)), repr(request.tool_choice),
            id(request.response_format), repr(sorted(request.model_settings.items())) if request.model_settings else "",
        )  # fmt: skip
        cached = self._bound.get(key)
        if cached is not None:
            return cached[0]  # type: ignore[no-any-return]
        if len(self._bound) >= MAX_BOUND_MODELS:
            self._bound.clear()
        is_unchanged = (
            request.response_format is self.response_format and request.model is self.model
        )
        reader = (
            self.reader if is_unchanged else self._reader(request.response_format, request.model)
        )
        bound = _bind(request, reader), reader
        # References keep the objects alive, so that the ids in the key stay valid.
        self._bound[key] = (bound, (request.model, list(request.tools), request.response_format))
        return bound


def _declared_name(tool: object) -> str | None:
    """Return the name of a tool that is a dict, in one of the forms that providers accept."""
    if not isinstance(tool, Mapping):
        return None
    function = tool.get("function")
    inner = function if isinstance(function, Mapping) else tool
    name = inner.get("name") or tool.get("title") or tool.get("type")
    return name if isinstance(name, str) else None


def _bind(request: ModelRequest, reader: Reader | None) -> Runnable[Any, Any]:
    model, tools = request.model, list(request.tools)
    settings, choice = dict(request.model_settings), request.tool_choice
    if isinstance(reader, ToolReader):
        tools += reader.tools
        choice = choice or _forced_tool_choice(model)
    if isinstance(reader, ProviderReader):
        settings["response_format"] = reader.format
    if tools:
        options = {} if choice is None else {"tool_choice": choice}
        return model.bind_tools(tools, **options, **settings)  # type: ignore[no-any-return]
    return model.bind(**settings) if settings else model  # type: ignore[no-any-return]


def _forced_tool_choice(model: object) -> str | None:
    """Return the tool choice that forces a call, if the model supports it."""
    profile = getattr(model, "profile", None) or {}
    return "any" if profile.get("tool_choice", True) else None


def _is_read_only(tool: BaseTool) -> bool:
    return (tool.extras or {}).get("read_only") is True
