"""How much a model thinks: one option, `reasoning_effort`, mapped to what each provider takes. Pure.

A word the provider lacks becomes the nearest lesser one it has, or the least; words become budgets and budgets words by
the table of the profile. What was applied is reported, never guessed at by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from foldline.exceptions import UsageError
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.base import CallContext, Policy
from foldline.language_models.policies.call_options import supported_options
from foldline.language_models.profile import ModelProfile, ReasoningRules

__all__ = ["BUDGETS", "LEVELS", "AppliedEffort", "ReasoningPolicy", "apply_effort", "map_effort"]

LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Words of effort, in rising order."""
BUDGETS: Final[dict[str, int]] = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 4096,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}
"""The tokens a word stands for where a profile does not say."""


@dataclass(frozen=True, slots=True)
class AppliedEffort:
    """What is sent: a word or a budget; and what was asked for."""

    asked: str | int
    value: str | int

    @property
    def budget(self) -> int | None:
        """The tokens, where a budget is sent."""
        return self.value if isinstance(self.value, int) else None

    @property
    def level(self) -> str | None:
        """The word, where one is sent."""
        return self.value if isinstance(self.value, str) else None


class ReasoningPolicy(Policy):
    """Sends the effort that the model has, and reports it in the answer's metadata."""

    __slots__ = ("_call",)

    def __init__(self, call: CallContext) -> None:
        self._call = call

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Map the effort by the model's profile; leave it out where the model does not reason."""
        profile, effort = self._call.profile, request.options.get("reasoning_effort")
        if effort is None or "reasoning_effort" in (profile.get("unsupported_options") or ()):
            return request
        applied = apply_effort(effort, profile or None)
        if applied is not None:
            self._call.response_metadata["reasoning_effort"] = applied.value
            return request.replace(options={**request.options, "reasoning_effort": applied.value})
        options = supported_options(
            request.options,
            frozenset({"reasoning_effort"}),
            self._call.model_label,
            self._call.settings.on_unsupported,
        )
        return request.replace(options=options)


def apply_effort(effort: object, profile: ModelProfile | None) -> AppliedEffort | None:
    """Map an effort by a profile; None where the profile says that the model does not reason."""
    asked = _read(effort)
    if profile is None:
        return AppliedEffort(asked, asked)
    if profile.get("reasoning"):
        return map_effort(asked, profile["reasoning"])
    if levels := profile.get("reasoning_effort_levels"):
        return map_effort(
            asked, {"form": "level", "levels": {name: BUDGETS.get(name, 0) for name in levels}}
        )
    return None if profile.get("reasoning_output") is False else AppliedEffort(asked, asked)


def map_effort(effort: object, rules: ReasoningRules) -> AppliedEffort:
    """Map an effort by the rules of a provider."""
    asked = _read(effort)
    levels = rules.get("levels") or BUDGETS
    if rules.get("form", "level") == "level":
        return AppliedEffort(asked, _level(asked, levels))
    return AppliedEffort(asked, _budget(asked, levels, rules))


def _read(effort: object) -> str | int:
    if isinstance(effort, str) and effort in LEVELS:
        return effort
    if isinstance(effort, int) and not isinstance(effort, bool) and effort >= 0:
        return effort
    raise UsageError(
        f"reasoning_effort={effort!r}: one of {', '.join(LEVELS)}, or a number of tokens from 0"
    )


def _level(asked: str | int, levels: dict[str, int]) -> str:
    if asked in levels:
        return str(asked)
    if isinstance(asked, str):
        ranks = {name: LEVELS.index(name) for name in levels if name in LEVELS}
        lesser = [name for name, rank in ranks.items() if rank <= LEVELS.index(asked)]
        return (
            max(lesser, key=ranks.__getitem__)
            if lesser
            else min(levels, key=lambda name: ranks.get(name, 0))
        )
    lesser = [name for name, tokens in levels.items() if tokens <= asked]
    return max(lesser, key=levels.__getitem__) if lesser else min(levels, key=levels.__getitem__)


def _budget(asked: str | int, levels: dict[str, int], rules: ReasoningRules) -> int:
    tokens = asked if isinstance(asked, int) else levels.get(asked, BUDGETS[asked])
    if tokens == 0:
        return 0
    return min(max(tokens, rules.get("minimum", 0)), rules.get("maximum", tokens))
