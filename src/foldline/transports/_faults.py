"""Every sentence a transport says when something goes wrong, in one place, so that the clients say the same."""

from __future__ import annotations

import re
import ssl
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

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

MASK = "***"
SHORTEST_SECRET = 8
"""Shorter values are no keys, and masking them would make errors unreadable."""
PUBLIC_HEADERS = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
LONGEST_EXCERPT = 4096
SHOWN_EXCERPT = 60
SHOWN_REASON = 300
OTHER_NAME = frozenset({62, 64})
"""OpenSSL's codes for a certificate that is trusted and belongs to another host or address."""
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
    if "WRONG_VERSION_NUMBER" in why or "RECORD_LAYER_FAILURE" in why:
        why += "; the server speaks no TLS there: is the address http:// and not https://?"
    return ModelConnectionError(f"{origin_of(request.url)} gave no answer: {hide(request, why)}")


def untrusted(request: Request, error: ssl.SSLCertVerificationError) -> ModelConnectionError:
    """The server's certificate was refused; it will be refused again."""
    sentence = (
        f"the certificate of {origin_of(request.url)} is not trusted ({error.verify_message})"
    )
    if error.verify_code not in OTHER_NAME:
        sentence += (
            ": if an authority of your own signed it, name that in HttpOptions(ca=...) "
            "or in the variable SSL_CERT_FILE"
        )
    return ModelConnectionError(sentence, is_retryable=False)


def interrupted(request: Request, why: str) -> StreamInterruptedError:
    """The connection broke inside the body."""
    return StreamInterruptedError(
        f"{origin_of(request.url)} broke off in the middle of its answer: {hide(request, why)}"
    )


def malformed(request: Request, why: str, excerpt: bytes = b"") -> MalformedStreamError:
    """The bytes are not what HTTP or gzip allow; an excerpt of them is shown."""
    if excerpt:
        hidden = hide(request, excerpt[:LONGEST_EXCERPT].decode("latin-1"))
        why = f"{why} {hidden[:SHOWN_EXCERPT].encode('latin-1')!r}"
    return MalformedStreamError(
        f"{origin_of(request.url)} does not keep to HTTP: {hide(request, why)[:SHOWN_REASON]}"
    )


def hide(request: Request, text: str) -> str:
    """Mask in a text from the server what the request held in secret, also in part at the text's end."""
    query = parse_qsl(urlsplit(request.url).query)
    pairs = [*request.headers.items(), *query]
    values = [value for name, value in pairs if name.lower() not in PUBLIC_HEADERS]
    words = {word for value in values for word in (value, *value.split())}
    for secret in sorted(words, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = _mask(secret, text)
    return text


def _mask(secret: str, text: str) -> str:
    text = re.sub(re.escape(secret), MASK, text, flags=re.IGNORECASE)
    for length in range(len(secret) - 1, SHORTEST_SECRET - 1, -1):
        if text.lower().endswith(secret[:length].lower()):  # cut, where no more had come
            return text[:-length] + MASK
    return text


def too_large(request: Request, what: str, limit: int, unit: str = "bytes") -> LimitExceededError:
    """Something passed its bound."""
    return LimitExceededError(
        f"{what} of {origin_of(request.url)} passed the limit of {limit} {unit}"
    )


def redirected(request: Request, target: str) -> SecurityError:
    """A redirect was answered; nothing was sent to its target."""
    aim = hide(request, origin_of(target)) if "://" in target else origin_of(request.url)
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
