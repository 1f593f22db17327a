"""The amount of reasoning: one option, `reasoning_effort`, mapped to what each provider accepts. Pure.

A level that the provider lacks becomes the next lower one it has, or the lowest; levels become budgets and budgets
levels by the table of the profile. The effort that was applied is reported in the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import supported_options
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile, ReasoningRules

__all__ = ["BUDGETS", "LEVELS", "AppliedEffort", "ReasoningPolicy", "apply_effort", "map_effort"]

LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Levels of effort, in rising order."""
BUDGETS: Final[dict[str, int]] = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 4096,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}
"""The tokens of a level if the profile does not define them."""


@dataclass(frozen=True, slots=True)
class AppliedEffort:
    """The effort that is sent, a level or a budget; and the one that was requested."""

    requested: str | int
    value: str | int

    @property
    def budget(self) -> int | None:
        """The tokens, if a budget is sent."""
        return self.value if isinstance(self.value, int) else None

    @property
    def level(self) -> str | None:
        """The level, if one is sent."""
        return self.value if isinstance(self.value, str) else None


class ReasoningPolicy(Policy):
    """Sends an effort that the model supports, and reports it in the answer's metadata."""

    __slots__ = ("_call",)

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where an effort is requested, or a hook may request one."""
        return "reasoning_effort" in request.options or call.settings.hooks is not None

    def __init__(self, call: CallContext) -> None:
        self._call = call

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Map the effort by the model's profile; drop it if the model does not reason."""
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
    """Map an effort by a profile; None if the profile says that the model does not reason."""
    requested = _check_effort(effort)
    if profile is None:
        return AppliedEffort(requested, requested)
    if profile.get("reasoning"):
        return map_effort(requested, profile["reasoning"])
    if levels := profile.get("reasoning_effort_levels"):
        return map_effort(
            requested, {"form": "level", "levels": {name: BUDGETS.get(name, 0) for name in levels}}
        )
    return None if profile.get("reasoning_output") is False else AppliedEffort(requested, requested)


def map_effort(effort: object, rules: ReasoningRules) -> AppliedEffort:
    """Map an effort by the rules of a provider."""
    requested = _check_effort(effort)
    levels = rules.get("levels") or BUDGETS
    if rules.get("form", "level") == "level":
        return AppliedEffort(requested, _level(requested, levels))
    return AppliedEffort(requested, _budget(requested, levels, rules))


def _check_effort(effort: object) -> str | int:
    if isinstance(effort, str) and effort in LEVELS:
        return effort
    if isinstance(effort, int) and not isinstance(effort, bool) and effort >= 0:
        return effort
    raise UsageError(
        f"reasoning_effort={effort!r}: one of {', '.join(LEVELS)}, or a number of tokens from 0"
    )


def _level(requested: str | int, levels: dict[str, int]) -> str:
    if requested in levels:
        return str(requested)
    if isinstance(requested, str):
        ranks = {name: LEVELS.index(name) for name in levels if name in LEVELS}
        lower_levels = [name for name, rank in ranks.items() if rank <= LEVELS.index(requested)]
        return (
            max(lower_levels, key=ranks.__getitem__)
            if lower_levels
            else min(levels, key=lambda name: ranks.get(name, 0))
        )
    lower_levels = [name for name, tokens in levels.items() if tokens <= requested]
    return (
        max(lower_levels, key=levels.__getitem__)
        if lower_levels
        else min(levels, key=levels.__getitem__)
    )


def _budget(requested: str | int, levels: dict[str, int], rules: ReasoningRules) -> int:
    tokens = requested if isinstance(requested, int) else levels.get(requested, BUDGETS[requested])
    if tokens == 0:
        return 0
    return min(max(tokens, rules.get("minimum", 0)), rules.get("maximum", tokens))
