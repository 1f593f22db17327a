"""`BaseRateLimiter`: says when a call may be made."""

from __future__ import annotations

from abc import ABC, abstractmethod

from foldline.utils.short_repr import short_repr

__all__ = ["BaseRateLimiter"]


class BaseRateLimiter(ABC):
    """Says when a call may be made."""

    __repr__ = short_repr

    @abstractmethod
    def acquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""

    @abstractmethod
    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
