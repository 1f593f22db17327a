"""A limiter of LangChain's kind: without reservations."""

from __future__ import annotations

from foldline.rate_limiters import BaseRateLimiter


class CountingLimiter(BaseRateLimiter):
    """Lets every request pass, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def acquire(self, *, blocking: bool = True) -> bool:
        self.count += 1
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        return self.acquire()
