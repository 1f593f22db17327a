"""The bounds of a run: steps by `recursion_limit`, tokens, cost, calls and time by a usage scope."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from foldline._config import DEFAULT_RECURSION_LIMIT
from foldline._run import Run
from foldline.exceptions import RecursionLimitError
from foldline.language_models.policies.usage import SCOPE, Limits, UsageScope, current_usage

__all__ = ["Bounds"]

MOST_STEPS = 100
"""Model calls and rounds of tools in one run, where `recursion_limit` says nothing."""


class Bounds:
    """Counts the steps of one run, and puts its work into its usage scope."""

    def __init__(self, name: str, limits: Limits | None, run: Run) -> None:
        self._name = name
        self._most = _most_steps(run)
        self._steps = 0
        self.usage = None if limits is None else UsageScope(limits, current_usage())

    def step(self) -> None:
        """Count a step; raise if there were too many or the time is over."""
        if self._steps >= self._most:
            raise RecursionLimitError(
                f"{self._name} took {self._most} steps and did not come to an end: look at error.messages for what "
                "it repeats, or raise config['recursion_limit']"
            )
        self._steps += 1
        scope = self.usage or current_usage()
        if scope is not None:
            for one in scope.chain():
                one.check_time()

    def active(self) -> AbstractContextManager[object]:
        """Let what the block does count; never held across a `yield` to a caller."""
        return nullcontext() if self.usage is None else _entered(self.usage)


@contextmanager
def _entered(scope: UsageScope) -> Generator[None, None, None]:
    token = SCOPE.set(scope)
    try:
        yield
    finally:
        SCOPE.reset(token)


def _most_steps(run: Run) -> int:
    given = run.call_config.get("recursion_limit")
    # A call inside another one inherits a full config, whose default nobody chose.
    is_said = given is not None and (run.origin is None or given != DEFAULT_RECURSION_LIMIT)
    return int(given) if is_said and given is not None else MOST_STEPS
