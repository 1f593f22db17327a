"""How a tool is called, worked out once: its schema, what is hidden from the model, the functions to call.

A call then costs a validation and a call; no signature is read again. The plan belongs to one tool as it is now: a
copy, or a tool whose fields were changed, makes its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import InitErrorDetails, PydanticCustomError

from foldline._run import Run
from foldline.exceptions import BlockingCallError, UsageError
from foldline.tools._arguments import (
    SPREAD,
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
    model_of,
    not_said,
    visible_model,
)
from foldline.utils.json_schema import validate

if TYPE_CHECKING:
    from foldline.tools.base import BaseTool

Schema = type[BaseModel] | dict[str, Any]


class Plan:
    """What one tool does with a call."""

    def __init__(self, tool: BaseTool) -> None:
        self.tool = tool
        blocking, awaited = tool._functions()
        if blocking is None and awaited is None:
            raise UsageError(
                f"{tool.name} does nothing: give it a function, or write `_run`, `_arun` or both"
            )
        self.blocking = None if blocking is None else Target(blocking)
        self.awaited = self.blocking if awaited is None else Target(awaited)
        self.signature = self._signature()
        self.is_custom, self.is_custom_parse = tool._hooks()
        given = tool.args_schema
        self.json_schema = given if isinstance(given, dict) else None
        self.model = None if self.json_schema is not None else self._model(given)
        self._read_injected()
        self._read_fields()

    def _signature(self) -> Target | None:
        """The function that says what the tool takes: the blocking one, unless it says nothing."""
        for target in (self.blocking, self.awaited):
            if target is not None and any(
                name not in ("args", "kwargs", "config", "run_manager") for name in target.names
            ):
                return target
        return self.blocking or self.awaited

    def _model(self, given: object) -> type[BaseModel] | None:
        if given is not None:
            return model_of(given)
        if self.signature is None or self.signature.takes_any_name or not self.tool._takes_names():
            return None
        return create_schema_from_function(self.tool.name, self.signature.function)

    def _read_injected(self) -> None:
        own = [] if self.signature is None else read_arguments(self.signature.function)
        marked = {one.name for one in own if is_injected(one.annotation)}
        ids = {one.name for one in own if is_injected(one.annotation, InjectedToolCallId)}
        if self.model is not None:
            marked |= set(injected_fields(self.model))
            ids |= set(injected_fields(self.model, InjectedToolCallId))
        self.injected = frozenset(marked)
        self.call_ids = tuple(sorted(ids))

    def _read_fields(self) -> None:
        fields = {} if self.model is None else self.model.model_fields
        names = {argument_name(name, field): name for name, field in fields.items()}
        closed = self.model is not None and issubclass(self.model, Arguments)
        open_ended = (
            self.signature is not None and self.signature.takes_any_name and self._is_inferred()
        )
        self.known = frozenset(names) | self.injected if closed and not open_ended else None
        self.spread = closed and open_ended
        self.rename = {name: said for said, name in names.items() if closed and said != name}
        self.first = next(iter(names), None)
        self.beside = tuple(self.injected - names.keys())
        """Injected arguments that the schema does not have."""
        self.optional = [
            name for name, field in fields.items() if field.default_factory is not_said
        ]
        taken = self.signature
        may_drop = taken is not None and not taken.takes_any_name
        self.untaken = [
            name
            for name in fields
            if may_drop and taken and self.rename.get(name, name) not in taken.names
        ]

    def _is_inferred(self) -> bool:
        """Whether the schema was read off the function, `**kwargs` and all."""
        return (
            self.model is not None
            and self.signature is not None
            and any(
                name in self.model.model_fields for name in ("kwargs", self.signature.var_keyword)
            )
        )

    # -- arguments

    def arguments(self, given: object, call_id: str | None) -> dict[str, Any]:
        """Check arguments and give them as the function takes them."""
        if self.model is not None and isinstance(given, self.model):
            return dict(given.__dict__)
        given = self._arguments_by_name(given)
        if self.call_ids:
            given = self._with_call_id(given, call_id)
        if self.model is None:
            return self._checked_json(given)
        known = self.known
        if known is not None and not given.keys() <= known:
            self._refuse_unknown(given, known)
        beside = {name: given[name] for name in self.beside if name in given}
        instance = self.model.model_validate(_without(given, beside) if beside else given)
        values: dict[str, Any] = instance.__dict__
        if instance.__pydantic_extra__:
            values = {**values, **instance.__pydantic_extra__}
        if self.spread:
            values = {**{key: given[key] for key in given if key not in values}, **values}
        if self.optional or self.untaken:
            self._drop_unsaid(values, instance.model_fields_set)
        if self.rename:
            values = {self.rename.get(name, name): value for name, value in values.items()}
        return {**values, **beside} if beside else values

    def _arguments_by_name(self, given: object) -> dict[str, Any]:
        if type(given) is dict:
            return given
        if isinstance(given, str):
            return self._of_text(given)
        if isinstance(given, Mapping):
            return dict(given)
        problem = PydanticCustomError("dict_type", "Input should be a dictionary of arguments")
        raise ValidationError.from_exception_data(
            self.tool.name, [InitErrorDetails(type=problem, loc=(), input=given)]
        )

    def _of_text(self, text: str) -> dict[str, Any]:
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
        first = next((said for said in self._argument_names() if said not in hidden), None)
        return {} if first is None else {first: text}

    def _argument_names(self) -> list[str]:
        fields = {} if self.model is None else self.model.model_fields
        return [argument_name(name, field) for name, field in fields.items()]

    def _parameter_names(self) -> list[str]:
        own = [] if self.signature is None else read_arguments(self.signature.function)
        return [one.name for one in own if one.kind not in SPREAD]

    def _with_call_id(self, given: dict[str, Any], call_id: str | None) -> dict[str, Any]:
        if call_id is None and all(name in given for name in self.call_ids):
            return given  # code that calls the tool itself gives the id itself
        if call_id is None:
            raise UsageError(
                f"{self.tool.name} wants the id of its call. When tool includes an InjectedToolCallId argument, tool "
                "must always be invoked with a full model ToolCall of the form: "
                '{"type": "tool_call", "name": …, "args": {…}, "id": …}'
            )
        return {**given, **dict.fromkeys(self.call_ids, call_id)}

    def _checked_json(self, given: dict[str, Any]) -> dict[str, Any]:
        if self.json_schema is None:
            return dict(given)
        said = self.visible(given)
        issues = validate(said, self.json_schema)
        target = self.signature
        if (
            not issues
            and target is not None
            and not target.takes_any_name
            and not given.keys() <= target.names
        ):
            self._refuse_unknown(given, target.names)
        if issues:
            problems = [
                InitErrorDetails(
                    type=PydanticCustomError("json_schema", _literal(issue.message)),
                    loc=_place(issue.path),
                    input=said,
                )
                for issue in issues
            ]
            raise ValidationError.from_exception_data(self.tool.name, problems)
        return dict(given)

    def _refuse_unknown(self, given: dict[str, Any], known: frozenset[str]) -> NoReturn:
        """Say every name that is not an argument, together with whatever else is wrong."""
        takes = ", ".join(sorted(known - self.injected)) or "none"
        refused = PydanticCustomError(
            "unexpected_argument",
            _literal(f"{self.tool.name} takes no such argument; it takes {takes}"),
        )
        problems = [
            InitErrorDetails(type=refused, loc=(str(name),), input=one)
            for name, one in given.items()
            if name not in known
        ]
        if self.model is not None:
            try:
                self.model.model_validate(
                    {name: one for name, one in given.items() if name in known}
                )
            except ValidationError as error:
                problems += [
                    InitErrorDetails(
                        type=PydanticCustomError(one["type"], _literal(one["msg"])),
                        loc=one["loc"],
                        input=one["input"],
                    )
                    for one in error.errors()
                ]
        raise ValidationError.from_exception_data(self.tool.name, problems)

    def _drop_unsaid(self, values: dict[str, Any], said: set[str]) -> None:
        for name in (*self.optional, *self.untaken):
            if name not in said:
                values.pop(name, None)

    # -- calling

    async def call(self, given: object, call_id: str | None, run: Run) -> object:
        """Check the arguments and call the function, whichever colour it has."""
        target = self.blocking if run.io.blocking else self.awaited
        if target is None:
            raise BlockingCallError(
                f"{self.tool.name} is async and was reached by a blocking call: use ainvoke, or give it a blocking "
                "function too"
            )
        if self.is_custom:
            args, named = self.tool._to_args_and_kwargs(given, call_id)
        elif self.is_custom_parse:
            args, named = (), self._arguments_by_name(self.tool._parse_input(given, call_id))
        else:
            args, named = (), self.arguments(given, call_id)
        if not args:
            args, named = target.bind(named)
        if target.config is not None or target.filled:
            named = {**named, **_filled(target, run)}
        with run.current():
            if target.is_async and not run.io.blocking:
                return await target.function(*args, **named)
            return await run.io.call(target.function, *args, **named)

    # -- what others see

    def visible(self, given: object) -> object:
        """Leave out of arguments what the model may not say and a trace may not show."""
        if not self.injected or not isinstance(given, dict):
            return given
        return {name: one for name, one in given.items() if name not in self.injected}

    @cached_property
    def call_schema(self) -> Schema:
        """The schema that a model is told of."""
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

        def shown(written: dict[str, Any]) -> None:
            written.clear()
            written.update(schema)

        config = ConfigDict(extra="allow", json_schema_extra=shown)
        model: type[BaseModel] = create_model(self.tool.name, __config__=config)
        return model


def _filled(target: Target, run: Run) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    if target.config is not None:
        filled[target.config] = run.config()
    if target.filled:
        manager: Any = run.run_manager("tool")
        if not target.is_async and not run.io.blocking:  # it runs in a thread and cannot await
            manager = manager.get_sync()
        if "run_manager" in target.filled:
            filled["run_manager"] = manager
        if "callbacks" in target.filled:
            filled["callbacks"] = manager.get_child()
    return filled


def _without(given: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in given.items() if name not in names}


def _literal(text: str) -> Any:  # noqa: ANN401  the type depends on the words
    return text  # Pydantic asks for a literal; without a context it is printed as it is


def _place(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.removeprefix("$").split(".") if part)
