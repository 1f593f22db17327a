"""Who owns the retries of a call. One owner: what an outer retry will try again, nothing inside it tries again.

The owner is known through a context variable, so it reaches threads and tasks that the call starts. It stops owning
when its first output was delivered, because from then on it would not try again itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token

RETRY_AFTER_CAP = 60.0
"""Seconds a provider may make us wait; a longer Retry-After is raised with its value."""


class RetryOwner:
    """Somebody who tries again; a context manager around each step of what may be tried again."""

    __slots__ = ("_handles", "_outer", "_token", "is_active")

    def __init__(self, handles: Callable[[BaseException], bool] | None = None) -> None:
        """Own the errors that `handles` accepts, or all."""
        self._handles = handles
        self._outer = _owner.get()
        self._token: Token[RetryOwner | None] | None = None
        self.is_active: bool = True

    @property
    def outer(self) -> RetryOwner | None:
        """Who owned the retries before."""
        return self._outer

    def takes(self, error: BaseException) -> bool:
        """Whether this owner, or one further out, decides about this error."""
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
    """Let the caller be the only one that retries: models called inside the block do not."""
    return RetryOwner(handles)


def is_owned(error: BaseException) -> bool:
    """Whether somebody above decides if this error is tried again."""
    owner = _owner.get()
    return owner is not None and owner.takes(error)
