"""Tools for a model: every form of tool becomes one description, the choice one value, and calls are checked. Pure."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import ToolChoice, read_tool_choice
from foldline.language_models._call.policies.output_check import CHECKS, Verdict
from foldline.language_models._call.policies.prompt_caching import cache_control_of
from foldline.messages import AIMessage
from foldline.utils.function_calling import convert_to_openai_tool, is_server_tool
from foldline.utils.json_schema import remove_titles, validate

__all__ = ["ToolCheck", "Validate", "bound_tools", "check_flags", "tool_name", "tools_of"]

Validate = Literal["off", "invalid", "retry"]
Description = dict[str, Any]
MAX_RETRIES = 2
DESCRIBED_KEYS = frozenset(
    {"description", "extras", "input_schema", "name", "parameters", "strict", "type"}
)
"""Keys of a tool's dict that are part of its description."""

_descriptions: dict[int, tuple[weakref.ref[Any], Any, dict[bool | None, Description]]] = {}


def tools_of(tools: Sequence[Any], *, strict: bool | None = None) -> list[Description]:
    """Return tools in OpenAI's form; providers' tools are passed on. Each tool is described once."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise UsageError(
            f"bind_tools takes a list of tools, not {type(tools).__name__}: write bind_tools([…])"
        )
    descriptions: list[Description] = []
    by_name: dict[str | None, list[Description]] = {}
    """The same, so that a tool is compared only with those of its name."""
    for place, tool in enumerate(tools):
        try:
            description = _with_extras(tool, _describe(tool, strict))
        except UsageError as error:
            raise UsageError(f"tools[{place}]: {error}") from error
        namesakes = by_name.setdefault(tool_name(description), [])
        if not any(_is_same(description, other) for other in namesakes):
            namesakes.append(description)
            descriptions.append(description)
    duplicates = sorted(name for name, same in by_name.items() if name and len(same) > 1)
    if duplicates:
        raise UsageError(
            f"two tools are named {duplicates[0]!r}: the model could not tell them apart, rename one"
        )
    return descriptions


def check_flags(where: str, **flags: object) -> None:
    """Raise `UsageError` for an option that is neither True, False nor None: any other value would count as True."""
    for name, value in flags.items():
        if value is not None and not isinstance(value, bool):
            raise UsageError(f"{where}({name}={value!r:.80}): True, False or None")


def _is_same(tool: Description, other: Description) -> bool:
    """Return whether two descriptions of one name are of the same tool: such as a class and its JSON Schema."""
    return tool == other or remove_titles(tool) == remove_titles(other)


def tool_name(tool: Mapping[str, Any]) -> str | None:
    """Return the name by which the model calls a described tool; None for a tool that the provider runs."""
    function = tool.get("function")
    if isinstance(function, Mapping):
        return str(function.get("name") or "") or None
    if is_server_tool(tool) and tool.get("type") != "custom":
        return None
    name = tool.get("name")
    return name if isinstance(name, str) else None


def bound_tools(
    tools: Sequence[Any],
    *,
    tool_choice: object = None,
    parallel_tool_calls: bool | None = None,
    strict: bool | None = None,
    validate: Validate = "off",
) -> dict[str, Any]:
    """Return the call options that `bind_tools` binds."""
    if validate not in get_args(Validate):
        raise UsageError(f'validate={validate!r}: "off", "invalid" or "retry"')
    check_flags("bind_tools", parallel_tool_calls=parallel_tool_calls, strict=strict)
    descriptions = tools_of(tools, strict=strict)
    options: dict[str, Any] = {"tools": descriptions}
    choice = None
    if tool_choice is not None:
        choice = read_tool_choice(tool_choice, parallel=parallel_tool_calls)
        _check_choice(choice, descriptions)
        options["tool_choice"] = choice.as_option()
        parallel_tool_calls = choice.parallel
    if parallel_tool_calls is not None:
        options["parallel_tool_calls"] = parallel_tool_calls
    if validate != "off":
        options[CHECKS] = [ToolCheck(descriptions, choice, validate)]
    return options


class ToolCheck:
    """Checks the calls of an answer: known tools, valid arguments, and a call if one was required."""

    gives_up_quietly = False

    def __init__(
        self,
        tools: list[Description],
        choice: ToolChoice | None,
        mode: Validate,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self.max_retries = max_retries
        self.mode = mode
        self.choice = choice
        self._schemas = {name: _schema(tool) for tool in tools if (name := tool_name(tool))}

    def key(self) -> object:
        """Return what identifies this check."""
        return ["tools", self.mode]

    def judge(self, message: AIMessage) -> Verdict:
        """Return what is wrong with the calls of an answer; nothing if they are only to be marked invalid."""
        if self.mode != "retry":
            return Verdict()
        issues = [issue for call in message.tool_calls if (issue := self._issue_of(call))]
        for call in message.invalid_tool_calls:
            name = call.get("name") or "a tool"
            issues.append(
                f"the arguments of {name} are not a JSON object: {call.get('error') or call.get('args')!r}"
            )
        return Verdict(issues + self._missing_calls(message))

    def watch(self) -> None:
        """Return None: calls are screened when they are finished."""
        return

    def screen(self, call: Mapping[str, Any]) -> str | None:
        """Return what is wrong with one call, if it is to be marked invalid."""
        return self._issue_of(call) if self.mode == "invalid" else None

    def _missing_calls(self, message: AIMessage) -> list[str]:
        choice, called_names = self.choice, {call["name"] for call in message.tool_calls}
        if choice is None or message.invalid_tool_calls:
            return []
        if choice.mode == "required" and not called_names:
            return [f"you must call a tool, one of: {', '.join(self._schemas)}"]
        if choice.mode == "tool" and choice.name not in called_names:
            return [f"you must call the tool {choice.name}"]
        if choice.allowed and (
            disallowed := sorted(called_names - set(choice.allowed) & self._schemas.keys())
        ):
            return [f"{disallowed[0]} may not be called now: only {', '.join(choice.allowed)}"]
        return []

    def _issue_of(self, call: Mapping[str, Any]) -> str | None:
        name = call.get("name")
        if name not in self._schemas:
            return (
                f"there is no tool named {name!r}: call one of {', '.join(self._schemas) or 'none'}"
            )
        schema = self._schemas[name]
        issues = validate(call.get("args") or {}, schema) if schema else []
        if not issues:
            return None
        issue_text = "; ".join(str(issue) for issue in issues[:5])
        return f"the arguments of {name} do not fit: {issue_text}"


def _schema(tool: Mapping[str, Any]) -> Any:  # noqa: ANN401  JSON Schema: a dict, or true and false
    function = tool.get("function")
    function_schema = function if isinstance(function, Mapping) else tool
    for key in ("parameters", "input_schema", "inputSchema"):
        if isinstance(function_schema.get(key), Mapping):
            return function_schema[key]
    return None


def _check_choice(choice: ToolChoice, tools: list[Description]) -> None:
    names = (
        {tool_name(tool) for tool in tools}
        | {tool.get("type") for tool in tools}
        | {tool.get("name") for tool in tools}
    )
    for name in [choice.name, *choice.allowed]:
        if name is not None and name not in names:
            known_names = ", ".join(
                sorted(str(name) for name in names if name and name != "function")
            )
            raise UsageError(
                f"tool_choice names {name!r}, which is not among the tools: {known_names}"
            )
    if choice.mode == "required" and not tools:
        raise UsageError('tool_choice="required" needs at least one tool')


def _with_extras(tool: object, description: Description) -> Description:
    """Add the keys of a tool that only one provider reads, as `extras` of its description."""
    extras: Description = {}
    if isinstance(tool, Mapping):
        if "name" in tool and ("input_schema" in tool or "parameters" in tool):
            extras = {key: value for key, value in tool.items() if key not in DESCRIBED_KEYS}
        extras |= tool["extras"] if isinstance(tool.get("extras"), Mapping) else {}
    elif isinstance(tool_extras := getattr(tool, "extras", None), Mapping):
        extras = dict(tool_extras)
    if (cache_mark := cache_control_of(tool)) is not None and "cache_control" not in description:
        extras["cache_control"] = cache_mark
    return {**description, "extras": extras} if extras else description


def _describe(tool: object, strict: bool | None) -> Description:  # noqa: FBT001
    if isinstance(tool, Mapping):
        return convert_to_openai_tool(tool, strict=strict)
    fingerprint = (
        getattr(tool, "name", None),
        getattr(tool, "description", None),
        id(getattr(tool, "args_schema", None)),
    )
    entry = _descriptions.get(id(tool))
    if entry is None or entry[0]() is not tool or entry[1] != fingerprint:
        tool_id = id(tool)
        reference = None
        with suppress(TypeError):  # does not support weak references
            reference = weakref.ref(tool, lambda _: _descriptions.pop(tool_id, None))
        if reference is None:
            return convert_to_openai_tool(tool, strict=strict)
        entry = _descriptions[tool_id] = (reference, fingerprint, {})
    if strict not in entry[2]:
        entry[2][strict] = convert_to_openai_tool(tool, strict=strict)
    return entry[2][strict]
