"""`BaseTool`: something a model may call, with a name, a description and a schema of its arguments.

A call goes one way: take the tool call apart, tell listeners, check the arguments, call the function, and make a
`ToolMessage` of what it gave. How a particular tool does that is worked out once, in its `Plan`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SkipValidation,
    ValidationError,
    field_validator,
)
from pydantic_core import CoreSchema

from foldline._config import RunnableConfig
from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Kind, Run
from foldline.callbacks.base import Callbacks
from foldline.exceptions import UsageError
from foldline.messages.tool import ToolCall
from foldline.runnables.serializable import RunnableSerializable
from foldline.tools._answer import answer
from foldline.tools._arguments import (
    FILTERED_ARGS,
    InjectedToolArg,
    InjectedToolCallId,
    _DirectlyInjectedToolArg,
)
from foldline.tools._arguments import config_parameter as _get_runnable_config_param
from foldline.tools._content import MAX_OUTPUT, TOOL_MESSAGE_BLOCK_TYPES
from foldline.tools._json_form import with_json_forms
from foldline.tools._plan import Plan
from foldline.tools._schema import (
    create_schema_from_function,
    get_all_basemodel_annotations,
    make_model,
    model_of,
)
from foldline.tools.errors import (
    SchemaAnnotationError,
    ToolException,
    ToolTimeoutError,
    describe_validation_error,
)

__all__ = [
    "FILTERED_ARGS",
    "TOOL_MESSAGE_BLOCK_TYPES",
    "ArgsSchema",
    "BaseTool",
    "BaseToolkit",
    "InjectedToolArg",
    "InjectedToolCallId",
    "SchemaAnnotationError",
    "ToolException",
    "ToolTimeoutError",
    "_DirectlyInjectedToolArg",
    "_get_runnable_config_param",
    "create_schema_from_function",
    "describe_validation_error",
    "get_all_basemodel_annotations",
    "inject",
    "tools_by_name",
]

ArgsSchema = type[BaseModel] | dict[str, Any]
ToolInput = str | dict[str, Any] | ToolCall
ResponseFormat = Literal["content", "content_and_artifact"]
HandleToolError = bool | str | Callable[[ToolException], Any] | None
HandleValidationError = bool | str | Callable[[ValidationError], Any] | None

NOT_CALLS = ("invalid_tool_call", "tool_call_chunk")
CONFIG_OPTIONS = ("tags", "metadata", "run_name", "run_id")


class BaseTool(RunnableSerializable[ToolInput, Any]):
    """Something a model may call.

    Most tools are made of a function by `@tool`; a subclass writes `_run`, `_arun` or both:

    ```python
    from foldline.tools import BaseTool

    class Shout(BaseTool):
        name: str = "shout"
        description: str = "Say it louder."

        def _run(self, text: str) -> str:
            return text.upper()

    print(Shout().invoke({"text": "hello"}))
    #> HELLO
    call = {"type": "tool_call", "name": "shout", "args": {"text": "hi"}, "id": "call_1"}
    print(repr(Shout().invoke(call)))
    #> ToolMessage(content='HI', name='shout', tool_call_id='call_1')
    ```
    """

    name: str
    """The name by which a model calls it."""
    description: str
    """What it does and when to use it, for the model."""
    args_schema: SkipValidation[ArgsSchema | None] = Field(default=None)
    """Its arguments: a Pydantic model, a TypedDict, a dataclass or a JSON Schema; read off `_run` where not given."""
    return_direct: bool = False
    """Whether an agent stops and answers with what this returned."""
    verbose: bool = False
    """Whether to print its runs."""
    callbacks: Callbacks = Field(default=None, exclude=True)
    """Handlers of its runs."""
    tags: list[str] | None = None
    """Tags of its runs."""
    metadata: dict[str, Any] | None = None
    """Metadata of its runs."""
    handle_tool_error: HandleToolError = False
    """What to answer when it raises ToolException: its text (True), a text, or what a function makes of it."""
    handle_validation_error: HandleValidationError = False
    """What to answer when the arguments do not fit: the same; `describe_validation_error` says what was wrong."""
    response_format: ResponseFormat = "content"
    """Whether it returns content, or a pair of content and an artifact that the model does not see."""
    extras: dict[str, Any] | None = None
    """Settings of single providers (`{"cache_control": …}`)."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds after which a call fails with ToolTimeoutError. A blocking function runs on in its thread, unheard."""
    max_output: int | None = Field(default=MAX_OUTPUT, gt=0)
    """Characters of text that a model is shown; the rest is cut, with a notice. None: no limit."""
    eager: bool = False
    """Whether an agent may start it while the message still streams: it must be safe to run for nothing."""
    run_once: bool = False
    """Whether a call must not run a second time where the process died, or the run broke off, while it ran: an agent
    with a checkpointer then tells the model that nobody knows whether it took effect."""

    _kind: ClassVar[Kind] = "tool"

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore", arbitrary_types_allowed=True, protected_namespaces=()
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        annotation = inspect.get_annotations(cls).get("args_schema")
        is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        if is_model or annotation == "BaseModel":
            raise SchemaAnnotationError(
                f"{cls.__name__}.args_schema holds a class: annotate it `type[BaseModel]`, not {annotation!r}"
            )

    @field_validator("args_schema", mode="before", check_fields=False)
    @classmethod
    def _check_args_schema(cls, value: object) -> object:
        if value is None or isinstance(value, dict) or model_of(value) is not None:
            return value
        raise TypeError(
            "args_schema must be a Pydantic model, a TypedDict, a dataclass or a JSON Schema (dict), "
            f"not {value!r:.100}"
        )

    if not TYPE_CHECKING:

        @classmethod
        def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
            return with_json_forms(super().__get_pydantic_core_schema__(source, handler))

    # -- what a subclass writes

    def _run(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  what the tool's function returns
        """Do the work, in a blocking call."""
        raise NotImplementedError

    async def _arun(self, *args: Any, **kwargs: Any) -> object:
        """Do the work, awaited; where it is not written, `_run` runs in a thread."""
        raise NotImplementedError

    def _functions(self) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
        """Return the blocking and the async function of this tool."""
        cls = type(self)
        return (
            None if cls._run is BaseTool._run else self._run,
            None if cls._arun is BaseTool._arun else self._arun,
        )

    def _takes_names(self) -> bool:
        """Whether it takes arguments by name."""
        return True

    def _schemaless(self) -> type[BaseModel]:
        """The schema of a tool that takes no names."""
        return make_model(self.name, {})

    # -- hooks of LangChain's that a subclass may override

    def _parse_input(self, tool_input: object, tool_call_id: str | None) -> dict[str, Any]:
        return self._plan.arguments(tool_input, tool_call_id)

    def _to_args_and_kwargs(
        self, tool_input: object, tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), self._parse_input(tool_input, tool_call_id)

    def _hooks(self) -> tuple[bool, bool]:
        cls = type(self)
        return (
            cls._to_args_and_kwargs is not BaseTool._to_args_and_kwargs,
            cls._parse_input is not BaseTool._parse_input,
        )

    # -- the plan

    @property
    def _plan(self) -> Plan:
        plan: Plan | None = self.__dict__.get("_plan_")
        if plan is None or plan.tool is not self:  # a copy brings the plan of its original
            plan = self.__dict__["_plan_"] = Plan(self)
        return plan

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        self.__dict__.pop("_plan_", None)

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        fields = {name: one for name, one in state["__dict__"].items() if name != "_plan_"}
        return {**state, "__dict__": fields}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        self.__dict__.pop("_plan_", None)
        return super().__deepcopy__(memo)

    # -- what it takes

    @property
    def args(self) -> dict[str, Any]:
        """The arguments a model may give, as JSON Schemas by name."""
        schema = self.tool_call_schema
        whole = schema if isinstance(schema, dict) else schema.model_json_schema()
        return cast("dict[str, Any]", whole.get("properties") or {})

    @property
    def tool_call_schema(self) -> ArgsSchema:
        """The schema that a model is told of: without injected arguments, under the tool's name."""
        return self._plan.call_schema

    @property
    def is_single_input(self) -> bool:
        """Whether it takes one argument."""
        return len([name for name in self.args if name != "kwargs"]) == 1

    @property
    def injected_args(self) -> frozenset[str]:
        """The arguments that the program gives and no model may."""
        return self._plan.injected

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the arguments as a Pydantic model, injected ones included."""
        return self._plan.input_model

    # -- running

    async def _invoke_body(self, input: ToolInput, run: Run) -> object:
        if isinstance(input, dict) and "type" in input:
            kind = input["type"]
            if kind == "tool_call" and "args" in input:
                return await self._call(_args_of(self.name, input), input.get("id"), run)
            if kind in NOT_CALLS and "args" in input:
                why = input.get("error") or input["args"]
                raise UsageError(f"{self.name}: a {kind} is no call and is not run: {why!r:.200}")
        return await self._call(input, run.kwargs.get("tool_call_id"), run)

    async def _invoke_traced(self, input: ToolInput, run: Run) -> Any:  # noqa: ANN401  what the tool's function returns
        return await self._invoke_body(input, run)

    def _stream_traced(self, input: ToolInput, run: Run) -> AsyncGenerator[Any, None]:
        return self._stream_body(input, run)

    def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        return self._transform_body(inputs, run)

    async def _call(self, given: object, call_id: str | None, run: Run) -> object:
        if call_id is not None and type(call_id) is not str:
            call_id = str(call_id)
        if run.manager is None and not run.kwargs and not self.callbacks and not self.verbose:
            return await answer(self, given, call_id, run)
        said = {name: one for name, one in run.kwargs.items() if name != "tool_call_id"}
        verbose = said.pop("verbose", None)
        start_color, color = said.pop("start_color", "green"), said.pop("color", "green")
        run = run.with_local(
            self.callbacks,
            self.tags,
            self.metadata,
            verbose=self.verbose if verbose is None else bool(verbose),
        ).patched(kwargs={})
        try:
            await self._begin(given, call_id, run, {**said, "color": start_color})
            output = await answer(self, given, call_id, run)
        except BaseException as error:
            await run.dispatch("on_tool_error", error, tool_call_id=call_id)
            raise
        await run.dispatch("on_tool_end", output, color=color, name=self.name)
        return output

    async def _begin(
        self, given: object, call_id: str | None, run: Run, said: dict[str, Any]
    ) -> None:
        if run.manager is None:
            return
        shown = self._plan.visible(given)
        await run.begin(
            "tool",
            "on_tool_start",
            {"name": self.name, "description": self.description},
            shown if isinstance(shown, str) else str(shown),
            inputs=dict(shown) if isinstance(shown, Mapping) else None,
            name=run.get("run_name"),
            tool_call_id=call_id,
            **said,
        )

    # -- LangChain's older way to call it

    def run(
        self,
        tool_input: str | dict[str, Any],
        verbose: bool | None = None,  # noqa: FBT001  LangChain's signature
        start_color: str | None = "green",
        color: str | None = "green",
        callbacks: Callbacks = None,
        **options: object,
    ) -> Any:  # noqa: ANN401  what the tool's function returns
        """Run with arguments; with a `tool_call_id` the result is a message.

        The other options are those of a config (`tags`, `metadata`, `run_name`, `run_id`), a whole `config`, and what
        listeners are told at the start.
        """
        options |= {"verbose": verbose, "start_color": start_color, "color": color}
        return drive(self._run_older(tool_input, callbacks, options, BLOCKING))

    async def arun(
        self,
        tool_input: str | dict[str, Any],
        verbose: bool | None = None,  # noqa: FBT001  LangChain's signature
        start_color: str | None = "green",
        color: str | None = "green",
        callbacks: Callbacks = None,
        **options: object,
    ) -> Any:  # noqa: ANN401  what the tool's function returns
        """Run with arguments; see `run`."""
        options |= {"verbose": verbose, "start_color": start_color, "color": color}
        return await self._run_older(tool_input, callbacks, options, ASYNC)

    async def _run_older(
        self, given: object, callbacks: Callbacks, options: dict[str, Any], io: IO
    ) -> object:
        call_id, config = options.pop("tool_call_id", None), options.pop("config", None) or {}
        own = {name: options.pop(name) for name in CONFIG_OPTIONS if name in options}
        said = {
            name: one for name, one in {**own, "callbacks": callbacks}.items() if one is not None
        }
        return await self._call(
            given,
            call_id,
            Run.root(io, cast("RunnableConfig", {**config, **said}) or None, options),
        )


class BaseToolkit(BaseModel, ABC):
    """Tools that belong together."""

    @abstractmethod
    def get_tools(self) -> list[BaseTool]:
        """Return the tools."""


def tools_by_name(tools: Sequence[BaseTool]) -> dict[str, BaseTool]:
    """Return tools by their names; two of one name are refused."""
    named: dict[str, BaseTool] = {}
    for tool in tools:
        if tool.name in named:
            raise UsageError(
                f"two tools are named {tool.name!r}: nobody could tell them apart, rename one"
            )
        named[tool.name] = tool
    return named


def inject(tool: BaseTool, call: ToolCall, values: Mapping[str, Any]) -> ToolCall:
    """Return a model's call with the injected arguments filled in; what the model said for them is thrown away."""
    hidden = tool.injected_args
    args = {name: one for name, one in call["args"].items() if name not in hidden}
    args |= {name: one for name, one in values.items() if name in hidden}
    return cast("ToolCall", {**call, "args": args})


def _args_of(name: str, call: Mapping[str, Any]) -> dict[str, Any]:
    args = call["args"]
    if isinstance(args, dict):
        return args
    raise UsageError(f"{name}: the arguments of a tool call are an object, not {args!r:.200}")
