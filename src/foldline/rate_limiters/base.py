"""`BaseRateLimiter`: says when a call may be made."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["BaseRateLimiter"]


class BaseRateLimiter(ABC):
    """Says when a call may be made."""

    @abstractmethod
    def acquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""

    @abstractmethod
    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
