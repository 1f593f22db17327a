"""The options of a call: foldline's instructions, one form of `tool_choice`, without unsupported options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from foldline.language_models._call.call_options import read_tool_choice, supported_options
from foldline.language_models._call.policies.usage_scope import SCOPE
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.request import CallOptions, ChatRequest
from foldline.language_models._call.settings import NO_SETTINGS
from foldline.language_models.profile import ModelProfile
from foldline.messages import BaseMessage, SystemMessage

__all__ = ["OptionsPolicy"]

PROFILE_FIELDS: Final = (("tools", "tool_calling"), ("temperature", "temperature"))
"""Options -> the field of a profile with whether the model supports them."""


class OptionsPolicy(Policy):
    """Sends the options that the model supports, in the form that every encoder reads."""

    __slots__ = ("_call",)

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where the call has settings, or options of a model of which something is known."""
        if call.settings is not NO_SETTINGS:
            return True
        if not (request.options or request.stop):
            return False
        model = call.model
        return bool(model._profile or model._tool_name_pattern or SCOPE.get() is not None)

    def __init__(self, call: CallContext) -> None:
        self._call = call

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Add the instructions, read the tool choice, drop unsupported options."""
        settings = self._call.settings
        if settings.instructions:
            messages = _with_instructions(request.messages, settings.instructions)
            request = request.replace(messages=messages)
        if not request.options and not request.stop:
            return request
        options, profile = dict(request.options), self._call.profile
        if request.stop:
            options["stop"] = request.stop
        unsupported = set(profile.get("unsupported_options") or ())
        _read_choice(options, profile, unsupported)
        for option, key in PROFILE_FIELDS:
            if options.get(option) not in (None, []) and profile.get(key) is False:
                unsupported.add(option)
        options = supported_options(
            options, frozenset(unsupported), self._call.model_label, settings.on_unsupported
        )
        return request.replace(stop=options.pop("stop", None), options=options)


def _read_choice(options: CallOptions, profile: ModelProfile, unsupported: set[str]) -> None:
    choice = options.get("tool_choice")
    if choice is None:
        return
    tool_choice = read_tool_choice(choice, parallel=options.get("parallel_tool_calls"))
    if tool_choice.parallel is not None:
        options["parallel_tool_calls"] = tool_choice.parallel
    if not isinstance(choice, str | Mapping):
        options["tool_choice"] = tool_choice.as_option()
    if profile.get("tool_choice") is False and tool_choice.mode != "auto":
        unsupported.add("tool_choice")


def _with_instructions(messages: list[BaseMessage], instructions: str) -> list[BaseMessage]:
    """Add instructions at the end of the system message, or at the beginning."""
    first_message = messages[0] if messages else None
    if isinstance(first_message, SystemMessage) and isinstance(first_message.content, str):
        content = f"{first_message.content}\n\n{instructions}"
        return [first_message.model_copy(update={"content": content}), *messages[1:]]
    return [SystemMessage(content=instructions), *messages]
