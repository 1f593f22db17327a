"""Anthropic's types of errors, and what each means to the caller.

From https://platform.claude.com/docs/en/api/errors; the finer codes come in `error.details.error_code`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

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

ERRORS: Final[dict[str, type[ModelError]]] = {
    "authentication_error": ModelAuthenticationError,
    "billing_error": ModelQuotaError,
    "permission_error": ModelPermissionDeniedError,
    "not_found_error": ModelNotFoundError,
    "conflict_error": ModelAPIError,
    "request_too_large": ModelInvalidRequestError,
    "rate_limit_error": ModelRateLimitError,
    "api_error": ModelAPIError,
    "timeout_error": ModelTimeoutError,
    "overloaded_error": ModelOverloadedError,
    # error.details.error_code
    "api_key_scope_missing": ModelPermissionDeniedError,
    "claude_code_key_creator_not_member": ModelPermissionDeniedError,
    "claude_code_version_too_old": ModelInvalidRequestError,
    "cmek_context_unavailable": ModelAPIError,
    "cmek_key_disabled": ModelPermissionDeniedError,
    "cmek_key_network_blocked": ModelPermissionDeniedError,
    "cmek_key_unreachable": ModelAPIError,
    "enforced_spend_limit_reached": ModelQuotaError,
    "organization_on_hold": ModelQuotaError,
    "organization_type_not_supported": ModelPermissionDeniedError,
    "ramp_limit_exceeded": ModelRateLimitError,
    "request_body_encoding_invalid": ModelInvalidRequestError,
    "request_body_encoding_unsupported": ModelInvalidRequestError,
    "request_body_too_large_after_decoding": ModelInvalidRequestError,
    "sandbox_egress_restricted": ModelPermissionDeniedError,
}
"""Type or code -> class. `invalid_request_error` is not listed: it has several statuses and includes overflows."""

QUOTA_MESSAGES: Final = ("credit balance is too low", "usage limits", "spend limit")
"""Texts of an `invalid_request_error` that mean an exhausted account, for which there is no code."""


def read_error(body: object) -> WireFailure:
    """Return the type, code and message of an error's JSON."""
    failure = read_failure(body)
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    code = details.get("error_code") if isinstance(details, dict) else None
    status = failure.status
    if failure.kind == "invalid_request_error":
        status = status or 400
        if any(words in (failure.message or "").lower() for words in QUOTA_MESSAGES):
            code = code or "enforced_spend_limit_reached"
    return replace(failure, code=str(code) if code else failure.code, status=status)
