"""`BaseRateLimiter`: says when a call may be made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from foldline.utils.short_repr import short_repr

__all__ = ["BaseRateLimiter"]


class BaseRateLimiter(ABC):
    """Says when a call may be made."""

    __repr__ = short_repr
    takes_reservations: ClassVar[bool] = False
    """Whether requests reserve tokens and settle them, as with every `QuotaLimiter`."""

    @abstractmethod
    def acquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""

    @abstractmethod
    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""

    def observe(  # noqa: B027  most limiters do not learn
        self, headers: Mapping[str, str], *, status: int = 200, retry_after: float | None = None
    ) -> None:
        """Take note of what a provider's answer says of its limits; does nothing unless a limiter learns."""
