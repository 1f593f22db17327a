"""The limits of a run: steps by `recursion_limit`; tokens, cost, calls and time by a usage scope."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from foldline._config import DEFAULT_RECURSION_LIMIT
from foldline._run import Run
from foldline.exceptions import RecursionLimitError
from foldline.language_models._call.policies.usage import SCOPE, Limits, UsageScope, current_usage

__all__ = ["RunBounds"]

DEFAULT_MAX_STEPS = 100
"""Model calls and tool steps in one run, unless `recursion_limit` is set."""


class RunBounds:
    """Counts the steps of one run, and runs its work in its usage scope."""

    def __init__(self, name: str, limits: Limits | None, run: Run) -> None:
        self._name = name
        self._max_steps = _max_steps_of(run)
        self._steps = 0
        self.usage = None if limits is None else UsageScope(limits, current_usage())

    def step(self) -> None:
        """Count a step; raise if there were too many or the time has run out."""
        if self._steps >= self._max_steps:
            raise RecursionLimitError(
                f"{self._name} took {self._max_steps} steps without finishing: look at error.messages for what it "
                "repeats, or raise config['recursion_limit']"
            )
        self._steps += 1
        scope = self.usage or current_usage()
        if scope is not None:
            for outer_scope in scope.chain():
                outer_scope.check_time()

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which usage counts; it must not be held across a `yield` to a caller."""
        return nullcontext() if self.usage is None else _enter(self.usage)


@contextmanager
def _enter(scope: UsageScope) -> Generator[None, None, None]:
    token = SCOPE.set(scope)
    try:
        yield
    finally:
        SCOPE.reset(token)


def _max_steps_of(run: Run) -> int:
    limit = run.call_config.get("recursion_limit")
    # A nested call inherits a full config, in which the default value was not chosen by the user.
    is_set = limit is not None and (run.origin is None or limit != DEFAULT_RECURSION_LIMIT)
    return int(limit) if is_set and limit is not None else DEFAULT_MAX_STEPS
