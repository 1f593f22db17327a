"""Every sentence a transport says when something goes wrong, in one place, so that the clients say the same."""

from __future__ import annotations

from typing import Literal

from foldline.exceptions import (
    LimitExceededError,
    MalformedStreamError,
    ModelConnectionError,
    ModelTimeoutError,
    SecurityError,
    StreamClosedError,
    StreamInterruptedError,
    UsageError,
)
from foldline.transports.base import Request, origin_of

Phase = Literal["connect", "first_byte", "idle", "total", "pool"]

WAITS: dict[Phase, str] = {
    "connect": "could not connect to {origin} within {seconds:g} s",
    "first_byte": "{origin} sent no headers within {seconds:g} s",
    "idle": "{origin} sent nothing of worth for {seconds:g} s",
    "total": "the call to {origin} was not finished within {seconds:g} s",
    "pool": "no connection slot was free within {seconds:g} s (HttpOptions.max_connections)",
}


def timed_out(request: Request, phase: Phase, seconds: float) -> ModelTimeoutError:
    """The clock of a phase ran out."""
    sentence = WAITS[phase].format(origin=origin_of(request.url), seconds=seconds)
    error = ModelTimeoutError(f"{sentence} (timeout {phase!r})")
    error.phase = phase
    return error


def not_reached(request: Request, why: str) -> ModelConnectionError:
    """The request got no answer."""
    return ModelConnectionError(f"{origin_of(request.url)} gave no answer: {why}")


def interrupted(request: Request, why: str) -> StreamInterruptedError:
    """The connection broke inside the body."""
    return StreamInterruptedError(
        f"{origin_of(request.url)} broke off in the middle of its answer: {why}"
    )


def malformed(request: Request, why: str) -> MalformedStreamError:
    """The bytes are not what HTTP or gzip allow."""
    return MalformedStreamError(f"{origin_of(request.url)} does not keep to HTTP: {why}")


def too_large(request: Request, what: str, limit: int, unit: str = "bytes") -> LimitExceededError:
    """Something passed its bound."""
    return LimitExceededError(
        f"{what} of {origin_of(request.url)} passed the limit of {limit} {unit}"
    )


def redirected(request: Request, target: str) -> SecurityError:
    """A redirect was answered; nothing was sent to its target."""
    aim = origin_of(target) if "://" in target else origin_of(request.url)
    return SecurityError(
        f"{origin_of(request.url)} redirects to {aim}: redirects are not followed, because the key and the "
        "messages would go with them. Set base_url to the final address"
    )


def closed_while_reading(request: Request) -> StreamClosedError:
    """Another thread or task closed the response while this one was reading it."""
    return StreamClosedError(
        f"the answer of {origin_of(request.url)} was closed while it was being read"
    )


def closed_already() -> UsageError:
    """The body is asked for after the context was left, or twice."""
    return UsageError(
        "this response is closed or was already read: read it once, inside `async with`"
    )
