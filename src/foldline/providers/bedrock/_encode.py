"""Encode a request for Converse: inference settings, tools, guardrail, reasoning, output schema. Pure.

Turns are in `messages.py`, tools in `tools.py`. Options that Converse has no field for are sent to the model in
`additionalModelRequestFields`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import ToolChoice, tool_choice_of
from foldline.language_models._call.policies.prompt_caching import CacheConfig, with_cache_control
from foldline.language_models._call.policies.reasoning import AppliedEffort, apply_effort
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile
from foldline.providers._foreign_messages import ForeignBlocks, add_note
from foldline.providers._wire import check_messages, merge_settings
from foldline.providers.bedrock._messages import MessageEncoder, guard_last_turn
from foldline.providers.bedrock._wire import BODY_FIELDS, Block
from foldline.providers.bedrock.tools import (
    add_cache_points,
    encode_output_format,
    encode_tool_choice,
    encode_tools,
)

__all__ = ["base_model_name", "encode_converse", "encode_model_path"]

Body = dict[str, Any]

INFERENCE_FIELDS: Final = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}
RENAMED_FIELDS: Final = {
    "additional_model_response_field_paths": "additionalModelResponseFieldPaths",
    "guardrail_config": "guardrailConfig",
    "output_config": "outputConfig",
    "request_metadata": "requestMetadata",
}
"""Our name of a field of the body -> Bedrock's."""
ENCODED_OPTIONS: Final = frozenset(
    {
        *INFERENCE_FIELDS, *RENAMED_FIELDS, "additional_model_request_fields", "extra_body", "guard_last_turn_only",
        "model", "parallel_tool_calls", "performance_config", "prompt_cache", "prompt_variables", "reasoning_effort",
        "response_format", "service_tier", "stop", "stream_usage", "strict", "tool_choice", "tools", "top_k",
    }
)  # fmt: skip
"""Options that are encoded here; all others are sent to the model."""
ANSWER_ROOM: Final = 4096
"""Tokens for the answer in addition to a reasoning budget, if max_tokens is not set."""
REGION_PREFIX: Final = re.compile(r"^(?:us|eu|apac|ap|jp|au|ca|sa|me|af|il|mx|us-gov|global)\.")
"""The prefix of a cross-region inference profile before the id of its model."""


def encode_model_path(model: str, operation: str) -> str:
    """Return the path of an operation; a model id with colons and slashes is quoted as one segment."""
    if not model.strip():
        raise UsageError(
            "Bedrock needs the id of a model: model='us.anthropic.claude-sonnet-4-5-...'"
        )
    return f"model/{quote(model, safe='-_.~')}/{operation}"


def base_model_name(model: str) -> str:
    """Return the name of a model without ARN and region prefix."""
    return REGION_PREFIX.sub("", model.rpartition("/")[2])


def encode_converse(
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
    options = merge_settings(_drop_unsupported(settings, profile, request.notes), request)
    tools, model_tools = encode_tools(
        options.get("tools") or [], options.get("strict"), request.notes
    )
    messages = request.messages
    if (config := CacheConfig.of(options.get("prompt_cache"))) is not None:
        messages, tools = with_cache_control(messages, tools, config)
    system, turns = MessageEncoder(providers, policy, request.notes).encode(messages)
    if options.get("guard_last_turn_only"):
        guard_last_turn(turns)
    body: Body = {"messages": turns, **({"system": system} if system else {})}
    body |= {name: value for name, value in options.items() if name in BODY_FIELDS}
    _add_fields(body, options)
    extra_fields = _model_fields(options, model_tools)
    _add_reasoning(body, extra_fields, options, profile, request.notes)
    _add_tools(body, extra_fields, options, tools, request.notes)
    if extra_fields:
        body["additionalModelRequestFields"] = extra_fields
    if (form := options.get("response_format")) is not None:
        text_format = encode_output_format(form, request.notes)
        if text_format is not None:
            body["outputConfig"] = {**(body.get("outputConfig") or {}), "textFormat": text_format}
    return {**body, **(options.get("extra_body") or {})}


def _drop_unsupported(settings: Mapping[str, Any], profile: ModelProfile, notes: list[str]) -> Body:
    """Return the settings without those that the model refuses; options of a call were checked before."""
    refused = [
        name for name in profile.get("unsupported_options") or () if settings.get(name) is not None
    ]
    if refused:
        notes.append(f"{settings.get('model')} does not take {', '.join(refused)}: left out")
    return {name: value for name, value in settings.items() if name not in refused}


def _add_fields(body: Body, options: Body) -> None:
    inference = dict(body.pop("inferenceConfig", None) or {})
    for name, field in INFERENCE_FIELDS.items():
        if options.get(name) is not None:
            inference[field] = options[name]
    if stop := options.get("stop"):
        inference["stopSequences"] = [stop] if isinstance(stop, str) else list(stop)
    if inference:
        body["inferenceConfig"] = inference
    for name, field in RENAMED_FIELDS.items():
        if options.get(name) is not None:
            body[field] = options[name]
    if (tier := options.get("service_tier")) is not None:
        body["serviceTier"] = {"type": tier} if isinstance(tier, str) else tier
    if (performance := options.get("performance_config")) is not None:
        is_text = isinstance(performance, str)
        body["performanceConfig"] = {"latency": performance} if is_text else performance
    if (variables := options.get("prompt_variables")) is not None:
        body["promptVariables"] = {
            name: {"text": value} if isinstance(value, str) else value
            for name, value in variables.items()
        }


def _model_fields(options: Body, model_tools: list[Block]) -> Body:
    """Return the fields that Converse passes to the model: its own parameters and tools."""
    fields: Body = {
        name: value
        for name, value in options.items()
        if name not in ENCODED_OPTIONS and name not in BODY_FIELDS and value is not None
    }
    if (top_k := options.get("top_k")) is not None:
        if base_model_name(str(options.get("model") or "")).startswith("amazon.nova"):
            fields["inferenceConfig"] = {"topK": top_k}
        else:
            fields["top_k"] = top_k
    if model_tools:
        fields["tools"] = model_tools
    snake_case = options.get("additional_model_request_fields")
    camel_case = options.get("additionalModelRequestFields")
    return {**fields, **(snake_case or {}), **(camel_case or {})}


# -- reasoning


def _add_reasoning(
    body: Body, fields: Body, options: Body, profile: ModelProfile, notes: list[str]
) -> None:
    """Add how much to think, in the format of the model's family."""
    effort = options.get("reasoning_effort")
    if effort is None:
        return
    applied = apply_effort(effort, profile or None)
    if applied is None:
        notes.append(f"{options.get('model')} does not reason: reasoning_effort was left out")
        return
    if applied.value != applied.requested:
        notes.append(f"reasoning_effort={applied.requested!r} was sent as {applied.value!r}")
    family = profile.get("reasoning_family") or "effort"
    is_off = applied.value in ("none", 0)
    if family == "nova":
        reasoning_config = (
            {"type": "disabled"}
            if is_off
            else {"type": "enabled", "maxReasoningEffort": applied.level}
        )
        fields.setdefault("reasoningConfig", reasoning_config)
    elif family == "claude":
        _add_thinking(body, fields, applied, notes, is_off=is_off)
    else:
        fields.setdefault("reasoning_effort", applied.value)


def _add_thinking(
    body: Body, fields: Body, applied: AppliedEffort, notes: list[str], *, is_off: bool
) -> None:
    if "thinking" in fields:
        notes.append(
            f"reasoning_effort={applied.requested!r} gave way to thinking={fields['thinking']!r}"
        )
    elif is_off:
        fields["thinking"] = {"type": "disabled"}
    elif applied.budget is None:
        fields["thinking"] = {"type": "adaptive"}
        body["outputConfig"] = {"effort": applied.level, **(body.get("outputConfig") or {})}
    else:
        fields["thinking"] = {"type": "enabled", "budget_tokens": applied.budget}
        inference = body.get("inferenceConfig") or {}
        if (inference.get("maxTokens") or 0) <= applied.budget:
            # max_tokens includes the budget and must leave room for the answer.
            room = inference.get("maxTokens") or ANSWER_ROOM
            body["inferenceConfig"] = {**inference, "maxTokens": applied.budget + room}


# -- tools


def _add_tools(
    body: Body, fields: Body, options: Body, tools: list[Block], notes: list[str]
) -> None:
    choice = tool_choice_of(options)
    if options.get("parallel_tool_calls") is not None and not (choice and choice.name):
        add_note(notes, "Bedrock has no parallel_tool_calls: left out")
    if choice is not None and choice.allowed:
        tools = [tool for tool in tools if not _name_of(tool) or _name_of(tool) in choice.allowed]
    names = [name for tool in tools if (name := _name_of(tool))]
    used_tools = _used_tools(body["messages"])
    if choice is not None and choice.mode == "none":
        tools, choice = (tools, None) if used_tools else ([], None)
        if tools:
            add_note(notes, "Bedrock cannot forbid tools that the conversation has used")
    if used_tools and not names:
        add_note(notes, "Bedrock wants tools that the conversation has used: sent without a schema")
        tools = [*tools, *map(_unknown_tool, used_tools)]
    if not tools:
        return
    config: Body = {**(body.get("toolConfig") or {}), "tools": add_cache_points(tools)}
    if choice is not None:
        config["toolChoice"] = encode_tool_choice(_restrict_choice(choice, fields, notes), names)
    body["toolConfig"] = config


def _restrict_choice(choice: ToolChoice, fields: Body, notes: list[str]) -> ToolChoice:
    thinking = fields.get("thinking")
    is_thinking = isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive")
    if not is_thinking or choice.mode not in ("tool", "required"):
        return choice
    notes.append("tool_choice was sent as auto: Claude takes no forced tool together with thinking")
    return ToolChoice("auto")


def _name_of(tool: Block) -> str:
    inner = tool.get("toolSpec") or tool.get("systemTool") or {}
    return str(inner.get("name") or "")


def _used_tools(turns: list[Block]) -> list[str]:
    """Return the names of the tools that a conversation called; Bedrock refuses it without any tool definitions."""
    calls = [block["toolUse"] for turn in turns for block in turn["content"] if "toolUse" in block]
    return list(dict.fromkeys(str(call["name"]) for call in calls if "type" not in call))


def _unknown_tool(name: str) -> Block:
    return {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}}
