"""Every documented error has its class."""

from __future__ import annotations

import json

import pytest

from foldline import exceptions as e
from foldline.providers.anthropic import ChatAnthropic
from tests.servers.script import Answer, json_answer

DOCUMENTED = [
    (
        400,
        "invalid_request_error",
        "messages: at least one message is required",
        e.ModelInvalidRequestError,
    ),
    (
        400,
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000 maximum",
        e.ContextOverflowError,
    ),
    (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the API",
        e.ModelQuotaError,
    ),
    (
        400,
        "invalid_request_error",
        "You have reached your specified API usage limits.",
        e.ModelQuotaError,
    ),
    (401, "authentication_error", "invalid x-api-key", e.ModelAuthenticationError),
    (402, "billing_error", "payment", e.ModelQuotaError),
    (403, "permission_error", "not yours", e.ModelPermissionDeniedError),
    (404, "not_found_error", "model: nosuch", e.ModelNotFoundError),
    (409, "conflict_error", "again", e.ModelAPIError),
    (413, "request_too_large", "32 MB", e.ModelInvalidRequestError),
    (429, "rate_limit_error", "slow down", e.ModelRateLimitError),
    (500, "api_error", "oops", e.ModelAPIError),
    (504, "timeout_error", "late", e.ModelTimeoutError),
    (529, "overloaded_error", "Overloaded", e.ModelOverloadedError),
]
CODES = [
    (400, "claude_code_key_creator_not_member", e.ModelPermissionDeniedError),
    (400, "claude_code_version_too_old", e.ModelInvalidRequestError),
    (400, "cmek_key_disabled", e.ModelPermissionDeniedError),
    (400, "cmek_key_network_blocked", e.ModelPermissionDeniedError),
    (503, "cmek_context_unavailable", e.ModelAPIError),
    (503, "cmek_key_unreachable", e.ModelAPIError),
    (429, "enforced_spend_limit_reached", e.ModelQuotaError),
    (429, "ramp_limit_exceeded", e.ModelRateLimitError),
    (400, "organization_on_hold", e.ModelQuotaError),
    (400, "organization_type_not_supported", e.ModelPermissionDeniedError),
    (400, "request_body_encoding_invalid", e.ModelInvalidRequestError),
    (400, "request_body_encoding_unsupported", e.ModelInvalidRequestError),
    (413, "request_body_too_large_after_decoding", e.ModelInvalidRequestError),
    (403, "sandbox_egress_restricted", e.ModelPermissionDeniedError),
    (403, "api_key_scope_missing", e.ModelPermissionDeniedError),
]


def get_error(fault_server, answer: Answer, call) -> e.ModelError:
    url = fault_server.script("/v1/messages", answer).removesuffix("/v1/messages")
    with pytest.raises(e.ModelError) as excinfo:
        call.invoke(ChatAnthropic(base_url=url, api_key="key", max_retries=0), "Hi")
    return excinfo.value


@pytest.mark.parametrize(("status", "kind", "message", "cls"), DOCUMENTED)
def test_every_documented_type_is_mapped(fault_server, call, status, kind, message, cls):
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_body"}
    error = get_error(
        fault_server, json_answer(body, status, headers={"request-id": "req_1"}), call
    )

    assert type(error) is cls
    assert (error.status, error.request_id, error.provider) == (status, "req_1", "anthropic")
    assert message in str(error)
    assert json.loads(error.body) == body


@pytest.mark.parametrize(("status", "code", "cls"), CODES)
def test_every_documented_code_is_mapped(fault_server, call, status, code, cls):
    inner = {"type": "invalid_request_error", "message": "no", "details": {"error_code": code}}
    error = get_error(fault_server, json_answer({"type": "error", "error": inner}, status), call)

    assert (type(error), error.code) == (cls, code)


def test_F_H03_a_page_instead_of_json_is_told_by_its_status(fault_server, call):
    error = get_error(fault_server, Answer(b"<html>Bad gateway</html>", status=502), call)

    assert type(error) is e.ModelAPIError
    assert "Bad gateway" in error.body
