"""foldline -> `generateContent`: tools, choice of tool, generation config, schema of the answer. Pure.

Turns are in `messages.py`; this file writes the rest of the body. An option nobody here knows goes to
`generationConfig`, spelled as the wire does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.call_options import ToolChoice, read_tool_choice
from foldline.language_models.policies.reasoning import apply_effort
from foldline.language_models.profile import ModelProfile
from foldline.providers._foreign import ForeignBlocks, add_note
from foldline.providers._tool_memory import remember_tools
from foldline.providers._wire import check_tool_results, merge_settings
from foldline.providers.google.messages import MessageEncoder
from foldline.providers.google.wire import BODY, GENERATION, SERVER_TOOLS, camel, camel_keys
from foldline.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

__all__ = ["encode_content", "encode_model", "encode_tools"]

Body = dict[str, Any]

OURS: Final = frozenset(
    {
        "extra_body", "generation_config", "include_thoughts", "logprobs", "model", "parallel_tool_calls",
        "reasoning_effort", "response_format", "response_json_schema", "response_schema", "safety_settings",
        "stream_usage", "strict", "thinking_budget", "thinking_level", "tool_choice", "tool_config", "tools", "user",
        "stream",
    }
)  # fmt: skip
"""Options that are written here, each in its own way."""
NAME: Final = re.compile(r"[A-Za-z0-9._\-/:@]+")
FOLDERS: Final = ("models/", "tunedModels/", "publishers/", "projects/", "endpoints/")
JSON: Final = "application/json"
IN_OTHER_WORDS: Final = {
    "reasoning_effort": {"thinking_budget": (), "thinking_level": ()},
    "thinking_budget": {"reasoning_effort": (), "thinking_level": ()},
    "thinking_level": {"reasoning_effort": (), "thinking_budget": ()},
}
"""Option of a call -> what the model's settings say of the same thing, and so is overruled."""


def encode_model(name: str) -> str:
    """Return the path of a model; what would lead elsewhere is refused (F-H10)."""
    if not NAME.fullmatch(name) or ".." in name or name.startswith("/"):
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
    """Return the body of a request; `settings` are the model's own, which options of the call overrule."""
    check_tool_results(request.messages)
    said, profile = merge_settings(settings, request, IN_OTHER_WORDS), profile or {}
    encoder = MessageEncoder(
        providers,
        policy,
        request.notes,
        needs_signatures=bool(profile.get("thought_signatures")),
        shows_in_results=bool(profile.get("image_tool_message")),
    )
    system, turns = encoder.encode(request.messages)
    body: Body = {"contents": turns}
    if system:
        body["systemInstruction"] = {"parts": system}
    _add_tools(body, said, request.notes)
    config = _generation_config(said, profile, request.notes)
    if config:
        body["generationConfig"] = config
    if said.get("safety_settings"):
        body["safetySettings"] = _safety(said["safety_settings"])
    body |= {BODY[name]: said[name] for name in BODY if said.get(name) is not None}
    return {**body, **(said.get("extra_body") or {})}


def _generation_config(said: Body, profile: ModelProfile, notes: list[str]) -> Body:
    config: Body = dict(camel_keys(said.get("generation_config") or {}))
    for name, value in said.items():
        if value is None or name in OURS or name in BODY:
            continue
        config[GENERATION.get(name) or camel(name)] = (
            [value] if name == "stop" and isinstance(value, str) else value
        )
    if said.get("logprobs"):
        config["responseLogprobs"] = True
        if not isinstance(said["logprobs"], bool):
            config["logprobs"] = said["logprobs"]
    config |= _schema(said)
    thinking = {
        **camel_keys(config.pop("thinkingConfig", None) or {}),
        **_thinking(said, profile, notes),
    }
    return {**config, "thinkingConfig": thinking} if thinking else config


def _schema(said: Body) -> Body:
    """Ask for an answer of a certain form."""
    if said.get("response_schema") is not None:
        return {"responseMimeType": JSON, "responseSchema": said["response_schema"]}
    given = said.get("response_json_schema")
    given = said.get("response_format") if given is None else given
    if given is None or (isinstance(given, Mapping) and given.get("type") == "text"):
        return {}
    if isinstance(given, Mapping) and given.get("type") == "json_object":
        return {"responseMimeType": JSON}
    return {"responseMimeType": JSON, "responseJsonSchema": _json_schema(given)}


def _json_schema(given: object) -> Body:
    if not isinstance(given, Mapping):
        return convert_to_json_schema(given)
    inner = given.get("json_schema", given)
    if isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
        return dict(inner["schema"])
    is_tool = any(key in given for key in ("name", "function", "parameters"))
    return convert_to_json_schema(given) if is_tool else dict(given)


def _thinking(said: Body, profile: ModelProfile, notes: list[str]) -> Body:
    """Say how much to think: a level where the model takes levels, else a budget."""
    told: Body = {}
    if said.get("thinking_budget") is not None:
        told["thinkingBudget"] = said["thinking_budget"]
    if said.get("thinking_level") is not None:
        told["thinkingLevel"] = str(said["thinking_level"]).upper()
    if (asked := said.get("reasoning_effort")) is not None:
        if told:
            own = "thinking_budget" if "thinkingBudget" in told else "thinking_level"
            notes.append(f"reasoning_effort={asked!r} gave way to {own}={said[own]!r}")
        else:
            told = _effort(asked, said, profile, notes)
    if said.get("include_thoughts") is not None:
        told["includeThoughts"] = said["include_thoughts"]
    return told


def _effort(asked: object, said: Body, profile: ModelProfile, notes: list[str]) -> Body:
    applied = apply_effort(asked, profile or None)
    if applied is None:
        notes.append(f"{said.get('model')} does not reason: reasoning_effort was left out")
        return {}
    if applied.value != applied.requested:
        notes.append(f"reasoning_effort={applied.requested!r} was sent as {applied.value!r}")
    if applied.budget is not None:
        return {"thinkingBudget": applied.budget}
    level = str(applied.level)
    return {"thinkingBudget": 0} if level == "none" else {"thinkingLevel": level.upper()}


def _safety(given: Mapping[Any, Any] | Iterable[Mapping[str, Any]]) -> list[Body]:
    if isinstance(given, Mapping):
        return [{"category": _word(key), "threshold": _word(value)} for key, value in given.items()]
    return [dict(one) for one in given]


def _word(value: object) -> str:
    """Spell a member of somebody's enum as the wire does."""
    return str(getattr(value, "name", value))


# -- tools


def _add_tools(body: Body, said: Body, notes: list[str]) -> None:
    tools = encode_tools(said.get("tools") or [], notes)
    if tools:
        body["tools"] = tools
    if said.get("parallel_tool_calls") is False:
        notes.append(
            "Gemini cannot be told to call one tool at a time: parallel_tool_calls was left out"
        )
    if said.get("tool_config"):
        body["toolConfig"] = camel_keys(said["tool_config"])
        return
    names = [one["name"] for tool in tools for one in tool.get("functionDeclarations") or ()]
    choice = said.get("tool_choice")
    if not names or ((choice is None or choice is False) and not said.get("strict")):
        return
    read = ToolChoice("auto") if choice is None or choice is False else read_tool_choice(choice)
    body["toolConfig"] = {
        "functionCallingConfig": _mode(read, names, strict=bool(said.get("strict")))
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
    """Describe tools: functions together, Gemini's own tools each by itself."""
    functions: list[Body] = []
    others: list[Body] = []
    for tool in tools:
        own = _native_tool(tool)
        if own is None:
            functions.append(_function(tool, notes))
            continue
        functions += own.pop("functionDeclarations", None) or []
        others += [own] if own else []
    return [*([{"functionDeclarations": functions}] if functions else []), *others]


def _native_tool(tool: object) -> Body | None:
    """Read a tool in Gemini's own form; None for a function."""
    if not isinstance(tool, Mapping):
        return None
    given = {
        **SERVER_TOOLS,
        "function_declarations": "functionDeclarations",
        "mcp_servers": "mcpServers",
    }
    known = {*given, *given.values()}
    if tool.keys() <= known and tool:
        return {given.get(str(name), str(name)): value for name, value in tool.items()}
    kind = str(tool.get("type"))
    if kind in known:  # {"type": "google_search"}: the form of other providers
        return {
            given.get(kind, kind): {name: value for name, value in tool.items() if name != "type"}
        }
    return None


def _function(tool: Any, notes: list[str]) -> Body:  # noqa: ANN401  a tool in any form
    described = convert_to_openai_tool(tool)
    function = described.get("function")
    if not isinstance(function, Mapping):
        raise UsageError(f"{described!r:.200} is no tool of Gemini")
    new: Body = {"name": function["name"]}
    if extras := described.get("extras"):
        add_note(notes, f"Gemini takes no {', '.join(extras)} of the tool {new['name']!r}")
    if function.get("description"):
        new["description"] = function["description"]
    parameters = function.get("parameters") or {}
    if parameters.get("properties"):
        new["parametersJsonSchema"] = dict(parameters)
    return new
