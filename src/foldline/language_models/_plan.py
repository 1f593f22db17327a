"""What a managed call is to be given besides an answer, and what that makes of its request. Pure.

`Plan` is the model's settings overlaid by those of the call; the functions read options by it and by the profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from foldline.language_models._message_files import OutputFileType
from foldline.language_models.checks import OutputCheck
from foldline.language_models.count import Overflow
from foldline.language_models.guards import Guard, GuardMode
from foldline.language_models.hooks import ModelHooks
from foldline.language_models.options import (
    is_late,
    merge_options,
    read_tool_choice,
    supported_options,
)
from foldline.language_models.profile import ModelProfile
from foldline.language_models.prompt_caching import CacheConfig, with_cache_control
from foldline.language_models.reasoning import apply_effort
from foldline.language_models.request import CallOptions, ChatRequest
from foldline.language_models.tool_binding import invalid_block
from foldline.messages import AIMessage, BaseMessage, SystemMessage

if TYPE_CHECKING:
    from foldline.language_models.files import FileResolver


@dataclass(slots=True)
class Plan:
    """What a call is to be given besides an answer: the model's settings, overlaid by those of the call."""

    checks: list[OutputCheck] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    guard_mode: GuardMode = "buffer"
    hooks: ModelHooks | None = None
    file_resolver: FileResolver | None = None
    output_file_type: OutputFileType | None = None
    output_dir: str | Path | None = None
    max_input_tokens: int | None = None
    on_overflow: Overflow = "raise"
    on_unsupported: Literal["warn", "raise"] = "warn"
    prompt_cache: Any = None
    retry_on_error: Any = None
    instructions: str | None = None

    @property
    def holds_back(self) -> bool:
        """Whether nothing of a stream may go out before its end was judged."""
        return bool(self.guards and self.guard_mode == "buffer")

    def key(self) -> Any:
        """Give what must tell kept answers apart, as JSON."""
        if not self.checks and not self.guards:
            return None
        guards = [
            f"{guard.__module__}.{getattr(guard, '__qualname__', type(guard).__name__)}"
            for guard in self.guards
        ]
        return [[check.key() for check in self.checks], guards]


CARE_OPTIONS = frozenset(Plan.__slots__)
"""Call options that are foldline's own: they never reach a provider."""

PROFILED = (("tools", "tool_calling"), ("temperature", "temperature"))
"""Options -> what a profile says of them."""


def overlay(request: ChatRequest, under: Mapping[str, Any], late: Mapping[str, Any]) -> None:
    """Lay the options of the call over those of the model, and look up values that come from the config."""
    if not (
        under
        or "model_options" in late
        or "model_options" in request.options
        or is_late(request.options)
    ):
        return
    called = dict(request.options)
    over = called.pop("model_options", None) or {}
    request.options = merge_options(
        under, late.get("model_options") or {}, over, called, configurable=late
    )
    if (stop := request.options.pop("stop", None)) is not None and request.stop is None:
        request.stop = [stop] if isinstance(stop, str) else list(stop)


def accepted(
    request: ChatRequest,
    profile: ModelProfile,
    where: str,
    on_unsupported: Literal["warn", "raise"],
) -> tuple[ChatRequest, dict[str, Any]]:
    """Give the request with the options the model takes, and what its answer should say of them."""
    options = dict(request.options)
    if request.stop:
        options["stop"] = request.stop
    refused = set(profile.get("unsupported_options") or ())
    _read_choice(options, profile, refused)
    told = _read_effort(options, profile, refused)
    for option, key in PROFILED:
        if options.get(option) not in (None, []) and profile.get(key) is False:
            refused.add(option)
    options = supported_options(options, frozenset(refused), where, on_unsupported)
    return request.replace(stop=options.pop("stop", None), options=options), told


def _read_choice(options: CallOptions, profile: ModelProfile, refused: set[str]) -> None:
    choice = options.get("tool_choice")
    if choice is None:
        return
    known = read_tool_choice(choice, parallel=options.get("parallel_tool_calls"))
    if known.parallel is not None:
        options["parallel_tool_calls"] = known.parallel
    if not isinstance(choice, str | Mapping):
        options["tool_choice"] = known.as_option()
    if profile.get("tool_choice") is False and known.mode != "auto":
        refused.add("tool_choice")


def _read_effort(options: CallOptions, profile: ModelProfile, refused: set[str]) -> dict[str, Any]:
    effort = options.get("reasoning_effort")
    if effort is None or "reasoning_effort" in refused:
        return {}
    applied = apply_effort(effort, profile or None)
    if applied is None:
        refused.add("reasoning_effort")
        return {}
    options["reasoning_effort"] = applied.value
    return {"reasoning_effort": applied.value}


def instructed(messages: list[BaseMessage], instructions: str) -> list[BaseMessage]:
    """Put instructions at the end of the system message, or before everything."""
    first = messages[0] if messages else None
    if isinstance(first, SystemMessage) and isinstance(first.content, str):
        said = f"{first.content}\n\n{instructions}"
        return [first.model_copy(update={"content": said}), *messages[1:]]
    return [SystemMessage(content=instructions), *messages]


def marked_for_cache(request: ChatRequest, prompt_cache: Any) -> ChatRequest:
    """Set the marks of a provider's prompt cache, where they are asked for."""
    config = CacheConfig.of(prompt_cache)
    if config is None:
        return request
    messages, tools = with_cache_control(request.messages, request.tools, config)
    options = {**request.options, "tools": tools} if tools else request.options
    return request.replace(messages=messages, options=options)


def screened_call(checks: list[OutputCheck], call: Any) -> dict[str, Any] | None:
    """Give the invalid block of a call that a check marks as such; None for a good one."""
    for check in checks:
        if (issue := check.screen(call)) is not None:
            return invalid_block(call, issue)
    return None


def screened(message: AIMessage, checks: list[OutputCheck]) -> AIMessage:
    """Give a message whose calls that do not fit are marked invalid."""
    for call in list(message.tool_calls):
        if (broken := screened_call(checks, call)) is not None:
            message = _marked_invalid(message, call, broken)
    return message


def _marked_invalid(message: AIMessage, call: Any, broken: dict[str, Any]) -> AIMessage:
    content = message.content
    if isinstance(content, list):
        content = [
            broken
            if isinstance(block, dict)
            and block.get("id") == call.get("id")
            and block.get("type") == "tool_call"
            else block
            for block in content
        ]
    return message.model_copy(
        update={
            "content": content,
            "tool_calls": [one for one in message.tool_calls if one is not call],
            "invalid_tool_calls": [*message.invalid_tool_calls, broken],
        }
    )
