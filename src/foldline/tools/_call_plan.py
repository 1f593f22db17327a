"""`ToolCallPlan`: how a tool is called, computed once: its schema, its injected arguments, its functions.

A call then only validates the arguments and calls the function; no signature is inspected again. The plan belongs to
one tool in its present state: a copy, or a tool whose fields change, makes a new plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, LiteralString, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import InitErrorDetails, PydanticCustomError

from foldline._run import Run
from foldline.exceptions import BlockingCallError, UsageError
from foldline.tools._arguments import (
    VARIADIC,
    InjectedToolCallId,
    Target,
    is_injected,
    read_arguments,
)
from foldline.tools._schema import (
    Arguments,
    argument_name,
    create_schema_from_function,
    injected_fields,
    missing_value,
    model_of,
    visible_model,
)
from foldline.utils.json_schema import validate

if TYPE_CHECKING:
    from foldline.tools.base import BaseTool

Schema = type[BaseModel] | dict[str, Any]


class ToolCallPlan:
    """Validates the arguments of one tool and calls its function."""

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        sync_function, async_function = tool._functions()
        self.has_function = sync_function is not None or async_function is not None
        if tool.args_schema is None:
            self._check_function()  # with a schema, a tool that is never run can be described to a model
        self.sync_target = None if sync_function is None else Target(sync_function)
        self.async_target = self.sync_target if async_function is None else Target(async_function)
        self.signature = self._signature()
        self.is_custom, self.is_custom_parse = tool._hooks()
        args_schema = tool.args_schema
        self.json_schema = args_schema if isinstance(args_schema, dict) else None
        self.model = None if self.json_schema is not None else self._model(args_schema)
        self._read_injected()
        self._read_fields()

    def _check_function(self) -> None:
        if not self.has_function:
            raise UsageError(
                f"{self.tool.name} has no function: pass one, or implement `_run`, `_arun` or both"
            )

    def _signature(self) -> Target | None:
        """Return the function whose parameters define the arguments: the sync one, unless it has no named ones."""
        for target in (self.sync_target, self.async_target):
            if target is not None and any(
                name not in ("args", "kwargs", "config", "run_manager") for name in target.names
            ):
                return target
        return self.sync_target or self.async_target

    def _model(self, args_schema: object) -> type[BaseModel] | None:
        if args_schema is not None:
            return model_of(args_schema)
        if self.signature is None or self.signature.takes_any_name or not self.tool._takes_names():
            return None
        return create_schema_from_function(self.tool.name, self.signature.function)

    def _read_injected(self) -> None:
        parameters = [] if self.signature is None else read_arguments(self.signature.function)
        injected = {item.name for item in parameters if is_injected(item.annotation)}
        call_ids = {
            item.name for item in parameters if is_injected(item.annotation, InjectedToolCallId)
        }
        if self.model is not None:
            injected |= set(injected_fields(self.model))
            call_ids |= set(injected_fields(self.model, InjectedToolCallId))
        self.injected = frozenset(injected)
        self.call_id_arguments = tuple(sorted(call_ids))

    def _read_fields(self) -> None:
        fields = {} if self.model is None else self.model.model_fields
        names = {argument_name(name, field): name for name, field in fields.items()}
        is_ours = self.model is not None and issubclass(self.model, Arguments)
        takes_extra = (
            self.signature is not None and self.signature.takes_any_name and self._is_inferred()
        )
        self.allowed_names = (
            frozenset(names) | self.injected if is_ours and not takes_extra else None
        )
        """The argument names that are accepted; None accepts all."""
        self.passes_extra = is_ours and takes_extra
        self.parameter_by_field = {
            field: name for name, field in names.items() if is_ours and name != field
        }
        self.injected_only = tuple(self.injected - names.keys())
        """Injected arguments that the schema does not have."""
        self.optional_fields = [
            name for name, field in fields.items() if field.default_factory is missing_value
        ]
        target = self.signature
        may_drop = target is not None and not target.takes_any_name
        self.unused_fields = [
            name
            for name in fields
            if may_drop and target and self.parameter_by_field.get(name, name) not in target.names
        ]
        """Fields of the schema that the function has no parameter for."""

    def _is_inferred(self) -> bool:
        """Whether the schema was made from the function, including its `**kwargs`."""
        return (
            self.model is not None
            and self.signature is not None
            and any(
                name in self.model.model_fields for name in ("kwargs", self.signature.var_keyword)
            )
        )

    # -- arguments

    def arguments(self, input: object, call_id: str | None) -> dict[str, Any]:
        """Validate arguments; return them by the names of the function's parameters."""
        if self.model is not None and isinstance(input, self.model):
            return dict(input.__dict__)
        input = self._arguments_by_name(input)
        if self.call_id_arguments:
            input = self._with_call_id(input, call_id)
        if self.model is None:
            return self._validate_json(input)
        allowed_names = self.allowed_names
        if allowed_names is not None and not input.keys() <= allowed_names:
            self._refuse_unknown(input, allowed_names)
        injected_values = {name: input[name] for name in self.injected_only if name in input}
        instance = self.model.model_validate(
            _without(input, injected_values) if injected_values else input
        )
        values: dict[str, Any] = instance.__dict__
        if instance.__pydantic_extra__:
            values = {**values, **instance.__pydantic_extra__}
        if self.passes_extra:
            values = {**{key: input[key] for key in input if key not in values}, **values}
        if self.optional_fields or self.unused_fields:
            self._drop_unset(values, instance.model_fields_set)
        if self.parameter_by_field:
            values = {
                self.parameter_by_field.get(name, name): value for name, value in values.items()
            }
        return {**values, **injected_values} if injected_values else values

    def _arguments_by_name(self, input: object) -> dict[str, Any]:
        if type(input) is dict:
            return input
        if isinstance(input, str):
            return self._arguments_from_text(input)
        if isinstance(input, Mapping):
            return dict(input)
        problem = PydanticCustomError("dict_type", "Input should be a dictionary of arguments")
        raise ValidationError.from_exception_data(
            self.tool.name, [InitErrorDetails(type=problem, loc=(), input=input)]
        )

    def _arguments_from_text(self, text: str) -> dict[str, Any]:
        if self.json_schema is not None:
            raise UsageError(
                f"{self.tool.name} has a JSON Schema and takes arguments by name: pass a dict, not a string"
            )
        if self.model is None:
            names = [name for name in self._parameter_names() if name not in self.injected]
            if not names and self.signature is not None and self.signature.var_positional:
                return {self.signature.var_positional: (text,)}
            return {names[0] if names else "tool_input": text}
        hidden = self.injected
        first = next((name for name in self._argument_names() if name not in hidden), None)
        return {} if first is None else {first: text}

    def _argument_names(self) -> list[str]:
        fields = {} if self.model is None else self.model.model_fields
        return [argument_name(name, field) for name, field in fields.items()]

    def _parameter_names(self) -> list[str]:
        parameters = [] if self.signature is None else read_arguments(self.signature.function)
        return [item.name for item in parameters if item.kind not in VARIADIC]

    def _with_call_id(self, arguments: dict[str, Any], call_id: str | None) -> dict[str, Any]:
        if call_id is None and all(name in arguments for name in self.call_id_arguments):
            return arguments  # the caller passed the id as an argument
        if call_id is None:
            raise UsageError(
                f"{self.tool.name} wants the id of its call. When tool includes an InjectedToolCallId argument, tool "
                "must always be invoked with a full model ToolCall of the form: "
                '{"type": "tool_call", "name": …, "args": {…}, "id": …}'
            )
        return {**arguments, **dict.fromkeys(self.call_id_arguments, call_id)}

    def _validate_json(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.json_schema is None:
            return dict(arguments)
        visible_arguments = self.visible(arguments)
        issues = validate(visible_arguments, self.json_schema)
        target = self.signature
        if (
            not issues
            and target is not None
            and not target.takes_any_name
            and not arguments.keys() <= target.names
        ):
            self._refuse_unknown(arguments, target.names)
        if issues:
            problems = [
                InitErrorDetails(
                    type=PydanticCustomError("json_schema", _literal(issue.message)),
                    loc=_error_location(issue.path),
                    input=visible_arguments,
                )
                for issue in issues
            ]
            raise ValidationError.from_exception_data(self.tool.name, problems)
        return dict(arguments)

    def _refuse_unknown(self, arguments: dict[str, Any], allowed_names: frozenset[str]) -> NoReturn:
        """Raise an error that lists every unknown argument, together with all other problems."""
        names = ", ".join(sorted(allowed_names - self.injected)) or "none"
        problem = PydanticCustomError(
            "unexpected_argument",
            _literal(f"{self.tool.name} takes no such argument; it takes {names}"),
        )
        problems = [
            InitErrorDetails(type=problem, loc=(str(name),), input=value)
            for name, value in arguments.items()
            if name not in allowed_names
        ]
        if self.model is not None:
            try:
                self.model.model_validate(
                    {name: value for name, value in arguments.items() if name in allowed_names}
                )
            except ValidationError as error:
                problems += [
                    InitErrorDetails(
                        type=PydanticCustomError(details["type"], _literal(details["msg"])),
                        loc=details["loc"],
                        input=details["input"],
                    )
                    for details in error.errors()
                ]
        raise ValidationError.from_exception_data(self.tool.name, problems)

    def _drop_unset(self, values: dict[str, Any], set_fields: set[str]) -> None:
        for name in (*self.optional_fields, *self.unused_fields):
            if name not in set_fields:
                values.pop(name, None)

    # -- calling

    async def call(self, input: object, call_id: str | None, run: Run) -> object:
        """Validate the arguments and call the function, sync or async."""
        self._check_function()
        target = self.sync_target if run.io.blocking else self.async_target
        if target is None:
            raise BlockingCallError(
                f"{self.tool.name} is async and was called from a sync method: use ainvoke, or give it a sync "
                "function too"
            )
        if self.is_custom:
            args, keywords = self.tool._to_args_and_kwargs(input, call_id)
        elif self.is_custom_parse:
            args, keywords = (), self._arguments_by_name(self.tool._parse_input(input, call_id))
        else:
            args, keywords = (), self.arguments(input, call_id)
        if not args:
            args, keywords = target.bind(keywords)
        if target.config is not None or target.filled_names:
            keywords = {**keywords, **_runtime_arguments(target, run)}
        with run.current():
            if target.is_async and not run.io.blocking:
                return await target.function(*args, **keywords)
            return await run.io.call(target.function, *args, **keywords)

    # -- what models and traces see

    def visible(self, arguments: object) -> object:
        """Return the arguments without injected ones, which models and traces must not see."""
        if not self.injected or not isinstance(arguments, dict):
            return arguments
        return {name: value for name, value in arguments.items() if name not in self.injected}

    @cached_property
    def call_schema(self) -> Schema:
        """The schema that is sent to a model."""
        tool = self.tool
        if self.json_schema is not None:
            schema = {**self.json_schema}
            if tool.description:
                schema["description"] = tool.description
            return schema
        if self.model is not None:
            return visible_model(self.model, tool.name, tool.description)
        if self.signature is None or not tool._takes_names():
            return visible_model(tool._schemaless(), tool.name, tool.description)
        return visible_model(
            create_schema_from_function(tool.name, self.signature.function),
            tool.name,
            tool.description,
        )

    @cached_property
    def input_model(self) -> type[BaseModel]:
        """The arguments as a Pydantic model, injected ones included."""
        if self.model is not None:
            return self.model
        schema = self.call_schema
        if not isinstance(schema, dict):
            return schema

        def replace_schema(generated: dict[str, Any]) -> None:
            generated.clear()
            generated.update(schema)

        config = ConfigDict(extra="allow", json_schema_extra=replace_schema)
        model: type[BaseModel] = create_model(self.tool.name, __config__=config)
        return model


def _runtime_arguments(target: Target, run: Run) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if target.config is not None:
        arguments[target.config] = run.config()
    if target.filled_names:
        manager: Any = run.run_manager("tool")
        if (
            not target.is_async and not run.io.blocking
        ):  # the function runs in a thread and cannot await
            manager = manager.get_sync()
        if "run_manager" in target.filled_names:
            arguments["run_manager"] = manager
        if "callbacks" in target.filled_names:
            arguments["callbacks"] = manager.get_child()
    return arguments


def _without(arguments: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def _literal(text: str) -> LiteralString:
    return text  # pyright: ignore[reportReturnType]  without a context Pydantic prints any text unchanged


def _error_location(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.removeprefix("$").split(".") if part)
