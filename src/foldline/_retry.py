"""Ownership of the retries of a call: code inside an owner does not retry the errors that the owner retries.

The owner is in a context variable, so it reaches threads and tasks that the call starts. It stops owning when its
first output is delivered, because after that it would not retry.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token

RETRY_AFTER_CAP = 60.0
"""The longest Retry-After in seconds that is honoured; a longer one is raised with its value."""


class RetryOwner:
    """An owner of retries; a context manager around each step of what may be retried."""

    __slots__ = ("_handles", "_outer", "_token", "is_active")

    def __init__(self, handles: Callable[[BaseException], bool] | None = None) -> None:
        """Own the errors that `handles` accepts, or all."""
        self._handles = handles
        self._outer = _owner.get()
        self._token: Token[RetryOwner | None] | None = None
        self.is_active: bool = True

    @property
    def outer(self) -> RetryOwner | None:
        """The owner outside this one."""
        return self._outer

    def takes(self, error: BaseException) -> bool:
        """Return whether this owner, or an outer one, decides about this error."""
        if self.is_active and (self._handles is None or self._handles(error)):
            return True
        return self._outer is not None and self._outer.takes(error)

    def __enter__(self) -> None:
        self._token = _owner.set(self)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _owner.reset(self._token)


_owner: ContextVar[RetryOwner | None] = ContextVar("foldline_retry_owner", default=None)


def owning_retries(handles: Callable[[BaseException], bool] | None = None) -> RetryOwner:
    """Return an owner: models called inside its block do not retry."""
    return RetryOwner(handles)


def is_owned(error: BaseException) -> bool:
    """Return whether an owner decides if this error is retried."""
    owner = _owner.get()
    return owner is not None and owner.takes(error)
