"""Encode a request for the Responses API. Messages become items in `input_items.py`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage, BaseMessage
from foldline.providers._completions.encode import encode_tool_choice, encode_tools, schema_format
from foldline.providers._completions.host import Host
from foldline.providers._foreign_messages import ForeignBlocks, add_note, is_own
from foldline.providers._wire import check_messages, merge_settings
from foldline.providers.openai._input_items import ItemEncoder

__all__ = ["encode_response"]

Body = dict[str, Any]

DEFERRED: Final = "defer_loading"
"""The extra of a tool that is sent only when the model searches for it."""
UNSUPPORTED_OPTIONS: Final = frozenset(
    {
        "stop",
        "n",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "modalities",
        "audio",
        "prediction",
    }
)
"""Parameters that Responses does not have."""
ENCODED_OPTIONS: Final = frozenset(
    {
        "extra_body",
        "include",
        "logprobs",
        "max_tokens",
        "model",
        "parallel_tool_calls",
        "reasoning",
        "reasoning_effort",
        "response_format",
        "stream_options",
        "stream_usage",
        "strict",
        "text",
        "tool_choice",
        "tools",
        "verbosity",
    }
    | UNSUPPORTED_OPTIONS
)
EQUIVALENT_SETTINGS: Final = {
    "reasoning_effort": {"reasoning": ("effort",)},
    "verbosity": {"text": ("verbosity",)},
}
"""Option of a call -> settings of the model with the same meaning, which it overrides."""
LOGPROBS: Final = "message.output_text.logprobs"
ENCRYPTED: Final = "reasoning.encrypted_content"


def encode_response(
    request: ChatRequest,
    host: Host,
    *,
    settings: Mapping[str, Any],
    providers: frozenset[str],
    policy: ForeignBlocks = "convert",
    use_previous: bool = False,
) -> Body:
    """Return the body of a request to Responses."""
    options = merge_settings(settings, request, EQUIVALENT_SETTINGS)
    messages = request.messages
    if use_previous and not options.get("previous_response_id"):
        messages, options["previous_response_id"] = _since_last_response(messages, providers)
    has_other_input = options.get("prompt") and not messages  # a prompt stored at OpenAI
    if not (options.get("previous_response_id") or options.get("conversation") or has_other_input):
        check_messages(messages)
    _check_options(options, request)
    body = {
        name: value
        for name, value in options.items()
        if name not in ENCODED_OPTIONS and value is not None
    }
    body["model"] = options.get("model")
    body["input"] = ItemEncoder(providers, policy, request.notes).encode(messages)
    if options.get("max_tokens") is not None:
        body.setdefault("max_output_tokens", options["max_tokens"])
    body |= (
        _reasoning(options, request.notes)
        | _text(options)
        | _tools(options, host, request.notes)
        | _include(options)
    )
    if request.stream:
        body["stream"] = True
    return {**body, **(options.get("extra_body") or {})}


def _check_options(options: Body, request: ChatRequest) -> None:
    if (options.get("n") or 1) > 1:
        raise UsageError(
            "Responses gives one answer: n is for chat completions (use_responses_api=False)"
        )
    unsupported = sorted(name for name in UNSUPPORTED_OPTIONS if options.get(name) and name != "n")
    if unsupported:
        add_note(request.notes, f"Responses does not take {', '.join(unsupported)}")


def _since_last_response(
    messages: list[BaseMessage], providers: frozenset[str]
) -> tuple[list[BaseMessage], str | None]:
    """Return the messages after the last stored response, and its id."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        id = str(message.response_metadata.get("id") or "")
        if isinstance(message, AIMessage) and id.startswith("resp_") and is_own(message, providers):
            return messages[place + 1 :], id
    return messages, None


def _reasoning(options: Body, notes: list[str]) -> Body:
    reasoning = dict(options.get("reasoning") or {})
    effort = options.get("reasoning_effort")
    if effort is not None and reasoning.setdefault("effort", effort) != effort:
        add_note(notes, f"reasoning_effort={effort!r} gave way to reasoning={reasoning!r}")
    return {"reasoning": reasoning} if reasoning else {}


def _text(options: Body) -> Body:
    text = dict(options.get("text") or {})
    if options.get("verbosity") is not None:
        text.setdefault("verbosity", options["verbosity"])
    response_format = options.get("response_format")
    if response_format is not None:
        definition = schema_format(response_format, options.get("strict"))
        text["format"] = (
            dict(response_format) if definition is None else {"type": "json_schema", **definition}
        )
    return {"text": text} if text else {}


def _tools(options: Body, host: Host, notes: list[str]) -> Body:
    tools = options.get("tools") or []
    deferred = [place for place, tool in enumerate(tools) if _extras_of(tool).get(DEFERRED)]
    if deferred:
        tools = [_without_deferral(tool) for tool in tools]
    encoded = encode_tools(tools, notes, host, options.get("strict"))
    tools = [_flat(tool) for tool in encoded]
    for place in deferred:
        tools[place] = {**tools[place], DEFERRED: True}
    body: Body = {"tools": tools} if tools else {}
    choice = encode_tool_choice(options.get("tool_choice"), encoded, host)
    if choice is not None and tools:
        body["tool_choice"] = _flat_choice(choice)
    if options.get("parallel_tool_calls") is not None and tools:
        body["parallel_tool_calls"] = options["parallel_tool_calls"]
    return body


def _extras_of(tool: object) -> Mapping[str, Any]:
    extras = tool.get("extras") if isinstance(tool, Mapping) else getattr(tool, "extras", None)
    return extras if isinstance(extras, Mapping) else {}


def _without_deferral(tool: Any) -> Any:  # noqa: ANN401  a tool, or its description
    """Return a tool whose extras do not say when it is sent, which is said beside them."""
    extras = {name: value for name, value in _extras_of(tool).items() if name != DEFERRED}
    if len(extras) == len(_extras_of(tool)):
        return tool
    if isinstance(tool, Mapping):
        rest = {name: value for name, value in tool.items() if name != "extras"}
        return {**rest, "extras": extras} if extras else rest
    return tool.model_copy(update={"extras": extras or None})


def _flat(tool: Body) -> Body:
    """Return a tool without the inner object that chat completions require."""
    inner = tool.get("function")
    if isinstance(inner, Mapping):
        # The default of `strict` is true here, and false in chat completions.
        return {
            "type": "function",
            "parameters": {},
            **inner,
            "strict": inner.get("strict") or False,
        }
    inner = tool.get("custom")
    return {"type": "custom", **inner} if isinstance(inner, Mapping) else tool


def _flat_choice(choice: object) -> object:
    if not isinstance(choice, Mapping):
        return choice
    if isinstance(choice.get("function"), Mapping):
        return {"type": "function", "name": choice["function"]["name"]}
    if isinstance(choice.get("allowed_tools"), Mapping):
        inner = choice["allowed_tools"]
        return {
            "type": "allowed_tools",
            "mode": inner["mode"],
            "tools": [_flat_choice(tool) for tool in inner["tools"]],
        }
    return dict(choice)


def _include(options: Body) -> Body:
    include = list(options.get("include") or [])
    body: Body = {}
    if options.get("logprobs"):
        include.append(LOGPROBS)
    if options.get("store") is False and (
        options.get("reasoning") or options.get("reasoning_effort")
    ):
        # Nothing is stored, so the reasoning must be sent back with the next turn.
        include.append(ENCRYPTED)
    if include:
        body["include"] = list(dict.fromkeys(include))
    return body
