"""`RetryPolicy`: when a failed call is tried again, and after how long. One owner, one budget per call."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from foldline._retry import RETRY_AFTER_CAP, is_owned, owning_retries
from foldline.exceptions import ModelError, UsageError

__all__ = ["DEFAULT_POLICY", "NO_RETRY", "RETRY_AFTER_CAP", "RetryPolicy", "owning_retries"]


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
            known = {_snake(key): one for key, one in value.items()}
            known["max_retries"] = known.pop(
                "retries", known.get("max_retries", DEFAULT_POLICY.max_retries)
            )
            names = [one.name for one in fields(cls)]
            if unknown := sorted(known.keys() - set(names)):
                raise UsageError(
                    f"retry_on_error has no {unknown[0]!r}: known are retries, {', '.join(names)}"
                )
            return cls(**known)
        raise UsageError(
            f"retry_on_error is a RetryPolicy, a bool, a number or a dict, not {value!r}"
        )

    def delay(self, attempt: int, error: BaseException | None = None) -> float:
        """Give the seconds to wait after the failed attempt number `attempt` (from 1)."""
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return max(0.0, float(asked))
        wait = min(self.max_delay, self.initial * self.factor ** (attempt - 1))
        return wait * random.uniform(0.5, 1.0) if self.jitter else wait

    def allows(self, error: BaseException, attempt: int) -> bool:
        """Whether the failed attempt number `attempt` may be followed by another."""
        if (
            attempt > self.max_retries
            or not isinstance(error, ModelError)
            or not error.is_retryable
        ):
            return False
        if error.retry_after is not None and error.retry_after > self.retry_after_cap:
            return False
        return not is_owned(error)  # somebody above will try again


def _snake(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)


DEFAULT_POLICY = RetryPolicy()
NO_RETRY = RetryPolicy(max_retries=0)
