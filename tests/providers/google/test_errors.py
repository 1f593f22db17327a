"""Every documented error has its class."""

from __future__ import annotations

import pytest

from foldline import exceptions as e
from foldline.providers.google import ChatGoogle
from tests.servers.script import json_answer

DOCUMENTED = [
    (400, "INVALID_ARGUMENT", "Please use a valid role", e.ModelInvalidRequestError),
    (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).",
        e.ContextOverflowError,
    ),
    (400, "FAILED_PRECONDITION", "User location is not supported", e.ModelPermissionDeniedError),
    (400, "OUT_OF_RANGE", "too far", e.ModelInvalidRequestError),
    (401, "UNAUTHENTICATED", "no token", e.ModelAuthenticationError),
    (403, "PERMISSION_DENIED", "not yours", e.ModelPermissionDeniedError),
    (404, "NOT_FOUND", "models/nosuch is not found", e.ModelNotFoundError),
    (409, "ALREADY_EXISTS", "there", e.ModelInvalidRequestError),
    (409, "ABORTED", "conflict", e.ModelAPIError),
    (429, "RESOURCE_EXHAUSTED", "slow down", e.ModelRateLimitError),
    (499, "CANCELLED", "gone", e.ModelAPIError),
    (500, "INTERNAL", "oops", e.ModelAPIError),
    (500, "UNKNOWN", "oops", e.ModelAPIError),
    (500, "DATA_LOSS", "oops", e.ModelAPIError),
    (501, "UNIMPLEMENTED", "not there", e.ModelInvalidRequestError),
    (503, "UNAVAILABLE", "The model is overloaded.", e.ModelOverloadedError),
    (504, "DEADLINE_EXCEEDED", "late", e.ModelTimeoutError),
]
REASONS = [
    (400, "API_KEY_INVALID", e.ModelAuthenticationError),
    (400, "API_KEY_EXPIRED", e.ModelAuthenticationError),
    (401, "ACCESS_TOKEN_EXPIRED", e.ModelAuthenticationError),
    (401, "CREDENTIALS_MISSING", e.ModelAuthenticationError),
    (403, "ACCESS_TOKEN_SCOPE_INSUFFICIENT", e.ModelPermissionDeniedError),
    (403, "API_KEY_SERVICE_BLOCKED", e.ModelPermissionDeniedError),
    (403, "API_KEY_HTTP_REFERRER_BLOCKED", e.ModelPermissionDeniedError),
    (403, "API_KEY_IP_ADDRESS_BLOCKED", e.ModelPermissionDeniedError),
    (403, "BILLING_DISABLED", e.ModelQuotaError),
    (403, "CONSUMER_SUSPENDED", e.ModelPermissionDeniedError),
    (403, "SERVICE_DISABLED", e.ModelPermissionDeniedError),
    (429, "RATE_LIMIT_EXCEEDED", e.ModelRateLimitError),
]
PATH = "/models/gemini-2.5-flash:generateContent"


def get_error(fault_server, call, status, error) -> e.ModelError:
    url = fault_server.script(
        PATH, json_answer({"error": {"code": status, **error}}, status)
    ).removesuffix(PATH)
    with pytest.raises(e.ModelError) as excinfo:
        call.invoke(ChatGoogle(base_url=url, api_key="key", max_retries=0), "Hi")
    return excinfo.value


@pytest.mark.parametrize(("status", "word", "message", "cls"), DOCUMENTED)
def test_every_documented_status_is_mapped(fault_server, call, status, word, message, cls):
    error = get_error(fault_server, call, status, {"status": word, "message": message})

    assert type(error) is cls
    assert (error.status, error.code, error.provider) == (status, word, "google_genai")
    assert message in str(error)


@pytest.mark.parametrize(("status", "reason", "cls"), REASONS)
def test_every_documented_reason_is_mapped(fault_server, call, status, reason, cls):
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    error = get_error(
        fault_server,
        call,
        status,
        {"status": "INVALID_ARGUMENT", "message": "no", "details": details},
    )

    assert (type(error), error.code) == (cls, reason)


def test_F_H01_how_long_to_wait_is_read_from_the_body(fault_server, call):
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "32.5s"}]
    error = get_error(
        fault_server,
        call,
        429,
        {"status": "RESOURCE_EXHAUSTED", "message": "slow", "details": details},
    )

    assert error.retry_after == 32.5


def test_F_H02_a_quota_of_the_day_is_not_waited_for(fault_server, call):
    violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "50"}
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}]
    error = get_error(
        fault_server,
        call,
        429,
        {"status": "RESOURCE_EXHAUSTED", "message": "quota", "details": details},
    )

    assert type(error) is e.ModelQuotaError
    assert not error.is_retryable
