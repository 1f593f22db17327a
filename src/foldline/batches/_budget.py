"""The budget of a job: one usage scope for all its live calls, and an estimate before a batch is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from foldline.batches._targets.base import BatchRequest, Target
from foldline.batches.records import BatchReport, ItemOutcome
from foldline.exceptions import UsageError
from foldline.language_models._call.policies.usage_scope import Limits, UsageScope
from foldline.messages.usage import UsageMetadata, add_usage

__all__ = ["JobBudget"]


class JobBudget:
    """The budget of a job, with the spending of earlier processes."""

    def __init__(self, limits: Limits | None, report: BatchReport) -> None:
        self.limits = limits
        self.is_spent = False
        self.scope: UsageScope | None = None
        self._reserved = 0.0
        self._reserved_tokens = 0
        if limits is not None:
            self.scope = UsageScope(limits)
            self.scope.known_cost = report.known_cost
            self._add(report.input_tokens, report.output_tokens)
            self.scope.model_calls = report.done

    def _add(self, sent: int, answered: int) -> None:
        if self.scope is not None:
            usage: UsageMetadata = {
                "input_tokens": sent, "output_tokens": answered, "total_tokens": sent + answered,
            }  # fmt: skip
            self.scope.usage = add_usage(self.scope.usage, usage)

    def spend(self, outcome: ItemOutcome) -> None:
        """Count an answer of a batch."""
        if self.scope is None:
            return
        self.scope.known_cost += outcome.cost or 0.0
        self._add(outcome.input_tokens, outcome.output_tokens)
        self._reserved = max(0.0, self._reserved - self._highest_cost)
        self._reserved_tokens = max(0, self._reserved_tokens - self._most_tokens)

    _highest_cost = 0.0
    _most_tokens = 0

    def allows(self, target: Target) -> Callable[[BatchRequest, int], bool]:
        """Return a function that says whether a further request of a batch fits, by its maximum cost."""
        limits, scope = self.limits, self.scope
        if limits is None or scope is None:
            return lambda request, place: True

        def fits(request: BatchRequest, place: int) -> bool:
            most = _most_output(request.body, target)
            cost = (
                _cost_at_most(target, request.input_tokens, most)
                if limits.cost is not None
                else 0.0
            )
            tokens = request.input_tokens + most
            for limit, used, more in (
                (limits.cost, scope.known_cost + self._reserved, cost),
                (limits.total_tokens, scope.total_tokens + self._reserved_tokens, tokens),
            ):
                if limit is not None and used + more > limit:
                    self.is_spent = True
                    return False
            self._reserved += cost
            self._reserved_tokens += tokens
            self._highest_cost, self._most_tokens = (
                max(self._highest_cost, cost),
                max(self._most_tokens, tokens),
            )
            return True

        return fits


def _most_output(body: Mapping[str, Any], target: Target) -> int:
    """Return the most tokens of an answer: by the request, else by the model."""
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        if isinstance(body.get(name), int):
            return int(body[name])
    inner = body.get("generationConfig") or {}
    if isinstance(inner.get("maxOutputTokens"), int):
        return int(inner["maxOutputTokens"])
    max_output = target.max_output()
    if max_output is None:
        raise UsageError(
            f"a budget over batches needs to know how long an answer may be: {target.describe()} has no max_tokens. "
            "Set it on the model"
        )
    return max_output


def _cost_at_most(target: Target, sent: int, answered: int) -> float:
    cost = target.batch_cost({"input_tokens": sent, "output_tokens": answered})
    if cost is None:
        raise UsageError(
            f'Limits(cost=…) needs the batch prices of {target.describe()}: pass profile={{"prices": {{…, "batch": '
            "{…}}} or call foldline.prices.register_prices (per million tokens)"
        )
    return cost
