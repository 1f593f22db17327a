"""Encode a request for `generateContent`: tools, tool choice, generation config, output schema. Pure.

Turns are in `messages.py`. Unknown options are added to `generationConfig` in camel case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import ToolChoice, read_tool_choice
from foldline.language_models._call.policies.reasoning import apply_effort
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile
from foldline.providers._foreign_messages import ForeignBlocks, add_note
from foldline.providers._tool_memory import remember_tools
from foldline.providers._wire import check_messages, merge_settings
from foldline.providers.google._messages import MessageEncoder
from foldline.providers.google._wire import BODY, GENERATION, SERVER_TOOLS, camel, camel_keys
from foldline.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

__all__ = ["encode_content", "encode_model", "encode_tools"]

Body = dict[str, Any]

ENCODED_OPTIONS: Final = frozenset(
    {
        "extra_body", "generation_config", "include_thoughts", "logprobs", "model", "parallel_tool_calls",
        "reasoning_effort", "response_format", "response_json_schema", "response_schema", "safety_settings",
        "stream_usage", "strict", "thinking_budget", "thinking_level", "tool_choice", "tool_config", "tools", "user",
        "stream",
    }
)  # fmt: skip
"""Options that are encoded individually here."""
MODEL_NAME: Final = re.compile(r"[A-Za-z0-9._\-/:@]+")
FOLDERS: Final = ("models/", "tunedModels/", "publishers/", "projects/", "endpoints/")
JSON: Final = "application/json"
EQUIVALENT_SETTINGS: Final = {
    "reasoning_effort": {"thinking_budget": (), "thinking_level": ()},
    "thinking_budget": {"reasoning_effort": (), "thinking_level": ()},
    "thinking_level": {"reasoning_effort": (), "thinking_budget": ()},
}
"""Option of a call -> settings of the model with the same meaning, which it overrides."""


def encode_model(name: str) -> str:
    """Return the path of a model; raise if the name would lead to another path (F-H10)."""
    if not MODEL_NAME.fullmatch(name) or ".." in name or name.startswith("/"):
        raise UsageError(f"{name!r} is no name of a model")
    return name if name.startswith(FOLDERS) else f"models/{name}"


def encode_content(
    request: ChatRequest,
    *,
    settings: Mapping[str, Any],
    providers: frozenset[str],
    policy: ForeignBlocks = "convert",
    profile: ModelProfile | None = None,
) -> Body:
    """Return the body of a request; options of the call override the model's `settings`."""
    check_messages(request.messages)
    options, profile = merge_settings(settings, request, EQUIVALENT_SETTINGS), profile or {}
    encoder = MessageEncoder(
        providers,
        policy,
        request.notes,
        needs_signatures=bool(profile.get("thought_signatures")),
        media_in_results=bool(profile.get("image_tool_message")),
    )
    system, turns = encoder.encode(request.messages)
    body: Body = {"contents": turns}
    if system:
        body["systemInstruction"] = {"parts": system}
    _add_tools(body, options, request.notes)
    config = _generation_config(options, profile, request.notes)
    if config:
        body["generationConfig"] = config
    if options.get("safety_settings"):
        body["safetySettings"] = _safety(options["safety_settings"])
    body |= {BODY[name]: options[name] for name in BODY if options.get(name) is not None}
    return {**body, **(options.get("extra_body") or {})}


def _generation_config(options: Body, profile: ModelProfile, notes: list[str]) -> Body:
    config: Body = dict(camel_keys(options.get("generation_config") or {}))
    for name, value in options.items():
        if value is None or name in ENCODED_OPTIONS or name in BODY:
            continue
        config[GENERATION.get(name) or camel(name)] = (
            [value] if name == "stop" and isinstance(value, str) else value
        )
    if options.get("logprobs"):
        config["responseLogprobs"] = True
        if not isinstance(options["logprobs"], bool):
            config["logprobs"] = options["logprobs"]
    config |= _schema(options)
    thinking = {
        **camel_keys(config.pop("thinkingConfig", None) or {}),
        **_thinking(options, profile, notes),
    }
    return {**config, "thinkingConfig": thinking} if thinking else config


def _schema(options: Body) -> Body:
    """Return the options for the schema of the answer."""
    if options.get("response_schema") is not None:
        return {"responseMimeType": JSON, "responseSchema": options["response_schema"]}
    response_format = options.get("response_json_schema")
    response_format = options.get("response_format") if response_format is None else response_format
    if response_format is None or (
        isinstance(response_format, Mapping) and response_format.get("type") == "text"
    ):
        return {}
    if isinstance(response_format, Mapping) and response_format.get("type") == "json_object":
        return {"responseMimeType": JSON}
    return {"responseMimeType": JSON, "responseJsonSchema": _json_schema(response_format)}


def _json_schema(response_format: object) -> Body:
    if not isinstance(response_format, Mapping):
        return convert_to_json_schema(response_format)
    inner = response_format.get("json_schema", response_format)
    if isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
        return dict(inner["schema"])
    is_tool = any(key in response_format for key in ("name", "function", "parameters"))
    return convert_to_json_schema(response_format) if is_tool else dict(response_format)


def _thinking(options: Body, profile: ModelProfile, notes: list[str]) -> Body:
    """Return the thinking config: a level if the model accepts levels, else a budget."""
    config: Body = {}
    if options.get("thinking_budget") is not None:
        config["thinkingBudget"] = options["thinking_budget"]
    if options.get("thinking_level") is not None:
        config["thinkingLevel"] = str(options["thinking_level"]).upper()
    if (effort := options.get("reasoning_effort")) is not None:
        if config:
            precedent = "thinking_budget" if "thinkingBudget" in config else "thinking_level"
            notes.append(
                f"reasoning_effort={effort!r} gave way to {precedent}={options[precedent]!r}"
            )
        else:
            config = _effort(effort, options, profile, notes)
    if options.get("include_thoughts") is not None:
        config["includeThoughts"] = options["include_thoughts"]
    return config


def _effort(effort: object, options: Body, profile: ModelProfile, notes: list[str]) -> Body:
    applied = apply_effort(effort, profile or None)
    if applied is None:
        notes.append(f"{options.get('model')} does not reason: reasoning_effort was left out")
        return {}
    if applied.value != applied.requested:
        notes.append(f"reasoning_effort={applied.requested!r} was sent as {applied.value!r}")
    if applied.budget is not None:
        return {"thinkingBudget": applied.budget}
    level = str(applied.level)
    return {"thinkingBudget": 0} if level == "none" else {"thinkingLevel": level.upper()}


def _safety(settings: Mapping[Any, Any] | Iterable[Mapping[str, Any]]) -> list[Body]:
    if isinstance(settings, Mapping):
        return [
            {"category": _enum_name(key), "threshold": _enum_name(value)}
            for key, value in settings.items()
        ]
    return [dict(setting) for setting in settings]


def _enum_name(value: object) -> str:
    """Return the name of an enum member, or the text itself."""
    return str(getattr(value, "name", value))


# -- tools


def _add_tools(body: Body, options: Body, notes: list[str]) -> None:
    tools = encode_tools(options.get("tools") or [], notes)
    if tools:
        body["tools"] = tools
    if options.get("parallel_tool_calls") is False:
        notes.append(
            "Gemini cannot be told to call one tool at a time: parallel_tool_calls was left out"
        )
    if options.get("tool_config"):
        body["toolConfig"] = camel_keys(options["tool_config"])
        return
    names = [
        function["name"] for tool in tools for function in tool.get("functionDeclarations") or ()
    ]
    choice = options.get("tool_choice")
    if not names or ((choice is None or choice is False) and not options.get("strict")):
        return
    tool_choice = (
        ToolChoice("auto") if choice is None or choice is False else read_tool_choice(choice)
    )
    body["toolConfig"] = {
        "functionCallingConfig": _mode(tool_choice, names, strict=bool(options.get("strict")))
    }


def _mode(choice: ToolChoice, names: list[str], *, strict: bool) -> Body:
    if choice.mode == "tool":
        if choice.name not in names:
            raise UsageError(
                f"tool_choice={choice.name!r} is neither auto, any, none nor one of the tools {names}"
            )
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    allowed: Body = {"allowedFunctionNames": list(choice.allowed)} if choice.allowed else {}
    if choice.mode == "required":
        return {"mode": "ANY", **allowed}
    if choice.mode == "none":
        return {"mode": "NONE"}
    return {"mode": "VALIDATED" if strict or allowed else "AUTO", **allowed}


@remember_tools
def encode_tools(tools: list[Any], notes: list[str]) -> list[Body]:
    """Return tools in Gemini's format: functions in one entry, each server tool in its own."""
    functions: list[Body] = []
    others: list[Body] = []
    for tool in tools:
        native_tool = _native_tool(tool)
        if native_tool is None:
            functions.append(_function(tool, notes))
            continue
        functions += native_tool.pop("functionDeclarations", None) or []
        others += [native_tool] if native_tool else []
    return [*([{"functionDeclarations": functions}] if functions else []), *others]


def _native_tool(tool: object) -> Body | None:
    """Return a tool that is in Gemini's format; None for a function."""
    if not isinstance(tool, Mapping):
        return None
    field_names = {
        **SERVER_TOOLS,
        "function_declarations": "functionDeclarations",
        "mcp_servers": "mcpServers",
    }
    known_names = {*field_names, *field_names.values()}
    if tool.keys() <= known_names and tool:
        return {field_names.get(str(name), str(name)): value for name, value in tool.items()}
    kind = str(tool.get("type"))
    if kind in known_names:  # {"type": "google_search"}: the form of other providers
        return {
            field_names.get(kind, kind): {
                name: value for name, value in tool.items() if name != "type"
            }
        }
    return None


def _function(tool: object, notes: list[str]) -> Body:
    openai_tool = convert_to_openai_tool(tool)
    function = openai_tool.get("function")
    if not isinstance(function, Mapping):
        raise UsageError(f"{openai_tool!r:.200} is no tool of Gemini")
    encoded: Body = {"name": function["name"]}
    if extras := openai_tool.get("extras"):
        add_note(notes, f"Gemini takes no {', '.join(extras)} of the tool {encoded['name']!r}")
    if function.get("description"):
        encoded["description"] = function["description"]
    parameters = function.get("parameters") or {}
    if parameters.get("properties"):
        encoded["parametersJsonSchema"] = dict(parameters)
    return encoded
