"""foldline -> Responses: the body of a request. Messages become items in `input_items.py`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models.call.request import ChatRequest
from foldline.messages import AIMessage, BaseMessage
from foldline.providers._completions.encode import encode_tool_choice, encode_tools, schema_format
from foldline.providers._completions.host import Host
from foldline.providers._foreign import ForeignBlocks, add_note, is_own
from foldline.providers._wire import check_tool_results, merge_settings
from foldline.providers.openai.input_items import ItemEncoder

__all__ = ["encode_response"]

Body = dict[str, Any]

DEFERRED: Final = "defer_loading"
"""What the extras of a tool say that is sent only when the model searches for it."""
NOT_THERE: Final = frozenset(
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
WRITTEN: Final = frozenset(
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
    | NOT_THERE
)
IN_OTHER_WORDS: Final = {
    "reasoning_effort": {"reasoning": ("effort",)},
    "verbosity": {"text": ("verbosity",)},
}
"""Option of a call -> what the model's settings say of the same thing, and so is overruled."""
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
    said = merge_settings(settings, request, IN_OTHER_WORDS)
    messages = request.messages
    if use_previous and not said.get("previous_response_id"):
        messages, said["previous_response_id"] = _since_last_response(messages, providers)
    if not (said.get("previous_response_id") or said.get("conversation")):
        check_tool_results(messages)
    _refuse(said, request)
    body = {
        name: value for name, value in said.items() if name not in WRITTEN and value is not None
    }
    body["model"] = said.get("model")
    body["input"] = ItemEncoder(providers, policy, request.notes).encode(messages)
    if said.get("max_tokens") is not None:
        body.setdefault("max_output_tokens", said["max_tokens"])
    body |= (
        _reasoning(said, request.notes)
        | _text(said)
        | _tools(said, host, request.notes)
        | _include(said)
    )
    if request.stream:
        body["stream"] = True
    return {**body, **(said.get("extra_body") or {})}


def _refuse(said: Body, request: ChatRequest) -> None:
    if (said.get("n") or 1) > 1:
        raise UsageError(
            "Responses gives one answer: n is for chat completions (use_responses_api=False)"
        )
    unheard = sorted(name for name in NOT_THERE if said.get(name) and name != "n")
    if unheard:
        add_note(request.notes, f"Responses does not take {', '.join(unheard)}")


def _since_last_response(
    messages: list[BaseMessage], providers: frozenset[str]
) -> tuple[list[BaseMessage], str | None]:
    """Send only what came after the last stored response, and its id."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        id = str(message.response_metadata.get("id") or "")
        if isinstance(message, AIMessage) and id.startswith("resp_") and is_own(message, providers):
            return messages[place + 1 :], id
    return messages, None


def _reasoning(said: Body, notes: list[str]) -> Body:
    reasoning = dict(said.get("reasoning") or {})
    asked = said.get("reasoning_effort")
    if asked is not None and reasoning.setdefault("effort", asked) != asked:
        add_note(notes, f"reasoning_effort={asked!r} gave way to reasoning={reasoning!r}")
    return {"reasoning": reasoning} if reasoning else {}


def _text(said: Body) -> Body:
    text = dict(said.get("text") or {})
    if said.get("verbosity") is not None:
        text.setdefault("verbosity", said["verbosity"])
    given = said.get("response_format")
    if given is not None:
        described = schema_format(given, said.get("strict"))
        text["format"] = dict(given) if described is None else {"type": "json_schema", **described}
    return {"text": text} if text else {}


def _tools(said: Body, host: Host, notes: list[str]) -> Body:
    given = said.get("tools") or []
    deferred = [place for place, one in enumerate(given) if _extras_of(one).get(DEFERRED)]
    if deferred:
        given = [_without_deferral(one) for one in given]
    encoded = encode_tools(given, notes, host, said.get("strict"))
    tools = [_flat(tool) for tool in encoded]
    for place in deferred:
        tools[place] = {**tools[place], DEFERRED: True}
    body: Body = {"tools": tools} if tools else {}
    choice = encode_tool_choice(said.get("tool_choice"), encoded, host)
    if choice is not None and tools:
        body["tool_choice"] = _flat_choice(choice)
    if said.get("parallel_tool_calls") is not None and tools:
        body["parallel_tool_calls"] = said["parallel_tool_calls"]
    return body


def _extras_of(tool: object) -> Mapping[str, Any]:
    found = tool.get("extras") if isinstance(tool, Mapping) else getattr(tool, "extras", None)
    return found if isinstance(found, Mapping) else {}


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
    """Write a tool without the inner object that chat completions want."""
    inner = tool.get("function")
    if isinstance(inner, Mapping):
        # Left out, `strict` would be on here, while chat completions leave it off.
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
            "tools": [_flat_choice(one) for one in inner["tools"]],
        }
    return dict(choice)


def _include(said: Body) -> Body:
    include = list(said.get("include") or [])
    body: Body = {}
    if said.get("logprobs"):
        include.append(LOGPROBS)
    if said.get("store") is False and (said.get("reasoning") or said.get("reasoning_effort")):
        include.append(
            ENCRYPTED
        )  # nothing is stored: the reasoning must come back with the next turn
    if include:
        body["include"] = list(dict.fromkeys(include))
    return body
