"""foldline -> the messages API: tools, choice of tool, thinking, schema of the answer, betas. Pure.

Turns are in `messages.py`; this file writes the rest of the body. An option nobody here knows is passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.call_options import ToolChoice, read_tool_choice
from foldline.language_models.policies.prompt_caching import (
    CacheConfig,
    cache_control_of,
    with_cache_control,
)
from foldline.language_models.policies.reasoning import apply_effort
from foldline.language_models.profile import ModelProfile
from foldline.providers._foreign import ForeignBlocks, add_note
from foldline.providers._tool_memory import remember_tools
from foldline.providers._wire import check_tool_results, merge_settings
from foldline.providers.anthropic.messages import MessageEncoder
from foldline.providers.anthropic.schema import encode_schema
from foldline.providers.anthropic.wire import (
    BUDGET_BETA,
    COMPACT_BETA,
    FAST_BETA,
    FILES_BETA,
    OPTION_BETAS,
    TOOL_BETAS,
)
from foldline.utils.function_calling import (
    convert_to_json_schema,
    convert_to_openai_tool,
    is_server_tool,
)

__all__ = [
    "betas_of",
    "convert_to_anthropic_tool",
    "encode_message",
    "encode_tool_choice",
    "encode_tools",
]

Body = dict[str, Any]

OURS: Final = frozenset(
    {
        "betas", "effort", "extra_body", "model", "output_format", "parallel_tool_calls", "prompt_cache",
        "reasoning_effort", "response_format", "stop", "stream_usage", "strict", "tool_choice", "tools", "user",
    }
)  # fmt: skip
"""Options that are written here, not passed on."""
TOOL_EXTRAS: Final = (
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
    "strict",
)
"""What a tool may say beside its schema, in its `extras` or dict."""
FREE_TEXT: Final = {
    "type": "object",
    "properties": {"__arg1": {"type": "string"}},
    "required": ["__arg1"],
}
DEFAULT_MAX_TOKENS: Final = 4096
IN_OTHER_WORDS: Final = {
    "reasoning_effort": {
        "effort": (),
        "output_config": ("effort",),
        "thinking": ("type", "budget_tokens"),
    },
    "effort": {"output_config": ("effort",), "reasoning_effort": ()},
}
"""Option of a call -> what the model's settings say of the same thing, and so is overruled."""


def encode_message(
    request: ChatRequest,
    *,
    settings: Mapping[str, Any],
    providers: frozenset[str],
    policy: ForeignBlocks = "convert",
    profile: ModelProfile | None = None,
) -> Body:
    """Return the body of a request; `settings` are the model's own, which options of the call overrule."""
    check_tool_results(request.messages)
    profile = profile or {}
    said = merge_settings(
        _accepted_settings(settings, profile, request.notes), request, IN_OTHER_WORDS
    )
    tools = encode_tools(said.get("tools") or [], request.notes, said.get("strict"))
    messages = request.messages
    if (config := CacheConfig.of(said.get("prompt_cache"))) is not None:
        messages, tools = with_cache_control(messages, tools, config)
    late = bool(profile.get("mid_conversation_system_messages"))
    encoder = MessageEncoder(providers, policy, request.notes, takes_late_system=late)
    system, turns = encoder.encode(messages)
    body: Body = {"model": said.get("model"), "max_tokens": 0, "messages": turns}
    if system:
        body["system"] = system
    body |= {name: value for name, value in said.items() if name not in OURS and value is not None}
    if (limit := said.get("max_tokens")) is None:
        limit = profile.get("max_output_tokens") or DEFAULT_MAX_TOKENS
    body["max_tokens"] = limit
    if said.get("stop"):
        body["stop_sequences"] = (
            [said["stop"]] if isinstance(said["stop"], str) else list(said["stop"])
        )
    if said.get("user"):
        body["metadata"] = {"user_id": said["user"], **(body.get("metadata") or {})}
    _add_thinking(body, said, profile, request.notes)
    _add_output(body, said, request.notes)
    _add_tools(body, said, tools, request.notes)
    if request.stream:
        body["stream"] = True
    return {**body, **(said.get("extra_body") or {})}


def _accepted_settings(
    settings: Mapping[str, Any], profile: ModelProfile, notes: list[str]
) -> Body:
    """Leave out settings that the model refuses; options of a call were looked at before."""
    refused = [
        name for name in profile.get("unsupported_options") or () if settings.get(name) is not None
    ]
    if refused:
        notes.append(f"{settings.get('model')} does not take {', '.join(refused)}: left out")
    return {name: value for name, value in settings.items() if name not in refused}


def _add_thinking(body: Body, said: Body, profile: ModelProfile, notes: list[str]) -> None:
    """Say how much to think: a word where the model takes words, else a budget.

    `effort` and `thinking` are Anthropic's own words: beside them `reasoning_effort` says only what they do not.
    """
    if said.get("effort"):
        body["output_config"] = {**(body.get("output_config") or {}), "effort": said["effort"]}
    if (asked := said.get("reasoning_effort")) is not None:
        _add_effort(body, asked, profile, notes)
    if "type" not in (body.get("thinking") or {"type": ""}):
        del body["thinking"]  # the rest of a setting whose type a call overruled


def _add_effort(body: Body, asked: object, profile: ModelProfile, notes: list[str]) -> None:
    applied = apply_effort(asked, profile or None)
    if applied is None:
        notes.append(f"{body.get('model')} does not reason: reasoning_effort was left out")
        return
    wanted: Body = {"type": "disabled"}
    if applied.value not in ("none", 0) and applied.budget is not None:
        wanted = {"type": "enabled", "budget_tokens": applied.budget}
    elif applied.value not in ("none", 0):
        config = body.get("output_config") or {}
        body["output_config"] = {"effort": applied.level, **config}
        if config.get("effort", applied.level) != applied.level:
            notes.append(f"reasoning_effort={asked!r} gave way to effort={config['effort']!r}")
        wanted = {"type": "adaptive"} if profile.get("adaptive_thinking", True) else {}
    given = body.get("thinking") or {}
    if "type" in given:
        if applied.level in (None, "none") and {**given, **wanted} != given:
            notes.append(f"reasoning_effort={asked!r} gave way to thinking={given!r}")
    elif wanted:
        body["thinking"] = {**given, **wanted}
        if applied.budget and body["max_tokens"] <= applied.budget:
            _make_room(body, applied.budget, profile.get("max_output_tokens"), notes)
    if applied.value != applied.requested:
        notes.append(f"reasoning_effort={applied.requested!r} was sent as {applied.value!r}")


def _make_room(body: Body, budget: int, most: int | None, notes: list[str]) -> None:
    """Let the answer be as long as its thinking, which is part of it, and what is left to say: no model takes less."""
    body["max_tokens"] += budget
    if most is None or body["max_tokens"] <= most:
        return
    body["max_tokens"] = most
    if budget >= most:
        body["thinking"]["budget_tokens"] = most // 2
        notes.append(
            f"a budget of {budget} for thinking was sent as {most // 2}: that is half of {most} tokens"
        )


def _add_output(body: Body, said: Body, notes: list[str]) -> None:
    """Ask for an answer of a certain form."""
    given = (
        said.get("response_format")
        if said.get("response_format") is not None
        else said.get("output_format")
    )
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind == "json_object":
        notes.append("Anthropic has no JSON mode: only the prompt asks for JSON")
    if given is None or kind in ("text", "json_object"):
        return
    wanted = {"type": "json_schema", "schema": encode_schema(_schema_of(given))}
    body["output_config"] = {**(body.get("output_config") or {}), "format": wanted}


def _schema_of(given: object) -> Body:
    if not isinstance(given, Mapping):
        return convert_to_json_schema(given)
    inner = given.get("json_schema", given)
    if isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
        return dict(inner["schema"])
    is_tool = any(key in given for key in ("name", "function", "parameters"))
    return convert_to_json_schema(given) if is_tool else dict(given)


def _add_tools(body: Body, said: Body, tools: list[Body], notes: list[str]) -> None:
    parallel = said.get("parallel_tool_calls")
    choice = said.get("tool_choice")
    if choice is None or choice is False:
        read = ToolChoice("auto", parallel=parallel) if parallel is False else None
    elif choice is True and len(tools) == 1:
        read = ToolChoice("tool", tools[0].get("name"), parallel=parallel)
    else:
        read = read_tool_choice(choice, parallel=parallel)
    if read is not None and read.allowed:
        tools = [tool for tool in tools if tool.get("name") in read.allowed]
    if not tools:
        return
    body["tools"] = tools
    if read is None:
        return
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    if thinks and read.mode in ("tool", "required"):
        notes.append(
            "tool_choice was sent as auto: Anthropic takes no forced tool together with thinking"
        )
        read = ToolChoice("auto", parallel=read.parallel)
    body["tool_choice"] = encode_tool_choice(read, [str(tool.get("name")) for tool in tools])


def encode_tool_choice(choice: ToolChoice, names: list[str]) -> Body:
    """Say which tool must be called."""
    if choice.mode == "tool" and choice.name not in names:
        raise UsageError(
            f"tool_choice={choice.name!r} is neither auto, any, none nor one of the tools {names}"
        )
    told: Body = {"type": {"required": "any"}.get(choice.mode, choice.mode)}
    if choice.mode == "tool":
        told["name"] = choice.name
    if choice.parallel is not None and choice.mode != "none":
        told["disable_parallel_tool_use"] = not choice.parallel
    return told


def describe_tools(tools: list[Any], notes: list[str], strict: bool | None) -> list[Body]:  # noqa: FBT001
    """Describe tools; Anthropic's own dicts (server tools, `input_schema`) are sent as they are."""
    encoded = []
    for tool in tools:
        if isinstance(tool, Mapping) and ("input_schema" in tool or is_server_tool(tool)):
            encoded.append(dict(tool))
            continue
        described = convert_to_openai_tool(tool)
        if described.get("type") == "custom":
            inner = described.get("custom", described)
            notes.append(f"the tool {inner.get('name')!r} takes free text: sent with one argument")
            encoded.append(_tool(inner, FREE_TEXT, tool, strict))
            continue
        function = described["function"]
        extras = _extras(tool)
        if odd := sorted(extras.keys() - TOOL_EXTRAS):
            add_note(notes, f"Anthropic takes no {', '.join(odd)} of the tool {function['name']!r}")
        given = {**described, **extras}
        encoded.append(_tool(function, function.get("parameters") or {}, given, strict))
    return encoded


encode_tools = remember_tools(describe_tools)


def convert_to_anthropic_tool(tool: object, *, strict: bool | None = None) -> Body:
    """Describe one tool as Anthropic takes it: name, description, input_schema."""
    return describe_tools([tool], [], strict)[0]


def _tool(named: Mapping[str, Any], schema: Body, given: object, strict: bool | None) -> Body:  # noqa: FBT001
    asked = given.get("strict") if isinstance(given, Mapping) else None
    is_strict = next((one for one in (strict, named.get("strict"), asked) if one is not None), None)
    new: Body = {"name": named["name"]}
    if named.get("description"):
        new["description"] = named["description"]
    new["input_schema"] = (
        encode_schema(schema) if is_strict else {"type": "object", "properties": {}, **schema}
    )
    for name in TOOL_EXTRAS:
        if isinstance(given, Mapping) and given.get(name) is not None:
            new[name] = given[name]
    if is_strict is not None:
        new["strict"] = is_strict
    if control := cache_control_of(given):
        new["cache_control"] = control
    return new


def _extras(tool: object) -> Body:
    """Return what a tool says for one provider alone."""
    inner = tool.get("extras") if isinstance(tool, Mapping) else getattr(tool, "extras", None)
    return dict(inner) if isinstance(inner, Mapping) else {}


def betas_of(said: Mapping[str, Any], request: ChatRequest) -> list[str]:
    """Name the betas of a request: those asked for, and those that its tools and options need."""
    betas = [str(beta) for beta in said.get("betas") or ()]
    types = [str(tool.get("type")) for tool in said.get("tools") or () if isinstance(tool, Mapping)]
    betas += [TOOL_BETAS[kind] for kind in types if kind in TOOL_BETAS]
    betas += [beta for name, beta in OPTION_BETAS.items() if said.get(name)]
    edits = (said.get("context_management") or {}).get("edits") or ()
    if any(str(edit.get("type")).startswith("compact_") for edit in edits):
        betas.append(COMPACT_BETA)
    if (said.get("output_config") or {}).get("task_budget"):
        betas.append(BUDGET_BETA)
    if said.get("speed"):
        betas.append(FAST_BETA)
    if any(_has_file(message.content) for message in request.messages):
        betas.append(FILES_BETA)
    return list(dict.fromkeys(betas))


def _has_file(content: object) -> bool:
    if not isinstance(content, list):
        return False
    return any(
        isinstance(block, Mapping)
        and (
            "file_id" in block
            or (isinstance(block.get("source"), Mapping) and "file_id" in block["source"])
            or (isinstance(block.get("file"), Mapping) and "file_id" in block["file"])
        )
        for block in content
    )
