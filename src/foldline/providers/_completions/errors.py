"""Error codes of chat completions, and the error class of each.

OpenAI's documented codes (https://platform.openai.com/docs/guides/error-codes), which compatible hosts use too, and
some of theirs. The class of an unlisted code depends on the HTTP status.
"""

from __future__ import annotations

from typing import Final

from foldline.exceptions import (
    ContextOverflowError,
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

ERRORS: Final[dict[str, type[ModelError]]] = {
    # keys and permissions
    "invalid_api_key": ModelAuthenticationError,
    "invalid_authentication": ModelAuthenticationError,
    "authentication_error": ModelAuthenticationError,
    "expired_api_key": ModelAuthenticationError,
    "account_deactivated": ModelAuthenticationError,
    "mismatched_organization": ModelAuthenticationError,
    "invalid_organization": ModelAuthenticationError,
    "invalid_project": ModelAuthenticationError,
    "ip_not_authorized": ModelPermissionDeniedError,
    "permission_denied": ModelPermissionDeniedError,
    "permission_error": ModelPermissionDeniedError,
    "insufficient_permissions": ModelPermissionDeniedError,
    "unsupported_country_region_territory": ModelPermissionDeniedError,
    "organization_must_be_verified": ModelPermissionDeniedError,
    "user_not_in_organization": ModelPermissionDeniedError,
    # quotas and rate limits
    "insufficient_quota": ModelQuotaError,
    "billing_hard_limit_reached": ModelQuotaError,
    "billing_not_active": ModelQuotaError,
    "access_terminated": ModelQuotaError,
    "quota_exceeded": ModelQuotaError,
    "rate_limit_exceeded": ModelRateLimitError,
    "rate_limit_error": ModelRateLimitError,
    "rate_limit_reached": ModelRateLimitError,
    "too_many_requests": ModelRateLimitError,
    "requests": ModelRateLimitError,
    "tokens": ModelRateLimitError,
    # the server
    "server_error": ModelAPIError,
    "internal_error": ModelAPIError,
    "internal_server_error": ModelAPIError,
    "api_error": ModelAPIError,
    "service_unavailable": ModelAPIError,
    "timeout": ModelTimeoutError,
    "slow_down": ModelOverloadedError,
    "engine_overloaded": ModelOverloadedError,
    "overloaded_error": ModelOverloadedError,
    "overloaded": ModelOverloadedError,
    "resource_unavailable": ModelOverloadedError,
    # the request
    "context_length_exceeded": ContextOverflowError,
    "string_above_max_length": ModelInvalidRequestError,
    "model_not_found": ModelNotFoundError,
    "deployment_not_found": ModelNotFoundError,
    "DeploymentNotFound": ModelNotFoundError,
    "not_found_error": ModelNotFoundError,
    "file_not_found": ModelNotFoundError,
    "invalid_prompt": ModelInvalidRequestError,
    "invalid_request": ModelInvalidRequestError,
    "invalid_value": ModelInvalidRequestError,
    "invalid_type": ModelInvalidRequestError,
    "missing_required_parameter": ModelInvalidRequestError,
    "unknown_parameter": ModelInvalidRequestError,
    "unsupported_parameter": ModelInvalidRequestError,
    "unsupported_value": ModelInvalidRequestError,
    "invalid_function_parameters": ModelInvalidRequestError,
    "invalid_json_schema": ModelInvalidRequestError,
    "integer_above_max_value": ModelInvalidRequestError,
    "integer_below_min_value": ModelInvalidRequestError,
    "decimal_above_max_value": ModelInvalidRequestError,
    "decimal_below_min_value": ModelInvalidRequestError,
    "array_above_max_length": ModelInvalidRequestError,
    "content_policy_violation": ModelInvalidRequestError,
    "content_filter": ModelInvalidRequestError,
    # hosts
    "insufficient_balance": ModelQuotaError,
    "insufficient_balance_error": ModelQuotaError,
    "exceeded_current_quota_error": ModelQuotaError,
    "rate_limit_reached_error": ModelRateLimitError,
    "engine_overloaded_error": ModelOverloadedError,
    "capacity_exceeded": ModelOverloadedError,
    "model_overloaded": ModelOverloadedError,
    "exceed_context_size_error": ContextOverflowError,
    "context_window_exceeded": ContextOverflowError,
    "model_decommissioned": ModelNotFoundError,
    "resource_not_found_error": ModelNotFoundError,
    "incorrect_api_key_error": ModelAuthenticationError,
    "invalid_authentication_error": ModelAuthenticationError,
    "permission_denied_error": ModelPermissionDeniedError,
    "tool_use_failed": ModelInvalidRequestError,
    "json_validate_failed": ModelInvalidRequestError,
}
"""Code or type -> class. `invalid_request_error` is not listed: it has several statuses, which are more specific."""
