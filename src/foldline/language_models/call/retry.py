"""`RetryPolicy`: when a failed call is tried again, and after how long. One owner, one budget per call."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from foldline._retry import RETRY_AFTER_CAP, is_owned, owning_retries
from foldline.exceptions import ModelError, UsageError
from foldline.utils.spelling import snake_keys

__all__ = ["DEFAULT_POLICY", "NO_RETRY", "RETRY_AFTER_CAP", "RetryPolicy", "owning_retries"]

MILLISECONDS: Final = {"min_timeout": "initial", "max_timeout": "max_delay"}
"""Keys of AIGNE's object that count milliseconds -> our fields, which count seconds."""
OTHER_NAMES: Final = {"retries": "max_retries", "randomize": "jitter"}
"""Keys of AIGNE's object -> our fields."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long: exponential waits with jitter, a provider's Retry-After first.

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
    """After content was delivered: raise with the partial, or tell the consumer to drop it and begin again."""
    should_retry: Callable[[Exception], bool | None] | None = None
    """Decides about an error: True tries again whatever it is, False does not, None leaves it to the usual rule."""

    def __post_init__(self) -> None:
        if inspect.iscoroutinefunction(self.should_retry):
            raise UsageError("should_retry decides at once: write it with `def`, not `async def`")

    @classmethod
    def of(cls, value: RetryPolicy | bool | int | Mapping[str, Any] | None) -> RetryPolicy:  # noqa: FBT001
        """Read what `retry_on_error` accepts: a policy, True, False, a number of retries or a dict."""
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
        known: dict[str, Any] = {}
        for key, option in snake_keys(value).items():
            if key in MILLISECONDS:
                known[MILLISECONDS[key]] = option / 1000
            else:
                known[OTHER_NAMES.get(key, key)] = option
        names = [one.name for one in fields(cls)]
        if unknown := sorted(known.keys() - set(names)):
            others = ", ".join([*OTHER_NAMES, *MILLISECONDS, *names])
            raise UsageError(f"retry_on_error has no {unknown[0]!r}: known are {others}")
        return cls(**known)

    def delay(self, attempt: int, error: BaseException | None = None) -> float:
        """Return the seconds to wait after the failed attempt number `attempt` (from 1)."""
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return max(0.0, float(asked))
        wait = min(self.max_delay, self.initial * self.factor ** (attempt - 1))
        return wait * random.uniform(0.5, 1.0) if self.jitter else wait

    def allows(self, error: BaseException, attempt: int) -> bool:
        """Whether the failed attempt number `attempt` may be followed by another."""
        if attempt > self.max_retries:
            return False
        decision, known = self.decide(error), error if isinstance(error, ModelError) else None
        if decision is None:
            decision = known is not None and known.is_retryable
        wait = None if known is None else known.retry_after
        if not decision or (wait is not None and wait > self.retry_after_cap):
            return False
        return not is_owned(error)  # somebody above will try again

    def decide(self, error: BaseException) -> bool | None:
        """Return what `should_retry` says about an error; None where there is no such function or no opinion."""
        if self.should_retry is None or not isinstance(error, Exception):
            return None
        return self.should_retry(error)


DEFAULT_POLICY = RetryPolicy()
NO_RETRY = RetryPolicy(max_retries=0)
