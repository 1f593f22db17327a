"""`InMemoryRateLimiter`: limits for the requests of one process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from foldline._io.locks import mutex
from foldline.rate_limiters._state import Operation, Reply, State, apply
from foldline.rate_limiters.limiter import QuotaLimiter
from foldline.rate_limiters.quotas import Quota, make_rules

__all__ = ["InMemoryRateLimiter"]


class InMemoryRateLimiter(QuotaLimiter):
    """Limits for the requests of one process, shared by its threads and tasks.

    ```python
    from foldline.rate_limiters import InMemoryRateLimiter

    limiter = InMemoryRateLimiter(requests_per_minute=500, tokens_per_minute=30_000, max_wait=60)
    with limiter.reserve(tokens=1200) as permit:
        permit.settle(950)
    print(limiter.acquire(blocking=False))
    #> True
    ```

    `requests_per_second` with `max_bucket_size` is LangChain's token bucket, which is empty at first.
    """

    _is_quick = True

    def __init__(
        self,
        *,
        requests_per_second: float | None = None,
        check_every_n_seconds: float = 0.1,
        max_bucket_size: float = 1,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        requests_per_day: float | None = None,
        tokens_per_day: float | None = None,
        quotas: Iterable[Quota] = (),
        max_wait: float | None = None,
        learn: bool = True,
        reserve_max_tokens: bool = False,
    ) -> None:
        """Apply every limit that is passed; `quotas` are limits for other periods."""
        rules = make_rules(
            requests_per_second=requests_per_second,
            max_bucket_size=max_bucket_size,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            requests_per_day=requests_per_day,
            tokens_per_day=tokens_per_day,
            quotas=quotas,
        )
        super().__init__(
            rules, max_wait=max_wait, learn=learn, reserve_max_tokens=reserve_max_tokens
        )
        self.requests_per_second: float = rules.rate
        self.max_bucket_size = max_bucket_size
        # LangChain's argument; unused, because waiting requests are woken.
        self.check_every_n_seconds = check_every_n_seconds
        self._state = State()

    @property
    def available_tokens(self) -> float:
        """The content of the bucket of `requests_per_second` at the last request."""
        return self._state.bucket

    def _begin(self) -> None:
        super()._begin()
        self._state_lock = mutex()

    def _apply(self, operations: Sequence[Operation]) -> Reply:
        with self._state_lock:
            return apply(self._state, self.rules, self._caller, operations, time.monotonic())
