"""The policies of a call, as a list: which there are, when they apply, and in which order they act."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import Final, TypeVar

from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.base import CallContext, Policy
from foldline.language_models.policies.checks import ChecksPolicy, ToolCallScreening
from foldline.language_models.policies.files import FilesPolicy
from foldline.language_models.policies.guards import GuardsPolicy
from foldline.language_models.policies.hooks import HooksPolicy
from foldline.language_models.policies.options import OptionsPolicy
from foldline.language_models.policies.prompt_caching import PromptCachingPolicy
from foldline.language_models.policies.reasoning import ReasoningPolicy
from foldline.language_models.policies.received_message import ReceivedMessage
from foldline.language_models.policies.settings import NO_SETTINGS
from foldline.language_models.policies.tool_names import ToolNamesPolicy
from foldline.language_models.policies.usage import SCOPE, UsagePolicy
from foldline.language_models.policies.window import WindowPolicy
from foldline.language_models.profile import ModelProfile
from foldline.messages import HumanMessage, SystemMessage

__all__ = ["POLICIES", "find_policy", "policies_for"]

P = TypeVar("P", bound=Policy)
NO_PROFILE: Final[ModelProfile] = {}
CONTENT: Final = attrgetter("content")
MESSAGES_WITHOUT_TOOLS: Final = frozenset({HumanMessage, SystemMessage})
"""Messages that contain no tool names."""


POLICIES: Final[tuple[type[Policy], ...]] = (
    HooksPolicy,
    ReasoningPolicy,
    OptionsPolicy,
    FilesPolicy,
    WindowPolicy,
    ToolNamesPolicy,
    PromptCachingPolicy,
    ToolCallScreening,
    ReceivedMessage,
    UsagePolicy,
    ChecksPolicy,
    GuardsPolicy,
)
"""Every policy, in the order of `before` and `on_events`; `after` and `on_error` run in reverse."""


def policies_for(call: CallContext, request: ChatRequest) -> list[Policy]:
    """Return the policies that a call needs; a plain call has none."""
    settings, options = call.settings, request.options
    profile = call.model.profile or NO_PROFILE
    has_blocks = list in map(type, map(CONTENT, request.messages))
    takes_names = call.model._tool_name_pattern or profile.get("tool_name_pattern")
    is_in_scope = SCOPE.get() is not None
    is_counted = is_in_scope or call.model.rate_limiter is not None or "prices" in profile
    if settings is NO_SETTINGS and not (
        has_blocks
        or takes_names
        or is_counted
        or options
        or request.stop
        or profile
        or request.output_file_type
    ):  # as most calls are
        return []
    is_hooked = settings.hooks is not None  # a hook may add anything to the request
    names_tools = bool(options) or not MESSAGES_WITHOUT_TOOLS.issuperset(
        map(type, request.messages)
    )
    is_known = profile or takes_names or is_in_scope
    has_options = options or request.stop
    applies = (
        is_hooked,  # hooks
        is_hooked or "reasoning_effort" in options,  # reasoning
        settings is not NO_SETTINGS or (has_options and is_known),  # options
        is_hooked or has_blocks or request.output_file_type,  # files
        settings.max_input_tokens or profile.get("max_input_tokens"),  # window
        takes_names and (is_hooked or names_tools),  # tool names
        settings.prompt_cache,  # prompt caching
        settings.checks,  # tool call screening
        settings.checks or settings.guards or is_counted,  # received message
        is_counted,  # usage
        settings.checks,  # checks
        settings.guards,  # guards
    )
    return [policy(call) for policy in compress(POLICIES, applies)] if any(applies) else []


def find_policy(policies: Sequence[Policy], kind: type[P]) -> P | None:
    """Return the policy of a kind, if the call has it."""
    for policy in policies:
        if type(policy) is kind:
            return policy
    return None
