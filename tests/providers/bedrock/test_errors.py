"""Every documented exception has its class, as an answer and inside a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.loaders import Loader

from foldline import exceptions as e
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.bedrock.errors import ERRORS, STATUSES, read_error
from tests.servers.event_stream import exception
from tests.servers.script import Answer, json_answer

DOCUMENTED = [
    ("AccessDeniedException", 403, "not yours", e.ModelPermissionDeniedError),
    ("ValidationException", 400, "messages: required", e.ModelInvalidRequestError),
    ("ValidationException", 400, "Input is too long for requested model.", e.ContextOverflowError),
    ("ValidationException", 400, "The model returned: prompt is too long: 210000 tokens", e.ContextOverflowError),
    ("ValidationException", 400, "Number of input tokens exceeds maximum length", e.ContextOverflowError),
    ("ValidationException", 400, "This model's maximum context length is 8192 tokens", e.ContextOverflowError),
    ("ThrottlingException", 429, "Too many requests, please wait", e.ModelRateLimitError),
    ("ThrottlingException", 429, "Too many tokens per day, please wait", e.ModelQuotaError),
    ("ModelTimeoutException", 408, "late", e.ModelTimeoutError),
    ("ModelNotReadyException", 429, "warming up", e.ModelOverloadedError),
    ("ModelErrorException", 424, "the model failed", e.ModelAPIError),
    ("ModelStreamErrorException", 424, "the stream failed", e.ModelAPIError),
    ("InternalServerException", 500, "oops", e.ModelAPIError),
    ("ServiceUnavailableException", 503, "away", e.ModelAPIError),
    ("ServiceQuotaExceededException", 400, "too much", e.ModelQuotaError),
    ("ResourceNotFoundException", 404, "no such model", e.ModelNotFoundError),
    ("UnrecognizedClientException", 403, "The security token is invalid", e.ModelAuthenticationError),
    ("ExpiredTokenException", 403, "The security token is expired", e.ModelAuthenticationError),
    ("InvalidSignatureException", 403, "does not match", e.ModelAuthenticationError),
]  # fmt: skip
RETRYABLE = {
    "ThrottlingException", "ModelTimeoutException", "ModelNotReadyException", "ModelErrorException",
    "ModelStreamErrorException", "InternalServerException", "ServiceUnavailableException",
}  # fmt: skip


def error_of(fault_server: Any, call: Any, answer: Answer, *, stream: bool = False) -> e.ModelError:
    path = "/model/m/converse-stream" if stream else "/model/m/converse"
    fault_server.script(path, answer)
    model = ChatBedrockConverse(
        model="m", base_url=fault_server.url, region_name="us-east-1", max_retries=0,
        aws_access_key_id="AKIDTEST1234", aws_secret_access_key="secret",
    )  # fmt: skip
    with pytest.raises(e.ModelError) as excinfo:
        (call.stream if stream else call.invoke)(model, "Hi")
    return excinfo.value


@pytest.mark.parametrize(("name", "status", "message", "cls"), DOCUMENTED)
def test_every_documented_exception_has_its_class(fault_server, call, name, status, message, cls):
    headers = {"x-amzn-errortype": f"{name}:http://internal.amazon.com/", "x-amzn-requestid": "r1"}
    error = error_of(fault_server, call, json_answer({"message": message}, status, headers=headers))

    assert type(error) is cls
    assert (error.status, error.request_id, error.provider) == (status, "r1", "bedrock_converse")
    assert message in str(error)
    assert json.loads(error.body) == {"message": message}
    assert error.is_retryable is (name in RETRYABLE and cls is not e.ModelQuotaError)


@pytest.mark.parametrize(("name", "status", "message", "cls"), DOCUMENTED)
def test_the_same_inside_a_stream(fault_server, call, name, status, message, cls):
    frame = exception(name[0].lower() + name[1:], message)
    answer = Answer(frame, headers={"content-type": "application/vnd.amazon.eventstream"})
    error = error_of(fault_server, call, answer, stream=True)

    assert type(error) is cls
    assert message in str(error)
    assert error.status == STATUSES.get(name)


def test_every_exception_of_the_api_is_known():
    api = Loader().load_service_model("bedrock-runtime", "service-2")
    names = {
        error["shape"]
        for operation in ("Converse", "ConverseStream", "InvokeModel", "CountTokens")
        for error in api["operations"][operation]["errors"]
    }
    statuses = {name: api["shapes"][name]["error"]["httpStatusCode"] for name in names}

    assert names - {"ValidationException"} <= ERRORS.keys()
    assert {name: STATUSES[name] for name in names} == statuses


def test_the_type_is_found_in_the_body_too(fault_server, call):
    body = {"__type": "com.amazon.coral.service#ThrottlingException", "Message": "slow"}
    error = error_of(fault_server, call, json_answer(body, 400))

    assert type(error) is e.ModelRateLimitError
    assert error.message == "slow"


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[1, 2]", b'"text"'])
def test_an_error_without_a_type_is_told_by_its_status(fault_server, call, body):
    error = error_of(fault_server, call, Answer(body, status=502))

    assert type(error) is e.ModelAPIError
    assert error.body == body.decode()


def test_an_unknown_exception_inside_a_stream_is_the_providers_failure(fault_server, call):
    answer = Answer(
        exception("novelException", "?"),
        headers={"content-type": "application/vnd.amazon.eventstream"},
    )
    error = error_of(fault_server, call, answer, stream=True)

    assert type(error) is e.ModelAPIError
    assert error.code == "NovelException"


def test_how_long_to_wait_is_kept(fault_server, call):
    headers = {"x-amzn-errortype": "ThrottlingException", "retry-after": "3"}
    error = error_of(fault_server, call, json_answer({"message": "slow"}, 429, headers=headers))

    assert error.retry_after == 3.0


def test_an_original_message_counts_where_there_is_no_other():
    assert read_error({"originalMessage": "deep"}, "modelStreamErrorException").message == "deep"
