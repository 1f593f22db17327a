"""`BaseTool`: a function that a model may call, with a name, a description and a schema of its arguments.

A call has these steps: read the tool call, notify callbacks, validate the arguments, call the function, and make a
`ToolMessage` from its output. What depends on the tool is computed once, in its `ToolCallPlan`.
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
    model_validator,
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
    config_parameter as _get_runnable_config_param,
)
from foldline.tools._call_plan import ToolCallPlan
from foldline.tools._content import MAX_OUTPUT, TOOL_MESSAGE_BLOCK_TYPES
from foldline.tools._json_form import with_json_forms
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
from foldline.utils._options import check_field_names

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
    """A function that a model may call.

    Most tools are made from a function with `@tool`; a subclass implements `_run`, `_arun` or both:

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
    """Its arguments: a Pydantic model, a TypedDict, a dataclass or a JSON Schema; by default those of `_run`."""
    return_direct: bool = False
    """Whether an agent stops and answers with this tool's output."""
    verbose: bool = False
    """Whether to print its runs."""
    callbacks: Callbacks = Field(default=None, exclude=True)
    """Handlers of its runs."""
    tags: list[str] | None = None
    """Tags of its runs."""
    metadata: dict[str, Any] | None = None
    """Metadata of its runs."""
    handle_tool_error: HandleToolError = False
    """The output when it raises ToolException: its text (True), a fixed text, or the result of a function."""
    handle_validation_error: HandleValidationError = False
    """The output when the arguments are invalid, in the same forms; `describe_validation_error` lists the problems."""
    response_format: ResponseFormat = "content"
    """Whether it returns content, or a pair of content and an artifact that the model does not see."""
    extras: dict[str, Any] | None = None
    """Settings of single providers (`{"cache_control": …}`), and what agents know of it: `{"read_only": True}`, if a
    call changes nothing and may be repeated."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds after which a call fails with ToolTimeoutError. A sync function continues in its thread, ignored."""
    max_output: int | None = Field(default=MAX_OUTPUT, gt=0)
    """Characters of text that are sent to a model; the rest is cut off, with a notice. None: no limit."""
    eager: bool = False
    """Whether an agent may start it while the message still streams; the result may be discarded."""
    run_once: bool = False
    """Whether a call must not run a second time if the process stopped, or the run was interrupted, while it ran: an
    agent with a checkpointer then tells the model that the effect of the call is unknown."""

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

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_options(cls, values: object) -> object:
        check_field_names(cls, values)
        return values

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

    # -- what a subclass implements

    def _run(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  what the tool's function returns
        """Run the tool in a sync call."""
        raise NotImplementedError

    async def _arun(self, *args: Any, **kwargs: Any) -> object:
        """Run the tool in an async call; if it is not implemented, `_run` runs in a thread."""
        raise NotImplementedError

    def _functions(self) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
        """Return the sync and the async function of this tool."""
        cls = type(self)
        return (
            None if cls._run is BaseTool._run else self._run,
            None if cls._arun is BaseTool._arun else self._arun,
        )

    def _takes_names(self) -> bool:
        """Whether the tool takes arguments by name."""
        return True

    def _schemaless(self) -> type[BaseModel]:
        """Return the schema of a tool that takes no named arguments."""
        return make_model(self.name, {})

    # -- LangChain's hooks that a subclass may override

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
    def _plan(self) -> ToolCallPlan:
        plan: ToolCallPlan | None = self.__dict__.get("_plan_")
        if plan is None or plan.tool is not self:  # a copy has the plan of its original
            plan = self.__dict__["_plan_"] = ToolCallPlan(self)
        return plan

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        self.__dict__.pop("_plan_", None)

    def __getstate__(self) -> dict[Any, Any]:
        state = super().__getstate__()
        fields = {name: value for name, value in state["__dict__"].items() if name != "_plan_"}
        return {**state, "__dict__": fields}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        self.__dict__.pop("_plan_", None)
        return super().__deepcopy__(memo)

    # -- what it takes

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that a model may pass, as JSON Schemas by name."""
        schema = self.tool_call_schema
        json_schema = schema if isinstance(schema, dict) else schema.model_json_schema()
        return cast("dict[str, Any]", json_schema.get("properties") or {})

    @property
    def tool_call_schema(self) -> ArgsSchema:
        """The schema that is sent to a model: without injected arguments, with the tool's name."""
        return self._plan.call_schema

    @property
    def is_single_input(self) -> bool:
        """Whether the tool takes one argument."""
        return len([name for name in self.args if name != "kwargs"]) == 1

    @property
    def injected_args(self) -> frozenset[str]:
        """The arguments that the program passes and a model must not."""
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
                reason = input.get("error") or input["args"]
                raise UsageError(
                    f"{self.name}: a {kind} is not a complete call and is not run: {reason!r:.200}"
                )
        return await self._call(input, run.kwargs.get("tool_call_id"), run)

    async def _invoke_traced(self, input: ToolInput, run: Run) -> Any:  # noqa: ANN401  what the tool's function returns
        return await self._invoke_body(input, run)

    def _stream_traced(self, input: ToolInput, run: Run) -> AsyncGenerator[Any, None]:
        return self._stream_body(input, run)

    def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        return self._transform_body(inputs, run)

    async def _call(self, arguments: object, call_id: str | None, run: Run) -> object:
        if call_id is not None and type(call_id) is not str:
            call_id = str(call_id)
        if run.manager is None and not run.kwargs and not self.callbacks and not self.verbose:
            return await answer(self, arguments, call_id, run)
        start_options = {
            name: value for name, value in run.kwargs.items() if name != "tool_call_id"
        }
        verbose = start_options.pop("verbose", None)
        start_color, color = (
            start_options.pop("start_color", "green"),
            start_options.pop("color", "green"),
        )
        run = run.with_local(
            self.callbacks,
            self.tags,
            self.metadata,
            verbose=self.verbose if verbose is None else bool(verbose),
        ).patched(kwargs={})
        try:
            await self._begin(arguments, call_id, run, {**start_options, "color": start_color})
            output = await answer(self, arguments, call_id, run)
        except BaseException as error:
            await run.dispatch("on_tool_error", error, tool_call_id=call_id)
            raise
        await run.dispatch("on_tool_end", output, color=color, name=self.name)
        return output

    async def _begin(
        self, arguments: object, call_id: str | None, run: Run, options: dict[str, Any]
    ) -> None:
        if run.manager is None:
            return
        visible = self._plan.visible(arguments)
        await run.begin(
            "tool",
            "on_tool_start",
            {"name": self.name, "description": self.description},
            visible if isinstance(visible, str) else str(visible),
            inputs=dict(visible) if isinstance(visible, Mapping) else None,
            name=run.get("run_name"),
            tool_call_id=call_id,
            **options,
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

        The other options are fields of a config (`tags`, `metadata`, `run_name`, `run_id`), a `config`, and options
        that are passed to callbacks at the start.
        """
        options |= {"verbose": verbose, "start_color": start_color, "color": color}
        return drive(self._run_legacy(tool_input, callbacks, options, BLOCKING))

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
        return await self._run_legacy(tool_input, callbacks, options, ASYNC)

    async def _run_legacy(
        self, arguments: object, callbacks: Callbacks, options: dict[str, Any], io: IO
    ) -> object:
        call_id, config = options.pop("tool_call_id", None), dict(options.pop("config", None) or {})
        fields = {name: options.pop(name) for name in CONFIG_OPTIONS if name in options}
        fields["callbacks"] = callbacks
        config |= {name: value for name, value in fields.items() if value is not None}
        return await self._call(
            arguments, call_id, Run.root(io, cast("RunnableConfig", config) or None, options)
        )


class BaseToolkit(BaseModel, ABC):
    """Tools that belong together."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    @abstractmethod
    def get_tools(self) -> list[BaseTool]:
        """Return the tools."""


def tools_by_name(tools: Sequence[BaseTool]) -> dict[str, BaseTool]:
    """Return tools by name; raise `UsageError` if two have the same name."""
    by_name: dict[str, BaseTool] = {}
    for tool in tools:
        if tool.name in by_name:
            raise UsageError(f"two tools are named {tool.name!r}: rename one")
        by_name[tool.name] = tool
    return by_name


def inject(tool: BaseTool, call: ToolCall, values: Mapping[str, Any]) -> ToolCall:
    """Return a model's call with the injected arguments set; values that the model wrote for them are discarded."""
    injected = tool.injected_args
    args = {name: value for name, value in call["args"].items() if name not in injected}
    args |= {name: value for name, value in values.items() if name in injected}
    return cast("ToolCall", {**call, "args": args})


def _args_of(name: str, call: Mapping[str, Any]) -> dict[str, Any]:
    args = call["args"]
    if isinstance(args, dict):
        return args
    raise UsageError(f"{name}: the arguments of a tool call must be an object, not {args!r:.200}")
