"""`InMemoryRateLimiter`: a token bucket for the calls of one process."""

from __future__ import annotations

import time

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._io.locks import mutex
from foldline.exceptions import UsageError
from foldline.rate_limiters.base import BaseRateLimiter

__all__ = ["InMemoryRateLimiter"]


class InMemoryRateLimiter(BaseRateLimiter):
    """A token bucket for the calls of one process, shared by threads and tasks.

    ```python
    from foldline.rate_limiters import InMemoryRateLimiter

    limiter = InMemoryRateLimiter(requests_per_second=10, max_bucket_size=2)
    print(limiter.acquire(blocking=False))
    #> False
    ```
    """

    def __init__(
        self,
        *,
        requests_per_second: float = 1,
        check_every_n_seconds: float = 0.1,
        max_bucket_size: float = 1,
    ) -> None:
        """Fill at a rate up to a size; the bucket begins empty, as in LangChain."""
        if requests_per_second <= 0 or max_bucket_size < 1:
            raise UsageError("requests_per_second must be above 0 and max_bucket_size at least 1")
        self.requests_per_second = requests_per_second
        self.check_every_n_seconds = check_every_n_seconds
        self.max_bucket_size = max_bucket_size
        self.available_tokens = 0.0
        self.last: float | None = None
        self._lock = mutex()

    def _take(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if self.last is None:
                self.last = now
            filled = self.available_tokens + (now - self.last) * self.requests_per_second
            self.available_tokens, self.last = min(filled, self.max_bucket_size), now
            if self.available_tokens < 1:
                return False
            self.available_tokens -= 1
            return True

    async def _acquire(self, io: IO, *, wait: bool) -> bool:
        while not self._take():
            if not wait:
                return False
            await io.sleep(self.check_every_n_seconds)
        return True

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
        return drive(self._acquire(BLOCKING, wait=blocking))

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
        return await self._acquire(ASYNC, wait=blocking)
