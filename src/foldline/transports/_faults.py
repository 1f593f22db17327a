"""The errors of all transports, so that every client raises the same ones."""

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
MIN_SECRET_LENGTH = 8
"""Shorter values are not keys; masking them would make errors unreadable."""
PUBLIC_HEADERS = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
MAX_EXCERPT = 4096
SHOWN_EXCERPT = 60
SHOWN_REASON = 300
WRONG_HOST_CODES = frozenset({62, 64})
"""OpenSSL's error codes of a trusted certificate for another host or address."""
TIMEOUT_MESSAGES: dict[Phase, str] = {
    "connect": "could not connect to {origin} within {seconds:g} s",
    "first_byte": "{origin} sent no headers within {seconds:g} s",
    "idle": "{origin} sent nothing of worth for {seconds:g} s",
    "total": "the call to {origin} was not finished within {seconds:g} s",
    "pool": "no connection slot was free within {seconds:g} s (HttpOptions.max_connections)",
}


def timed_out(request: Request, phase: Phase, seconds: float) -> ModelTimeoutError:
    """Return the error of a timeout."""
    sentence = TIMEOUT_MESSAGES[phase].format(origin=origin_of(request.url), seconds=seconds)
    error = ModelTimeoutError(f"{sentence} (timeout {phase!r})")
    error.phase = phase
    return error


def not_reached(request: Request, reason: str) -> ModelConnectionError:
    """Return the error of a request without an answer."""
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        reason += "; the server speaks no TLS there: is the address http:// and not https://?"
    return ModelConnectionError(
        f"{origin_of(request.url)} gave no answer: {mask_secrets(request, reason)}"
    )


def untrusted(request: Request, error: ssl.SSLCertVerificationError) -> ModelConnectionError:
    """Return the error of a certificate that is not trusted; not retryable."""
    sentence = (
        f"the certificate of {origin_of(request.url)} is not trusted ({error.verify_message})"
    )
    if error.verify_code not in WRONG_HOST_CODES:
        sentence += (
            ": if an authority of your own signed it, name that in HttpOptions(ca=...) "
            "or in the variable SSL_CERT_FILE"
        )
    return ModelConnectionError(sentence, is_retryable=False)


def interrupted(request: Request, reason: str) -> StreamInterruptedError:
    """Return the error of a connection that broke inside the body."""
    return StreamInterruptedError(
        f"{origin_of(request.url)} broke off in the middle of its answer: {mask_secrets(request, reason)}"
    )


def malformed(request: Request, reason: str, excerpt: bytes = b"") -> MalformedStreamError:
    """Return the error of data that is not valid HTTP or gzip, with an excerpt."""
    if excerpt:
        masked = mask_secrets(request, excerpt[:MAX_EXCERPT].decode("latin-1"))
        reason = f"{reason} {masked[:SHOWN_EXCERPT].encode('latin-1')!r}"
    return MalformedStreamError(
        f"{origin_of(request.url)} does not keep to HTTP: {mask_secrets(request, reason)[:SHOWN_REASON]}"
    )


def mask_secrets(request: Request, text: str) -> str:
    """Return a text of the server with the request's secrets masked, also partial ones at its end."""
    query = parse_qsl(urlsplit(request.url).query)
    pairs = [*request.headers.items(), *query]
    values = [value for name, value in pairs if name.lower() not in PUBLIC_HEADERS]
    words = {word for value in values for word in (value, *value.split())}
    for secret in sorted(words, key=len, reverse=True):
        if len(secret) >= MIN_SECRET_LENGTH:
            text = _mask(secret, text)
    return text


def _mask(secret: str, text: str) -> str:
    text = re.sub(re.escape(secret), MASK, text, flags=re.IGNORECASE)
    for length in range(len(secret) - 1, MIN_SECRET_LENGTH - 1, -1):
        if text.lower().endswith(secret[:length].lower()):  # cut off at the end of the text
            return text[:-length] + MASK
    return text


def too_large(
    request: Request, subject: str, limit: int, unit: str = "bytes"
) -> LimitExceededError:
    """Return the error of something larger than its limit."""
    return LimitExceededError(
        f"{subject} of {origin_of(request.url)} passed the limit of {limit} {unit}"
    )


def redirected(request: Request, target: str) -> SecurityError:
    """Return the error of a redirect; nothing was sent to its target."""
    target_origin = (
        mask_secrets(request, origin_of(target)) if "://" in target else origin_of(request.url)
    )
    return SecurityError(
        f"{origin_of(request.url)} redirects to {target_origin}: redirects are not followed, because the key and the "
        "messages would go with them. Set base_url to the final address"
    )


def closed_while_reading(request: Request) -> StreamClosedError:
    """Return the error of a response that another thread or task closed while it was read."""
    return StreamClosedError(
        f"the answer of {origin_of(request.url)} was closed while it was being read"
    )


def closed_already() -> UsageError:
    """Return the error of reading a body twice, or after the context has ended."""
    return UsageError(
        "this response is closed or was already read: read it once, inside `async with`"
    )
