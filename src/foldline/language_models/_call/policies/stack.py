"""The policies of a call: which there are, in which order they lie around the model, and which of them a call has."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from foldline.language_models._call.policies.files import FilesPolicy
from foldline.language_models._call.policies.guards import GuardsPolicy
from foldline.language_models._call.policies.hooks import HooksPolicy
from foldline.language_models._call.policies.options import OptionsPolicy
from foldline.language_models._call.policies.prompt_caching import PromptCachingPolicy
from foldline.language_models._call.policies.reasoning import ReasoningPolicy
from foldline.language_models._call.policies.rejected_answers import ChecksPolicy, ToolCallScreening
from foldline.language_models._call.policies.tool_names import ToolNamesPolicy
from foldline.language_models._call.policies.usage import SCOPE, UsagePolicy
from foldline.language_models._call.policies.window import WindowPolicy
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.received_message import ReceivedMessage
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.settings import NO_SETTINGS

__all__ = ["POLICIES", "event_chain", "policies_for"]

CONTENT: Final = attrgetter("content")

POLICIES: Final[tuple[type[Policy], ...]] = (
    HooksPolicy,
    ReasoningPolicy,
    OptionsPolicy,
    FilesPolicy,
    GuardsPolicy,
    ChecksPolicy,
    UsagePolicy,
    ToolCallScreening,
    WindowPolicy,
    ToolNamesPolicy,
    PromptCachingPolicy,
)
"""Every policy, from the caller's side to the model's."""
MANAGED: Final = tuple(kind for kind in POLICIES if kind.applies_to != "settings")
PLAIN: Final = tuple(kind for kind in POLICIES if kind.applies_to == "all")


def policies_for(call: CallContext, request: ChatRequest) -> list[Policy]:
    """Return the policies that a call has; a plain call has none."""
    model, kinds = call.model, PLAIN
    if call.settings is not NO_SETTINGS:
        kinds = (*call.settings.policies, *POLICIES)
    elif (
        model._profile
        or request.options
        or request.stop
        or request.output_file_type
        or model._tool_name_pattern
        or model.rate_limiter is not None
        or SCOPE.get() is not None
        or list in map(type, map(CONTENT, request.messages))
    ):
        kinds = MANAGED
    if not kinds:
        return []
    chosen = [kind for kind in kinds if kind.applies(call, request)]
    if any([kind.reads_message for kind in chosen]):  # noqa: C419  a generator would cost a frame
        call.received = ReceivedMessage(call)
    return [kind(call) for kind in chosen]


def event_chain(call: CallContext, policies: Sequence[Policy]) -> list[Policy]:
    """Return the policies that see events, in the order in which they see them; the fold comes before its readers."""
    chain = [policy for policy in reversed(policies) if policy.watches_events]
    received = call.received
    if isinstance(received, ReceivedMessage):
        first = next((n for n, policy in enumerate(chain) if policy.reads_message), len(chain))
        chain.insert(first, received)
    return chain
