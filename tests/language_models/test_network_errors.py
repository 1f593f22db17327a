"""Network errors that authors raise: typed, retried by the policy of the call, their cause kept."""

from __future__ import annotations

import errno
import socket
import ssl
import urllib.error
from email.message import Message
from typing import Any

import aiohttp
import httpx
import pytest
import requests

from foldline.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelError,
    ModelRateLimitError,
    ModelTimeoutError,
    OutputParserException,
    StructuredOutputError,
    UsageError,
)
from foldline.language_models import (
    BaseChatModel,
    ChatModel,
    ChatRequest,
    Policy,
    RetryPolicy,
    SimpleChatModel,
)
from foldline.language_models._call.errors import read_author_error
from foldline.messages import AIMessage, AIMessageChunk
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

AT_ONCE = RetryPolicy(max_retries=3, initial=0.0, jitter=False)
REQUEST = httpx.Request("POST", "https://x.test")


def http_error(status: int, headers: dict[str, str] | None = None) -> urllib.error.HTTPError:
    message_headers = Message()
    for name, value in (headers or {}).items():
        message_headers[name] = value
    return urllib.error.HTTPError("https://x.test", status, "no", message_headers, None)


def httpx_status(status: int) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError("no", request=REQUEST, response=httpx.Response(status))


def requests_status(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError("no", response=response)


CONNECTION = [
    ConnectionError("x"),
    ConnectionResetError("x"),
    BrokenPipeError("x"),
    socket.gaierror(-2, "Name or service not known"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    urllib.error.URLError(ConnectionRefusedError("x")),
    httpx.ConnectError("x"),
    httpx.RemoteProtocolError("x"),
    requests.ConnectionError("x"),
    aiohttp.ClientConnectionError("x"),
    aiohttp.ServerDisconnectedError(),
    ssl.SSLEOFError("x"),
]
TIMEOUTS = [
    TimeoutError("x"),
    urllib.error.URLError(TimeoutError("x")),
    httpx.ReadTimeout("x"),
    httpx.ConnectTimeout("x"),
    requests.Timeout("x"),
    requests.ReadTimeout("x"),
    aiohttp.ServerTimeoutError("x"),
]
OTHERS = [
    ValueError("x"),
    FileNotFoundError("x"),
    PermissionError("x"),
    OSError(errno.ENOSPC, "disk full"),
    httpx.UnsupportedProtocol("x"),
    http_error(400),
    httpx_status(404),
    requests_status(401),
]


def error_id(error: Any) -> str:
    return f"{type(error).__module__}.{type(error).__name__}"


class Writing(ChatModel):
    errors: list[Any]
    calls: int = 0

    def process(self, input, options):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return {"text": "ok"}


class Streaming(Writing):
    def process(self, input, options):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        yield {"text": "o"}
        yield {"text": "k"}


class Awaiting(Writing):
    async def process(self, input, options):
        return Writing.process(self, input, options)


class Generating(BaseChatModel):
    errors: list[Any]
    calls: int = 0
    retry_on_error: Any = AT_ONCE

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("ok"))])


class Chunking(BaseChatModel):
    errors: list[Any]
    calls: int = 0

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        yield ChatGenerationChunk(message=AIMessageChunk("ok"))


class Simple(SimpleChatModel):
    errors: list[Any]
    calls: int = 0

    def _call(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "ok"


KINDS = [Simple, Writing, Streaming, Awaiting, Generating, Chunking]


@pytest.mark.parametrize("error", CONNECTION, ids=error_id)
def test_a_network_error_is_a_connection_error_and_retryable(error):
    model_error = read_author_error(error)

    assert isinstance(model_error, ModelConnectionError)
    assert isinstance(model_error, ConnectionError)
    assert model_error.is_retryable
    assert model_error.__cause__ is error
    assert type(error).__name__ in str(model_error)


@pytest.mark.parametrize("error", TIMEOUTS, ids=error_id)
def test_a_timeout_is_a_timeout_error_and_retryable(error):
    model_error = read_author_error(error)

    assert isinstance(model_error, ModelTimeoutError)
    assert isinstance(model_error, TimeoutError)
    assert model_error.is_retryable
    assert model_error.__cause__ is error


@pytest.mark.parametrize("error", OTHERS, ids=error_id)
def test_what_is_not_the_network_stays_what_it_is(error):
    assert read_author_error(error) is error


@pytest.mark.parametrize("make", [http_error, httpx_status, requests_status])
def test_a_server_that_fails_or_is_busy_is_a_status_error(make):
    assert isinstance(read_author_error(make(503)), ModelAPIError)
    assert isinstance(read_author_error(make(429)), ModelRateLimitError)
    assert read_author_error(make(503)).status == 503


def test_a_server_says_how_long_to_wait():
    assert read_author_error(http_error(429, {"Retry-After": "7"})).retry_after == 7.0
    assert read_author_error(http_error(429, {"Retry-After": "soon"})).retry_after is None


def test_a_certificate_that_is_refused_is_not_tried_again():
    certificate_error = ssl.SSLCertVerificationError("self-signed")

    assert not read_author_error(certificate_error).is_retryable
    assert not read_author_error(urllib.error.URLError(certificate_error)).is_retryable


@pytest.mark.parametrize("kind", KINDS)
def test_network_errors_are_retried_wherever_an_author_raises_them(call, kind):
    errors = [ConnectionResetError("x"), TimeoutError(), urllib.error.URLError("x")]
    model = kind(errors=errors, retry_on_error=AT_ONCE)

    message = call.invoke(model, "x")

    assert (message.text, model.calls) == ("ok", 4)
    assert message.response_metadata["retries"] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_network_errors_are_retried_while_streaming(call, kind):
    model = kind(errors=[ConnectionResetError("x")], retry_on_error=AT_ONCE)

    assert "".join(chunk.text for chunk in call.stream(model, "x")) == "ok"
    assert model.calls == 2


def test_three_retries_are_the_default(call):
    assert Writing(errors=[])._retry_policy.max_retries == 3


@pytest.mark.parametrize("setting", [False, 0])
def test_no_retry_means_one_call_and_a_typed_error(call, setting):
    model = Writing(errors=[ConnectionResetError("reset")] * 5, retry_on_error=setting)

    with pytest.raises(ModelConnectionError, match="reset") as excinfo:
        call.invoke(model, "x")

    assert model.calls == 1
    assert isinstance(excinfo.value.__cause__, ConnectionResetError)
    assert excinfo.value.attempts == 1


def test_code_that_catches_the_builtin_error_still_does(call):
    with pytest.raises(ConnectionError):
        call.invoke(Writing(errors=[ConnectionResetError("x")], retry_on_error=0), "x")
    with pytest.raises(TimeoutError):
        call.invoke(Writing(errors=[TimeoutError("x")], retry_on_error=0), "x")


def test_after_content_was_delivered_the_error_has_the_partial_message(call):
    class Breaking(ChatModel):
        def process(self, input, options):
            yield {"text": "half"}
            raise ConnectionResetError("x")

    with pytest.raises(ModelConnectionError) as excinfo:
        call.stream(Breaking(retry_on_error=AT_ONCE), "x")

    assert excinfo.value.partial.text == "half"


def test_should_retry_decides_about_any_error(call):
    errors: list[Exception] = []

    def only_values(error: Exception) -> bool:
        errors.append(error)
        return isinstance(error, ValueError)

    policy = RetryPolicy(max_retries=2, initial=0.0, should_retry=only_values)
    model = Writing(errors=[ValueError("odd"), ConnectionError("x")], retry_on_error=policy)

    with pytest.raises(ModelConnectionError):
        call.invoke(model, "x")
    assert model.calls == 2
    assert [type(error) for error in errors] == [ValueError, type(errors[1])]


def test_should_retry_without_an_opinion_leaves_the_usual_rule(call):
    policy = RetryPolicy(max_retries=1, initial=0.0, should_retry=lambda error: None)

    assert call.invoke(Writing(errors=[ConnectionError()], retry_on_error=policy), "x").text == "ok"


def test_should_retry_must_decide_at_once():
    async def later(error: Exception) -> bool:
        return True

    with pytest.raises(UsageError, match="`def`, not `async def`"):
        RetryPolicy(should_retry=later)


def test_aignes_retry_object_is_read_in_milliseconds_and_either_spelling():
    options = {
        "retries": 5, "minTimeout": 500, "maxTimeout": 8000, "factor": 3, "randomize": False,
        "shouldRetry": bool,
    }  # fmt: skip
    expected = RetryPolicy(
        max_retries=5, initial=0.5, max_delay=8.0, factor=3, jitter=False, should_retry=bool
    )

    assert RetryPolicy.of(options) == expected
    assert RetryPolicy.of({"min_timeout": 500, "max_timeout": 8000}).max_delay == 8.0


def test_an_error_of_a_guard_is_no_error_of_the_network(call):
    def unreachable(message: AIMessage) -> bool:
        raise ConnectionResetError("the guard's own service")

    model = Writing(errors=[], guards=[unreachable], retry_on_error=AT_ONCE)

    with pytest.raises(ConnectionResetError):
        call.invoke(model, "x")
    assert model.calls == 1


def test_an_error_of_a_guard_about_a_further_answer_is_no_error_of_the_network(call):
    class TwoAnswers(Policy):
        """Adds a further answer, as a provider does for `n=2`."""

        async def before(self, request: ChatRequest) -> ChatRequest:
            request.others.append(AIMessage("further"))
            return request

    def unreachable(message: AIMessage) -> bool:
        if message.text == "further":
            raise ConnectionResetError("the guard's own service")
        return True

    model = Writing(errors=[], guards=[unreachable], retry_on_error=AT_ONCE)

    with pytest.raises(ConnectionResetError) as caught:
        call.invoke(model, "x", policies=[TwoAnswers])
    assert not isinstance(caught.value, ModelError)
    assert model.calls == 1


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
WANTED = {"type": "json_schema", "jsonSchema": {"name": "A", "schema": SCHEMA}}


class WrongJson(ChatModel):
    calls: int = 0

    def process(self, input, options):
        self.calls += 1
        return {"text": "no"}


@pytest.mark.parametrize(("setting", "calls"), [(True, 4), (False, 1), (0, 1), (1, 2), (5, 6)])
def test_one_setting_governs_structured_output_too(call, setting, calls):
    model = WrongJson(retry_on_error=setting)

    with pytest.raises(StructuredOutputError):
        call.run(model, "run", {"messages": "x", "responseFormat": WANTED})

    assert model.calls == calls


def test_the_setting_of_the_call_wins(call):
    model = WrongJson()

    with pytest.raises(StructuredOutputError):
        call.run(model, "run", {"messages": "x", "responseFormat": WANTED}, retry_on_error=1)

    assert model.calls == 2


def test_failed_requests_and_wrong_json_are_one_budget(call):
    class FlakyModel(ChatModel):
        calls: int = 0

        def process(self, input, options):
            self.calls += 1
            if self.calls <= 2:
                raise ConnectionResetError("x")
            return {"text": "no"}

    model = FlakyModel(retry_on_error=AT_ONCE)

    with pytest.raises(StructuredOutputError):
        call.run(model, "run", {"messages": "x", "responseFormat": WANTED})
    assert model.calls == 4


def test_should_retry_may_refuse_to_ask_again_for_json(call):
    model = WrongJson(retry_on_error={"retries": 3, "shouldRetry": lambda error: False})

    with pytest.raises(StructuredOutputError):
        call.run(model, "run", {"messages": "x", "responseFormat": WANTED})
    assert model.calls == 1


def test_with_structured_output_asks_once_unless_told_otherwise(call):
    model = WrongJson()

    with pytest.raises(StructuredOutputError):
        call.invoke(model.with_structured_output(SCHEMA, method="json_schema"), "x")
    assert model.calls == 1

    runnable = model.with_structured_output(SCHEMA, method="json_schema", max_retries=2)
    with pytest.raises(StructuredOutputError):
        call.invoke(runnable, "x")
    assert model.calls == 4


def test_an_answer_that_does_not_fit_is_an_output_parser_exception(call):
    with pytest.raises(OutputParserException) as excinfo:
        call.invoke(WrongJson().with_structured_output(SCHEMA, method="json_schema"), "x")

    assert isinstance(excinfo.value, ModelError)
    assert excinfo.value.llm_output == "no"
