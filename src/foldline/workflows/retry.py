"""`RetryPolicy`: how often a step or a node is attempted, and how long to wait between attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from foldline._io import IO, OutOfTime
from foldline._retry import Backoff, added, owning_retries
from foldline.exceptions import FlowError, ModelError, StepTimeoutError, UsageError
from foldline.utils._short_repr import fields_repr
from foldline.utils._signature import show_defaults
from foldline.workflows._thread_log import ends_run

__all__ = [
    "RetryPolicy",
    "default_retry_on",
]

T = TypeVar("T")
RetryOn = type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool]
PROGRAM_ERRORS = (
    ValueError, TypeError, ArithmeticError, ImportError, LookupError, NameError, SyntaxError, RuntimeError,
    ReferenceError, StopIteration, StopAsyncIteration, OSError, FlowError,
)  # fmt: skip
"""Errors that a retry does not fix; connection errors and timeouts, which are OSErrors, are retried."""


def default_retry_on(error: Exception) -> bool:
    """Whether an error may be temporary."""
    if isinstance(error, ModelError):
        return error.is_retryable
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return not isinstance(error, PROGRAM_ERRORS)


@show_defaults
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to retry, and how long to wait."""

    __repr__ = fields_repr

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: RetryOn = default_retry_on

    def applies(self, error: Exception) -> bool:
        """Whether this error is retried."""
        if ends_run(error):
            return False
        if isinstance(self.retry_on, type):
            return isinstance(error, self.retry_on)
        if isinstance(self.retry_on, Sequence):
            return isinstance(error, tuple(self.retry_on))
        return bool(self.retry_on(error))

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt; the first is 1."""
        jitter = _up_to_a_second if self.jitter else None
        backoff = Backoff(
            self.initial_interval, self.backoff_factor, self.max_interval, jitter=jitter
        )
        return backoff.delay(attempt)


def _up_to_a_second(seconds: float) -> float:
    return added(min(1.0, seconds))(seconds)


def policies_of(retry: int | RetryPolicy | Sequence[RetryPolicy] | None) -> list[RetryPolicy]:
    """Return the policies of a `retry` option: a number of attempts, a policy, or several."""
    if retry is None:
        return []
    if isinstance(retry, bool) or (isinstance(retry, int) and retry < 1):
        raise UsageError(
            f"retry={retry!r}: pass the number of attempts (at least 1) or a RetryPolicy"
        )
    if isinstance(retry, int):
        return [RetryPolicy(max_attempts=retry, retry_on=Exception)]
    return [retry] if isinstance(retry, RetryPolicy) else list(retry)


async def run_attempts(
    io: IO,
    name: str,
    make: Callable[[int], Awaitable[T]],
    retry: Sequence[RetryPolicy],
    timeout: float | None,  # noqa: ASYNC109  of each attempt, in both modes
) -> T:
    """Run a body, and retry by the policies; the timeout applies to each attempt."""
    if not retry and timeout is None:
        return await make(1)
    # Errors that are retried here are not also retried by a model inside.
    owner = owning_retries(
        lambda error: (
            isinstance(error, Exception) and any(policy.applies(error) for policy in retry)
        )
    )
    attempt = 1
    while True:
        try:
            with owner:
                if timeout is None:
                    return await make(attempt)
                return await _bounded(io, name, make(attempt), timeout)
        except Exception as error:
            policy = next((policy for policy in retry if policy.applies(error)), None)
            if policy is None or attempt >= policy.max_attempts:
                raise
        await io.sleep(policy.wait(attempt))
        attempt += 1


async def _bounded(io: IO, name: str, body: Awaitable[T], seconds: float) -> T:
    async def run() -> T:
        return await body

    try:
        result: T = await io.bounded(seconds, run())
    except OutOfTime as error:
        raise StepTimeoutError(
            f"{name} took longer than its timeout of {seconds:g} s; a sync function continues in its thread"
        ) from error
    return result
