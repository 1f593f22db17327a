"""`BaseRateLimiter`: decides when a request may be sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from foldline.utils._short_repr import short_repr

__all__ = ["BaseRateLimiter"]


class BaseRateLimiter(ABC):
    """Decides when a request may be sent."""

    __repr__ = short_repr
    takes_reservations: ClassVar[bool] = False
    """Whether requests reserve tokens and settle them, as with every `QuotaLimiter`."""

    @abstractmethod
    def acquire(self, *, blocking: bool = True) -> bool:
        """Acquire permission for one request; with `blocking=False` return immediately whether there is one."""

    @abstractmethod
    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Acquire permission for one request; with `blocking=False` return immediately whether there is one."""

    def observe(  # noqa: B027  most limiters ignore it
        self, headers: Mapping[str, str], *, status: int = 200, retry_after: float | None = None
    ) -> None:
        """Adapt to the rate-limit headers of an answer; the default does nothing."""
