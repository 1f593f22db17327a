"""`RetryPolicy`: when a failed call is retried, and after how long. One owner, one budget per call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from foldline._lazy import publish
from foldline._retry import RETRY_AFTER_CAP, Backoff, is_owned, owning_retries, shrunk
from foldline.exceptions import ModelError, UsageError
from foldline.utils._spelling import snake_keys

__all__ = ["DEFAULT_POLICY", "NO_RETRY", "RETRY_AFTER_CAP", "RetryPolicy", "owning_retries"]

MILLISECONDS: Final = {"min_timeout": "initial", "max_timeout": "max_delay"}
"""Keys of AIGNE's object in milliseconds -> our fields in seconds."""
OTHER_NAMES: Final = {"retries": "max_retries", "randomize": "jitter"}
"""Keys of AIGNE's object -> our fields."""
HALF_TO_ALL: Final = shrunk(0.5)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long: exponential waits with jitter; a provider's Retry-After takes precedence.

    ```python
    from foldline.language_models import RetryPolicy

    print(RetryPolicy(max_retries=2, jitter=False).delay(2))
    #> 2.0
    ```
    """

    max_retries: int = 3
    initial: float = 1.0
    factor: float = 2.0
    max_delay: float = 30.0
    jitter: bool = True
    retry_after_cap: float = RETRY_AFTER_CAP
    on_partial: Literal["raise", "reset"] = "raise"
    """After content was delivered: raise with the partial message, or tell the consumer to drop it and start over."""
    should_retry: Callable[[Exception], bool | None] | None = None
    """Decides about an error: True retries it, False does not, None applies the default rule."""

    def __post_init__(self) -> None:
        if inspect.iscoroutinefunction(self.should_retry):
            raise UsageError("should_retry must be sync: write it with `def`, not `async def`")

    @classmethod
    def of(cls, value: RetryPolicy | bool | int | Mapping[str, Any] | None) -> RetryPolicy:  # noqa: FBT001
        """Return the policy for `retry_on_error`: a policy, True, False, a number of retries or a dict."""
        if isinstance(value, RetryPolicy):
            return value
        if value is None or value is True:
            return DEFAULT_POLICY
        if value is False:
            return NO_RETRY
        if isinstance(value, int):
            return cls(max_retries=value)
        if isinstance(value, Mapping):
            return cls._of_mapping(value)
        raise UsageError(
            f"retry_on_error is a RetryPolicy, a bool, a number or a dict, not {value!r}"
        )

    @classmethod
    def _of_mapping(cls, value: Mapping[str, Any]) -> RetryPolicy:
        options: dict[str, Any] = {}
        for key, option in snake_keys(value).items():
            if key in MILLISECONDS:
                options[MILLISECONDS[key]] = option / 1000
            else:
                options[OTHER_NAMES.get(key, key)] = option
        names = [field.name for field in fields(cls)]
        if unknown_keys := sorted(options.keys() - set(names)):
            valid_keys = ", ".join([*OTHER_NAMES, *MILLISECONDS, *names])
            raise UsageError(f"retry_on_error has no {unknown_keys[0]!r}: known are {valid_keys}")
        return cls(**options)

    def delay(self, attempt: int, error: BaseException | None = None) -> float:
        """Return the seconds to wait after the failed attempt number `attempt` (from 1)."""
        jitter = HALF_TO_ALL if self.jitter else None
        backoff = Backoff(self.initial, self.factor, self.max_delay, jitter=jitter)
        return backoff.delay(attempt, getattr(error, "retry_after", None))

    def allows(self, error: BaseException, attempt: int) -> bool:
        """Return whether the failed attempt number `attempt` may be followed by another."""
        # First, because `should_retry` is a program's function, and need not be asked for nothing.
        if attempt > self.max_retries:
            return False
        decision, model_error = self.decide(error), error if isinstance(error, ModelError) else None
        if decision is None:
            decision = model_error is not None and model_error.is_retryable
        wait = None if model_error is None else model_error.retry_after
        if not decision or (wait is not None and wait > self.retry_after_cap):
            return False
        return not is_owned(error)  # an outer owner will retry

    def decide(self, error: BaseException) -> bool | None:
        """Return the decision of `should_retry` about an error; None if there is no such function or no decision."""
        if self.should_retry is None or not isinstance(error, Exception):
            return None
        return self.should_retry(error)


DEFAULT_POLICY = RetryPolicy()
NO_RETRY = RetryPolicy(max_retries=0)


publish("foldline.language_models", RetryPolicy)
