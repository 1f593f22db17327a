"""Behaviour of every provider over HTTP, shown on ChatOpenAI: keys, `explain`, errors, retries, broken streams."""

from __future__ import annotations

import time
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.exceptions import (
    BudgetExceeded,
    ContextOverflowError,
    LimitExceededError,
    MalformedStreamError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelPermissionDeniedError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelTimeoutError,
    SecurityError,
    StreamInterruptedError,
    StreamTruncatedError,
    UsageError,
)
from foldline.language_models import Limits as SpendingLimits, usage_scope
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.messages import HumanMessage
from foldline.providers._wire import WireFailure, read_failure, retry_after
from foldline.providers.openai import ChatOpenAI
from foldline.transports import SizeLimits, Timeouts
from tests.providers import recordings
from tests.servers import Answer, FaultServer, json_answer, sse_answer

pytestmark = pytest.mark.timing

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
ADD = {
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
AT_ONCE = RetryPolicy(max_retries=2, initial=0.001, jitter=False)


def model(server: FaultServer, **fields: Any) -> ChatOpenAI:
    settings = {
        "base_url": f"{server.url}/v1",
        "api_key": "sk-canary",
        "model": "m",
        "retry_on_error": AT_ONCE,
    }
    return ChatOpenAI(**{**settings, **fields})


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "choices": [choice],
    }


HELLO = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo"}),
]
STOP = chunk({}, "stop")
WHOLE = {
    "id": "chatcmpl-1",
    "created": 1,
    "model": "m-1",
    "choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}],
}


def stream_answer(name: str) -> Answer:
    return Answer(
        recordings.stream_bytes("openai", name), headers={"content-type": "text/event-stream"}
    )


# -- a good answer


@pytest.mark.parametrize(
    "name",
    [
        "chat-text",
        "chat-text-and-parallel-tool-calls",
        "responses-web-search",
        "responses-reasoning-summaries",
    ],
)
def test_invoke_and_stream_give_one_message(
    call: Any, fault_server: FaultServer, name: str
) -> None:
    path = CHAT if name.startswith("chat") else RESPONSES
    fault_server.script(
        path, json_answer(recordings.whole_answer("openai", name)), stream_answer(name)
    )
    chat = model(fault_server, use_responses_api=path == RESPONSES)

    answer = call.invoke(chat, "Hi")
    chunks = call.stream(chat, "Hi")
    total = chunks[0]
    for piece in chunks[1:]:
        total = total + piece

    assert (str(total.text), total.tool_calls) == (str(answer.text), answer.tool_calls)
    assert [{**block, "index": 0} for block in total.content_blocks] == [
        {**block, "index": 0} for block in answer.content_blocks
    ]
    assert (total.usage_metadata, total.finish_reason) == (
        answer.usage_metadata,
        answer.finish_reason,
    )
    assert total.response_metadata == answer.response_metadata
    assert [request.json().get("stream", False) for request in fault_server.requests()] == [
        False,
        True,
    ]


def test_streaming_asks_for_a_stream_under_invoke(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, STOP], done="[DONE]"))
    assert call.invoke(model(fault_server, streaming=True), "Hi").text == "Hello"
    assert fault_server.requests()[0].json()["stream"] is True


def test_n_gives_separate_generations_and_is_not_streamed(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, json_answer(recordings.whole_answer("openai", "chat-two-choices")))
    chat = model(fault_server, n=2)

    result = call.generate(chat, [[HumanMessage("Flip")]])
    assert [generation.text for generation in result.generations[0]] == ["Heads.", "Tails."]
    assert call.invoke(chat, "Flip").text == "Heads."
    with pytest.raises(UsageError, match="cannot be streamed"):
        call.stream(chat, "Flip")


def test_n_generations_come_from_the_cache_too(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, json_answer(recordings.whole_answer("openai", "chat-two-choices")))
    chat = model(fault_server, n=2, cache=InMemoryCache())

    first, second = (call.generate(chat, [[HumanMessage("Flip")]]) for _ in range(2))
    assert [generation.text for generation in second.generations[0]] == ["Heads.", "Tails."]
    assert [generation.text for generation in first.generations[0]] == ["Heads.", "Tails."]
    assert len(fault_server.requests()) == 1


def test_explain_shows_what_was_bound_and_what_the_config_says() -> None:
    bound = (
        ChatOpenAI(model="m", api_key="k")
        .bind_tools([ADD], tool_choice="any")
        .bind(temperature=0.5)
    )
    body = bound.explain("Hi", {"configurable": {"model_options": {"top_p": 0.9}}}).body

    assert [tool["function"]["name"] for tool in body["tools"]] == ["add"]
    assert (body["tool_choice"], body["temperature"], body["top_p"]) == ("required", 0.5, 0.9)


def test_headers_of_the_response_on_request(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, json_answer(WHOLE, headers={"x-request-id": "req_7"}))
    answer = call.invoke(model(fault_server, include_response_headers=True), "Hi")
    assert answer.response_metadata["headers"]["x-request-id"] == "req_7"


def test_F_S11_what_comes_after_the_end_is_not_heard(call: Any, fault_server: FaultServer) -> None:
    events = [*HELLO, STOP, b"data: [DONE]\n\n", chunk({"content": "more"}), b"data: not json\n\n"]
    fault_server.script(CHAT, sse_answer(events))
    chat = model(fault_server, streaming=True)

    assert call.invoke(chat, "Hi").text == "Hello"


@pytest.mark.parametrize("after", [[], [b": ping\n\n"] * 200], ids=["silence", "pings"])
def test_F_S11_a_connection_left_open_after_the_end_is_not_waited_for(
    call: Any, fault_server: FaultServer, after: list[bytes]
) -> None:
    body = [*HELLO, STOP, b"data: [DONE]\n\n", *after, ("stall", None)]
    fault_server.script(CHAT, sse_answer(body, pause=0.005))
    start = time.monotonic()

    assert call.invoke(model(fault_server, streaming=True), "Hi").text == "Hello"
    assert time.monotonic() - start < 0.5


def test_F_S11_a_connection_that_ends_with_its_answer_is_used_again(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, STOP], done="[DONE]"))
    chat = model(fault_server, streaming=True)

    answers = call.run(chat, "batch", ["Hi"] * 3, config={"max_concurrency": 1})
    assert [answer.text for answer in answers] == ["Hello"] * 3
    assert len({request.connection for request in fault_server.requests()}) == 1


def test_F_T02_finish_without_done_is_complete(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, STOP]))
    assert call.invoke(model(fault_server, streaming=True), "Hi").status == "complete"


def test_done_without_finish_is_complete(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer(HELLO, done="[DONE]"))
    assert call.invoke(model(fault_server, streaming=True), "Hi").text == "Hello"


def test_F_T10_a_whole_answer_where_a_stream_was_asked_for_is_accepted(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))
    assert "".join(str(c.text) for c in call.stream(model(fault_server), "Hi")) == "Hello"


# -- broken answers


def failure(call: Any, chat: ChatOpenAI, kind: type[Exception]) -> Any:
    with pytest.raises(kind) as excinfo:
        call.stream(chat, "Hi")
    return excinfo.value


def test_F_T10_html_and_empty_answers_are_malformed(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, Answer(b"<html>", headers={"content-type": "text/html"}))
    assert not failure(call, model(fault_server), MalformedStreamError).is_retryable
    assert fault_server.hits(CHAT) == 1

    fault_server.reset()
    fault_server.script(
        CHAT, Answer(b"", headers={"content-type": "text/event-stream"}), sse_answer([*HELLO, STOP])
    )
    assert len(call.stream(model(fault_server), "Hi")) > 2
    assert fault_server.hits(CHAT) == 2


def test_F_T01_a_clean_end_without_a_marker_is_truncated(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, sse_answer(HELLO))
    error = failure(call, model(fault_server), StreamTruncatedError)

    assert (str(error.partial.text), error.partial.status) == ("Hello", "incomplete")
    assert fault_server.hits(CHAT) == 1  # content was delivered: never again


def test_F_T01_is_tried_again_where_nothing_was_delivered(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, sse_answer(HELLO[:1]), sse_answer([*HELLO, STOP]))
    assert "".join(str(c.text) for c in call.stream(model(fault_server), "Hi")) == "Hello"
    assert fault_server.hits(CHAT) == 2


def test_a_cut_connection_keeps_the_prefix(call: Any, fault_server: FaultServer) -> None:
    answer = sse_answer([*HELLO, STOP], done="[DONE]")
    size = sum(len(step[1]) for step in answer.steps())
    for at in range(size // 2, size - 20, 97):
        fault_server.reset()
        fault_server.script(CHAT, answer.cut(at, "fin"))
        error = failure(call, model(fault_server, retry_on_error=False), StreamInterruptedError)
        assert "Hello".startswith(str(error.partial.text))


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"error": {"message": "busy", "type": "server_error", "code": None}}, ModelAPIError),
        ({"error": {"message": "full", "code": "engine_overloaded"}}, ModelOverloadedError),
        ({"error": {"message": "slow", "code": 429}}, ModelRateLimitError),
        ({"error": "it broke"}, ModelAPIError),
        (("error", {"message": "odd", "code": "insufficient_quota"}), ModelQuotaError),
        (
            ("error", {"error": {"message": "odd", "code": "invalid_api_key"}}),
            ModelAuthenticationError,
        ),
    ],
)
def test_F_T04_an_error_in_mid_stream_is_typed_and_keeps_the_partial(
    call: Any, fault_server: FaultServer, event: Any, kind: type[Exception]
) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, event], headers={"x-request-id": "req_1"}))
    error = failure(call, model(fault_server), kind)

    assert str(error.partial.text) == "Hello"
    assert error.request_id == "req_1"
    assert fault_server.hits(CHAT) == 1


def test_F_T05_an_error_as_first_event_is_tried_again(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(
        CHAT,
        sse_answer([{"error": {"message": "busy", "type": "server_error"}}]),
        sse_answer([*HELLO, STOP]),
    )
    assert "".join(str(c.text) for c in call.stream(model(fault_server), "Hi")) == "Hello"
    assert fault_server.hits(CHAT) == 2


def test_F_T06_a_failed_response_is_typed(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(RESPONSES, stream_answer("responses-failed"))
    error = failure(call, model(fault_server, use_responses_api=True), ModelAPIError)
    assert (error.code, str(error.partial.text)) == ("server_error", "In a")

    fault_server.script(RESPONSES, stream_answer("responses-error"))
    error = failure(call, model(fault_server, use_responses_api=True), ModelRateLimitError)
    assert (error.message, str(error.partial.text)) == ("Slow down.", "In a")


@pytest.mark.parametrize(
    "bad",
    [
        b"data: {not json}\n\n",
        b"data: [1]\n\n",
        b'data: {"choices": [{"delta": {"content": 3}}]}\n\n',
        b'data: {"choices": 7}\n\n',
        b"data: " + b"[" * 3000 + b"]" * 3000 + b"\n\n",
    ],
)
def test_F_S10_what_is_not_the_wire_is_malformed(
    call: Any, fault_server: FaultServer, bad: bytes
) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, bad]))
    error = failure(call, model(fault_server), MalformedStreamError)
    assert str(error.partial.text) == "Hello"


def test_F_S07_invalid_utf8_is_malformed(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, b'data: {"x": "\xff"}\n\n']))
    assert str(failure(call, model(fault_server), MalformedStreamError).partial.text) == "Hello"


def test_F_S09_a_line_without_end_is_stopped(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, b"data: " + b"x" * 5000]))
    failure(call, model(fault_server, limits=SizeLimits(sse_line=1000)), LimitExceededError)


def test_F_T07_a_stall_runs_out_of_time(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, ("stall", None)]))
    error = failure(call, model(fault_server, timeout=Timeouts(idle=0.2)), ModelTimeoutError)
    assert (error.phase, str(error.partial.text)) == ("idle", "Hello")


def test_F_T08_pings_do_not_keep_a_stall_alive(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, ("repeat", (100, 0.05, b": ping\n\n"))]))
    assert (
        failure(call, model(fault_server, timeout=Timeouts(idle=0.3)), ModelTimeoutError).phase
        == "idle"
    )


# -- statuses


def error_body(code: str | None, kind: str | None = None, message: str = "no") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code, "param": None}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, error_body(None, "invalid_request_error"), ModelInvalidRequestError),
        (400, error_body("context_length_exceeded"), ContextOverflowError),
        (
            400,
            error_body(None, None, "This model's maximum context length is 8192 tokens."),
            ContextOverflowError,
        ),
        (401, error_body("invalid_api_key"), ModelAuthenticationError),
        (402, error_body(None, None, "Insufficient Balance"), ModelQuotaError),
        (403, error_body("unsupported_country_region_territory"), ModelPermissionDeniedError),
        (404, error_body("model_not_found"), ModelNotFoundError),
        (413, "too large", ModelInvalidRequestError),
        (422, {"detail": [{"msg": "bad"}]}, ModelInvalidRequestError),
        (429, error_body("insufficient_quota"), ModelQuotaError),
    ],
)
def test_F_H02_F_H04_are_asked_once(
    call: Any, fault_server: FaultServer, status: int, body: Any, kind: type[Exception]
) -> None:
    fault_server.script(CHAT, json_answer(body, status=status, headers={"x-request-id": "req_9"}))
    with pytest.raises(kind) as excinfo:
        call.invoke(model(fault_server), "Hi")

    error: Any = excinfo.value
    assert type(error) is kind
    assert (error.status, error.request_id, error.provider, error.model) == (
        status,
        "req_9",
        "openai",
        "m",
    )
    assert error.body
    assert str(error).startswith("openai:m: ")
    assert fault_server.hits(CHAT) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, ModelRateLimitError),
        (500, ModelAPIError),
        (502, ModelAPIError),
        (503, ModelAPIError),
        (504, ModelAPIError),
        (529, ModelOverloadedError),
    ],
)
def test_F_H03_are_tried_again_within_the_budget(
    call: Any, fault_server: FaultServer, status: int, kind: type[Exception]
) -> None:
    fault_server.script(CHAT, Answer(b"<html>bad gateway</html>", status=status))
    with pytest.raises(kind) as excinfo:
        call.invoke(model(fault_server), "Hi")
    assert fault_server.hits(CHAT) == 3
    assert excinfo.value.attempts == 3  # type: ignore[attr-defined]

    fault_server.reset()
    fault_server.script(CHAT, Answer(status=status), json_answer(WHOLE))
    answer = call.invoke(model(fault_server), "Hi")
    assert (answer.text, answer.response_metadata["retries"]) == ("Hello", 1)


def test_max_retries_is_the_number_of_retries(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, Answer(status=500, headers={"retry-after-ms": "1"}))
    with pytest.raises(ModelAPIError):
        call.invoke(model(fault_server, max_retries=1), "Hi")
    assert fault_server.hits(CHAT) == 2


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0.0),
        ({}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_F_H01_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_F_H01_a_long_retry_after_is_raised_with_its_value(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, Answer(status=429, headers={"retry-after": "3600"}))
    with pytest.raises(ModelRateLimitError) as excinfo:
        call.invoke(model(fault_server), "Hi")
    assert excinfo.value.retry_after == 3600
    assert fault_server.hits(CHAT) == 1


def test_F_H08_redirects_are_not_followed(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(
        CHAT, Answer(status=307, headers={"location": f"{fault_server.other_url}/steal"})
    )
    with pytest.raises(SecurityError):
        call.invoke(model(fault_server), "Hi")
    assert fault_server.hits("/steal") == 0


def test_F_H10_a_key_with_a_line_break_is_refused(call: Any, fault_server: FaultServer) -> None:
    with pytest.raises(SecurityError, match="line break"):
        call.invoke(model(fault_server, api_key="sk\nX-Evil: 1"), "Hi")
    assert fault_server.hits() == 0


# -- connections


def test_F_C01_a_stream_that_is_left_frees_its_connection(
    call: Any, fault_server: FaultServer, no_leaks: Any
) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, ("stall", None)]))
    chat = model(fault_server)
    if not call.is_async:
        stream = chat.stream("Hi")
        next(stream)
        stream.close()
    else:
        import asyncio

        async def body() -> None:
            stream = chat.astream("Hi")
            await anext(stream)
            await stream.aclose()

        asyncio.run(body())
    assert fault_server.wait_for_open(0) == 0


def test_a_connection_is_used_again_after_a_stream(fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, STOP], done="[DONE]"))
    chat = model(fault_server)
    for _ in range(3):
        list(chat.stream("Hi"))
    assert len({request.connection for request in fault_server.requests()}) == 1


def test_what_was_recorded_is_answered_without_a_server(
    call: Any, fault_server: FaultServer, tmp_path: Any
) -> None:
    from foldline.testing.replay import RecordingTransport, ReplayTransport
    from foldline.transports import default_transport

    fault_server.script(CHAT, sse_answer([*HELLO, STOP], done="[DONE]"))
    path = tmp_path / "hello.jsonl"
    first = call.stream(
        model(fault_server, transport=RecordingTransport(default_transport(), path)), "Hi"
    )
    replayed = call.stream(model(fault_server, transport=ReplayTransport(path)), "Hi")

    assert [str(c.text) for c in first] == [str(c.text) for c in replayed]
    assert fault_server.hits(CHAT) == 1
    assert "sk-canary" not in path.read_text()


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ({"error": {"code": "c", "type": "t", "message": "m"}}, WireFailure("c", "t", "m")),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
            WireFailure(None, "overloaded_error", "m"),
        ),
        (
            [{"error": {"code": 503, "status": "UNAVAILABLE", "message": "m"}}],
            WireFailure("503", "UNAVAILABLE", "m", 503),
        ),
        ({"error": "text"}, WireFailure(message="text")),
        (
            {"message": "m", "type": "invalid_request_error", "object": "error"},
            WireFailure(None, "invalid_request_error", "m"),
        ),
        ({"detail": "not here"}, WireFailure(message="not here")),
        ([], WireFailure()),
        (3, WireFailure()),
    ],
)
def test_errors_of_every_shape_are_read(body: Any, failure: WireFailure) -> None:
    assert read_failure(body) == failure


def test_what_broken_calls_spent_counts_against_the_budget(
    call: Any, fault_server: FaultServer
) -> None:
    """E2: the last event of a truncated answer may be its usage."""
    usage = {"prompt_tokens": 500, "completion_tokens": 1, "total_tokens": 501}
    fault_server.script(CHAT, sse_answer([{**HELLO[1], "usage": usage}]))
    chat = model(fault_server)

    with usage_scope(SpendingLimits(total_tokens=600)) as spending:
        for total in (501, 1002):
            with pytest.raises(StreamTruncatedError) as excinfo:
                call.stream(chat, "Hi")
            assert excinfo.value.partial.usage_metadata["total_tokens"] == 501
            assert spending.total_tokens == total
        with pytest.raises(BudgetExceeded):
            call.invoke(chat, "Hi")


def test_what_a_reader_heard_before_leaving_counts(fault_server: FaultServer) -> None:
    usage = {"prompt_tokens": 500, "completion_tokens": 1, "total_tokens": 501}
    fault_server.script(CHAT, sse_answer([{**HELLO[1], "usage": usage}, *HELLO, STOP]))

    with usage_scope() as spending:
        with model(fault_server).stream_v2("Hi") as stream:
            next(iter(stream))
        assert spending.total_tokens == 501
