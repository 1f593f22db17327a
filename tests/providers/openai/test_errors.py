"""Every documented code is mapped."""

from __future__ import annotations

import typing

import pytest
from openai.types.responses.response_error import ResponseError

from foldline.exceptions import ModelError, ModelQuotaError
from foldline.providers._wire import WireFailure, error_class
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai._errors import ERRORS

DOCUMENTED = {
    "invalid_api_key": 401,
    "mismatched_organization": 401,
    "ip_not_authorized": 401,
    "unsupported_country_region_territory": 403,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "engine_overloaded": 503,
    "slow_down": 503,
    "model_not_found": 404,
    "context_length_exceeded": 400,
    "invalid_value": 400,
    "missing_required_parameter": 400,
    "unsupported_parameter": 400,
    "unsupported_value": 400,
    "content_policy_violation": 400,
    "previous_response_not_found": 400,
}
"""Codes of the guide to errors, with the status they come with."""


def codes_of_the_package() -> list[str]:
    (literal,) = [ResponseError.model_fields["code"].annotation]
    return [str(code) for code in typing.get_args(literal)]


@pytest.mark.parametrize("code", [*DOCUMENTED, *codes_of_the_package()])
def test_every_documented_code_has_a_class(code: str) -> None:
    assert code in ERRORS
    error = ChatOpenAI(model="m")._stream_error({"error": {"code": code, "message": "no"}})
    assert type(error) is ERRORS[code]
    assert (error.code, str(error)) == (code, "openai:m: no")


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_the_table_holds_errors_of_foldline(code: str) -> None:
    assert issubclass(ERRORS[code], ModelError)


def test_a_type_is_read_where_there_is_no_code() -> None:
    assert error_class(WireFailure(None, "insufficient_quota", "x"), 429, ERRORS) is ModelQuotaError
