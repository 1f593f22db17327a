"""Encode a request for the messages API: tools, tool choice, thinking, output schema, betas. Pure.

Turns are in `messages.py`. Unknown options are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import ToolChoice, read_tool_choice
from foldline.language_models._call.policies.prompt_caching import (
    CacheConfig,
    cache_control_of,
    with_cache_control,
)
from foldline.language_models._call.policies.reasoning import apply_effort
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile
from foldline.providers._foreign_messages import ForeignBlocks, add_note
from foldline.providers._tool_memory import remember_tools
from foldline.providers._wire import check_messages, merge_settings
from foldline.providers.anthropic._messages import MessageEncoder
from foldline.providers.anthropic._schema import encode_schema
from foldline.providers.anthropic._wire import (
    BUDGET_BETA,
    COMPACT_BETA,
    FAST_BETA,
    FILES_BETA,
    OPTION_BETAS,
    TOOL_BETAS,
)
from foldline.utils._schema_open import USE_A_TOOL, check_objects
from foldline.utils.function_calling import (
    convert_to_json_schema,
    convert_to_openai_tool,
    is_server_tool,
)

__all__ = [
    "convert_to_anthropic_tool",
]

Body = dict[str, Any]

ENCODED_OPTIONS: Final = frozenset(
    {
        "betas", "effort", "extra_body", "model", "output_format", "parallel_tool_calls", "prompt_cache",
        "reasoning_effort", "response_format", "stop", "stream_usage", "strict", "tool_choice", "tools", "user",
    }
)  # fmt: skip
"""Options that are encoded here; all others are sent unchanged."""
TOOL_EXTRAS: Final = (
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
    "strict",
)
"""Further fields of a tool, from its `extras` or dict."""
FREE_TEXT: Final = {
    "type": "object",
    "properties": {"__arg1": {"type": "string"}},
    "required": ["__arg1"],
}
DEFAULT_MAX_TOKENS: Final = 4096
EQUIVALENT_SETTINGS: Final = {
    "reasoning_effort": {
        "effort": (),
        "output_config": ("effort",),
        "thinking": ("type", "budget_tokens"),
    },
    "effort": {"output_config": ("effort",), "reasoning_effort": ()},
}
"""Option of a call -> settings of the model with the same meaning, which it overrides."""


def encode_message(
    request: ChatRequest,
    *,
    settings: Mapping[str, Any],
    providers: frozenset[str],
    policy: ForeignBlocks = "convert",
    profile: ModelProfile | None = None,
) -> Body:
    """Return the body of a request; options of the call override the model's `settings`."""
    check_messages(request.messages)
    profile = profile or {}
    options = merge_settings(
        _accepted_settings(settings, profile, request.notes), request, EQUIVALENT_SETTINGS
    )
    tools = encode_tools(options.get("tools") or [], request.notes, options.get("strict"))
    messages = request.messages
    if (config := CacheConfig.of(options.get("prompt_cache"))) is not None:
        messages, tools = with_cache_control(messages, tools, config)
    takes_late_system = bool(profile.get("mid_conversation_system_messages"))
    encoder = MessageEncoder(providers, policy, request.notes, takes_late_system=takes_late_system)
    system, turns = encoder.encode(messages)
    body: Body = {"model": options.get("model"), "max_tokens": 0, "messages": turns}
    if system:
        body["system"] = system
    body |= {
        name: value
        for name, value in options.items()
        if name not in ENCODED_OPTIONS and value is not None
    }
    if (limit := options.get("max_tokens")) is None:
        limit = profile.get("max_output_tokens") or DEFAULT_MAX_TOKENS
    body["max_tokens"] = limit
    if options.get("stop"):
        body["stop_sequences"] = (
            [options["stop"]] if isinstance(options["stop"], str) else list(options["stop"])
        )
    if options.get("user"):
        body["metadata"] = {"user_id": options["user"], **(body.get("metadata") or {})}
    _add_thinking(body, options, profile, request.notes)
    _add_output(body, options, request.notes)
    _add_tools(body, options, tools, request.notes)
    if request.stream:
        body["stream"] = True
    return {**body, **(options.get("extra_body") or {})}


def _accepted_settings(
    settings: Mapping[str, Any], profile: ModelProfile, notes: list[str]
) -> Body:
    """Return the settings without those that the model refuses; options of a call were checked before."""
    refused = [
        name for name in profile.get("unsupported_options") or () if settings.get(name) is not None
    ]
    if refused:
        notes.append(f"{settings.get('model')} does not take {', '.join(refused)}: left out")
    return {name: value for name, value in settings.items() if name not in refused}


def _add_thinking(body: Body, options: Body, profile: ModelProfile, notes: list[str]) -> None:
    """Add how much to think: a level if the model accepts levels, else a budget.

    `effort` and `thinking` are Anthropic's own options and take precedence over `reasoning_effort`.
    """
    if options.get("effort"):
        body["output_config"] = {**(body.get("output_config") or {}), "effort": options["effort"]}
    if (effort := options.get("reasoning_effort")) is not None:
        _add_effort(body, effort, profile, notes)
    if "type" not in (body.get("thinking") or {"type": ""}):
        del body["thinking"]  # what remains of a setting whose type the call overrides


def _add_effort(body: Body, effort: object, profile: ModelProfile, notes: list[str]) -> None:
    applied = apply_effort(effort, profile or None)
    if applied is None:
        notes.append(f"{body.get('model')} does not reason: reasoning_effort was left out")
        return
    thinking: Body = {"type": "disabled"}
    if applied.value not in ("none", 0) and applied.budget is not None:
        thinking = {"type": "enabled", "budget_tokens": applied.budget}
    elif applied.value not in ("none", 0):
        config = body.get("output_config") or {}
        body["output_config"] = {"effort": applied.level, **config}
        if config.get("effort", applied.level) != applied.level:
            notes.append(f"reasoning_effort={effort!r} gave way to effort={config['effort']!r}")
        thinking = {"type": "adaptive"} if profile.get("adaptive_thinking", True) else {}
    setting = body.get("thinking") or {}
    if "type" in setting:
        if applied.level in (None, "none") and {**setting, **thinking} != setting:
            notes.append(f"reasoning_effort={effort!r} gave way to thinking={setting!r}")
    elif thinking:
        body["thinking"] = {**setting, **thinking}
        if applied.budget and body["max_tokens"] <= applied.budget:
            _make_room(body, applied.budget, profile.get("max_output_tokens"), notes)
    if applied.value != applied.requested:
        notes.append(f"reasoning_effort={applied.requested!r} was sent as {applied.value!r}")


def _make_room(body: Body, budget: int, model_limit: int | None, notes: list[str]) -> None:
    """Raise max_tokens above the thinking budget, which it includes; the API requires that."""
    body["max_tokens"] += budget
    if model_limit is None or body["max_tokens"] <= model_limit:
        return
    body["max_tokens"] = model_limit
    if budget >= model_limit:
        body["thinking"]["budget_tokens"] = model_limit // 2
        notes.append(
            f"a budget of {budget} for thinking was sent as {model_limit // 2}: that is half of {model_limit} tokens"
        )


def _add_output(body: Body, options: Body, notes: list[str]) -> None:
    """Add the schema of the answer."""
    response_format = (
        options.get("response_format")
        if options.get("response_format") is not None
        else options.get("output_format")
    )
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "json_object":
        notes.append("Anthropic has no JSON mode: only the prompt asks for JSON")
    if response_format is None or kind in ("text", "json_object"):
        return
    schema = _schema_of(response_format)
    check_objects(schema, schema.get("title"), "Anthropic's response format", USE_A_TOOL)
    output_format = {"type": "json_schema", "schema": encode_schema(schema)}
    body["output_config"] = {**(body.get("output_config") or {}), "format": output_format}


def _schema_of(response_format: object) -> Body:
    if not isinstance(response_format, Mapping):
        return convert_to_json_schema(response_format)
    inner = response_format.get("json_schema", response_format)
    if isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
        return dict(inner["schema"])
    is_tool = any(key in response_format for key in ("name", "function", "parameters"))
    return convert_to_json_schema(response_format) if is_tool else dict(response_format)


def _add_tools(body: Body, options: Body, tools: list[Body], notes: list[str]) -> None:
    parallel = options.get("parallel_tool_calls")
    choice = options.get("tool_choice")
    if choice is None or choice is False:
        tool_choice = ToolChoice("auto", parallel=parallel) if parallel is False else None
    else:
        tool_choice = read_tool_choice(choice, parallel=parallel)
    if tool_choice is not None and tool_choice.allowed:
        tools = [tool for tool in tools if tool.get("name") in tool_choice.allowed]
    if not tools:
        return
    body["tools"] = tools
    if tool_choice is None:
        return
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    if thinks and tool_choice.mode in ("tool", "required"):
        notes.append(
            "tool_choice was sent as auto: Anthropic takes no forced tool together with thinking"
        )
        tool_choice = ToolChoice("auto", parallel=tool_choice.parallel)
    body["tool_choice"] = encode_tool_choice(tool_choice, [str(tool.get("name")) for tool in tools])


def encode_tool_choice(choice: ToolChoice, names: list[str]) -> Body:
    """Return a tool choice in Anthropic's format."""
    if choice.mode == "tool" and choice.name not in names:
        raise UsageError(
            f"tool_choice={choice.name!r} is neither auto, any, none nor one of the tools {names}"
        )
    encoded: Body = {"type": {"required": "any"}.get(choice.mode, choice.mode)}
    if choice.mode == "tool":
        encoded["name"] = choice.name
    if choice.parallel is not None and choice.mode != "none":
        encoded["disable_parallel_tool_use"] = not choice.parallel
    return encoded


def describe_tools(tools: list[Any], notes: list[str], strict: bool | None) -> list[Body]:  # noqa: FBT001
    """Return tools in Anthropic's format; dicts in that format (server tools, `input_schema`) are sent unchanged."""
    encoded = []
    for tool in tools:
        if isinstance(tool, Mapping) and ("input_schema" in tool or is_server_tool(tool)):
            encoded.append(dict(tool))
            continue
        openai_tool = convert_to_openai_tool(tool)
        if openai_tool.get("type") == "custom":
            inner = openai_tool.get("custom", openai_tool)
            notes.append(f"the tool {inner.get('name')!r} takes free text: sent with one argument")
            encoded.append(_tool(inner, FREE_TEXT, tool, strict))
            continue
        function = openai_tool["function"]
        extras = _extras(tool)
        if unsupported := sorted(extras.keys() - TOOL_EXTRAS):
            add_note(
                notes,
                f"Anthropic takes no {', '.join(unsupported)} of the tool {function['name']!r}",
            )
        options = {**openai_tool, **extras}
        encoded.append(_tool(function, function.get("parameters") or {}, options, strict))
    return encoded


encode_tools = remember_tools(describe_tools)


def convert_to_anthropic_tool(tool: object, *, strict: bool | None = None) -> Body:
    """Return a tool in Anthropic's format: name, description, input_schema."""
    return describe_tools([tool], [], strict)[0]


def _tool(function: Mapping[str, Any], schema: Body, options: object, strict: bool | None) -> Body:  # noqa: FBT001
    requested = options.get("strict") if isinstance(options, Mapping) else None
    is_strict = next(
        (value for value in (strict, function.get("strict"), requested) if value is not None), None
    )
    if is_strict:
        check_objects(schema, function["name"], "a strict tool", "leave out strict")
    encoded: Body = {"name": function["name"]}
    if function.get("description"):
        encoded["description"] = function["description"]
    encoded["input_schema"] = (
        encode_schema(schema) if is_strict else {"type": "object", "properties": {}, **schema}
    )
    for name in TOOL_EXTRAS:
        if isinstance(options, Mapping) and options.get(name) is not None:
            encoded[name] = options[name]
    if is_strict is not None:
        encoded["strict"] = is_strict
    if control := cache_control_of(options):
        encoded["cache_control"] = control
    return encoded


def _extras(tool: object) -> Body:
    """Return the provider-specific extras of a tool."""
    inner = tool.get("extras") if isinstance(tool, Mapping) else getattr(tool, "extras", None)
    return dict(inner) if isinstance(inner, Mapping) else {}


def betas_of(options: Mapping[str, Any], request: ChatRequest) -> list[str]:
    """Return the betas of a request: requested ones, and those that its tools and options need."""
    betas = [str(beta) for beta in options.get("betas") or ()]
    types = [
        str(tool.get("type")) for tool in options.get("tools") or () if isinstance(tool, Mapping)
    ]
    betas += [TOOL_BETAS[kind] for kind in types if kind in TOOL_BETAS]
    betas += [beta for name, beta in OPTION_BETAS.items() if options.get(name)]
    edits = (options.get("context_management") or {}).get("edits") or ()
    if any(str(edit.get("type")).startswith("compact_") for edit in edits):
        betas.append(COMPACT_BETA)
    if (options.get("output_config") or {}).get("task_budget"):
        betas.append(BUDGET_BETA)
    if options.get("speed"):
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
