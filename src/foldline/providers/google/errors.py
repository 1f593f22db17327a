"""Google's error statuses and reasons, and the error class of each.

From https://ai.google.dev/gemini-api/docs/troubleshooting and the canonical codes of google.rpc. The more specific
reason and the retry delay are in `error.details`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from foldline.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelPermissionDeniedError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from foldline.providers._wire import WireFailure, read_failure
from foldline.providers.google._wire import dicts
from foldline.utils.json import JsonError, parse_wire

ERRORS: Final[dict[str, type[ModelError]]] = {
    # error.status
    "FAILED_PRECONDITION": ModelPermissionDeniedError,  # the free tier is not available in your country
    "OUT_OF_RANGE": ModelInvalidRequestError,
    "UNAUTHENTICATED": ModelAuthenticationError,
    "PERMISSION_DENIED": ModelPermissionDeniedError,
    "NOT_FOUND": ModelNotFoundError,
    "ALREADY_EXISTS": ModelInvalidRequestError,
    "ABORTED": ModelAPIError,
    "RESOURCE_EXHAUSTED": ModelRateLimitError,
    "CANCELLED": ModelAPIError,
    "DATA_LOSS": ModelAPIError,
    "UNKNOWN": ModelAPIError,
    "INTERNAL": ModelAPIError,
    "UNIMPLEMENTED": ModelInvalidRequestError,
    "UNAVAILABLE": ModelOverloadedError,
    "DEADLINE_EXCEEDED": ModelTimeoutError,
    # error.details[].reason
    "API_KEY_INVALID": ModelAuthenticationError,
    "API_KEY_EXPIRED": ModelAuthenticationError,
    "API_KEY_SERVICE_BLOCKED": ModelPermissionDeniedError,
    "API_KEY_HTTP_REFERRER_BLOCKED": ModelPermissionDeniedError,
    "API_KEY_IP_ADDRESS_BLOCKED": ModelPermissionDeniedError,
    "ACCESS_TOKEN_EXPIRED": ModelAuthenticationError,
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT": ModelPermissionDeniedError,
    "BILLING_DISABLED": ModelQuotaError,
    "CONSUMER_SUSPENDED": ModelPermissionDeniedError,
    "CREDENTIALS_MISSING": ModelAuthenticationError,
    "RATE_LIMIT_EXCEEDED": ModelRateLimitError,
    "SERVICE_DISABLED": ModelPermissionDeniedError,
    "QUOTA_PER_DAY": ModelQuotaError,
}
"""Status or reason -> class. `INVALID_ARGUMENT` is not listed: it includes overflows, recognized by their message."""

DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)s")


def read_error(body: object) -> WireFailure:
    """Return the status, reason and message of an error's JSON."""
    failure = read_failure(body)
    reason = next(
        (detail["reason"] for detail in details_of(body) if isinstance(detail.get("reason"), str)),
        None,
    )
    if failure.kind == "RESOURCE_EXHAUSTED" and _is_daily(body):
        reason = "QUOTA_PER_DAY"
    code = reason if reason in ERRORS else failure.kind
    return replace(failure, code=code)


def read_delay(body: object) -> float | None:
    """Return the seconds to wait that the body contains (`RetryInfo`), or None."""
    for detail in details_of(body):
        match = DELAY.fullmatch(str(detail.get("retryDelay") or ""))
        if match:
            return float(match[1])
    return None


def with_delay(error: ModelError, body: object) -> ModelError:
    """Set `retry_after` of an error from its body, unless a header has set it; the body is JSON, parsed or not."""
    if error.retry_after is None:
        try:
            error.retry_after = read_delay(parse_wire(body) if isinstance(body, bytes) else body)
        except JsonError:
            return error
    return error


def details_of(body: object) -> list[dict[str, Any]]:
    """Return `error.details`."""
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    return dicts(details)


def _is_daily(body: object) -> bool:
    """Whether a daily quota is exhausted, so that a retry cannot succeed."""
    violations = [
        violation for detail in details_of(body) for violation in dicts(detail.get("violations"))
    ]
    return any("PerDay" in str(violation.get("quotaId")) for violation in violations)
