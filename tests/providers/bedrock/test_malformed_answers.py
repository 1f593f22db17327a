"""Streams that break, and what else is odd in an answer, over HTTP."""

from __future__ import annotations

import time
from typing import Any

import pytest

from foldline.exceptions import (
    LimitExceededError,
    MalformedStreamError,
    ModelOverloadedError,
    ModelRateLimitError,
    StreamInterruptedError,
    StreamTruncatedError,
)
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.bedrock._wire import STREAM_TYPE
from foldline.transports import SizeLimits
from tests.providers.bedrock.answers import (
    events_of,
    message_of,
    stream_of,
    whole_of,
)
from tests.servers.bedrock import ACCESS_KEY, REGION, SECRET_KEY
from tests.servers.event_stream import error, event, exception, frame
from tests.servers.script import Answer, json_answer

pytestmark = pytest.mark.timing

MODEL = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-v1:0"
KEYS = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
STREAM_PATH = "/model/m/converse-stream"
FRAMES = {"content-type": STREAM_TYPE}


def model_on(server: Any, *answers: Answer, **fields: Any) -> ChatBedrockConverse:
    server.script(STREAM_PATH, *answers)
    settings = {"model": "m", "base_url": server.url, "region_name": REGION, "max_retries": 0}
    return ChatBedrockConverse(**{**settings, **KEYS, **fields})


def stream_answer(body: bytes, **options: Any) -> Answer:
    return Answer(
        [body[i : i + 50] for i in range(0, len(body), 50)],
        headers=FRAMES,
        framing="chunked",
        **options,
    )


def test_a_stream_in_one_piece_or_in_single_bytes(fault_server, call):
    whole_answer = Answer(stream_of("tool-call"), headers=FRAMES)
    body = stream_of("tool-call")
    single = Answer([body[i : i + 1] for i in range(len(body))], headers=FRAMES, framing="chunked")

    for answer in (whole_answer, single):
        events = call.stream_v2(model_on(fault_server, answer), "Hi")
        assert message_of(events).tool_calls[0]["args"] == {"city": "Köln"}


def test_an_exception_in_the_middle_keeps_what_came(fault_server, call):
    body = b"".join(event(*item) for item in events_of("text")[:3]) + exception(
        "throttlingException", "slow down"
    )
    with pytest.raises(ModelRateLimitError, match="slow down") as excinfo:
        call.stream(model_on(fault_server, stream_answer(body)), "Hi")

    assert excinfo.value.partial.text == "Hello there."
    assert excinfo.value.code == "ThrottlingException"
    assert excinfo.value.is_retryable


def test_an_exception_as_first_event_is_tried_again(fault_server, call):
    first = stream_answer(exception("modelStreamErrorException", "again", originalStatusCode=500))
    model = model_on(fault_server, first, stream_answer(stream_of("text")), max_retries=1)
    model.retry_on_error = {"initial": 0.001}

    assert "".join(chunk.text for chunk in call.stream(model, "Hi")) == "Hello there."
    assert fault_server.hits(STREAM_PATH) == 2
    stamps = [request.headers["x-amz-date"] for request in fault_server.requests(STREAM_PATH)]
    assert len(stamps) == 2


def test_an_error_of_the_stream_itself_is_typed(fault_server, call):
    with pytest.raises(ModelOverloadedError, match="not yet"):
        call.stream(
            model_on(fault_server, stream_answer(error("ModelNotReadyException", "not yet"))), "Hi"
        )


def test_an_exception_without_json_keeps_its_text(fault_server, call):
    headers = {":message-type": (7, "exception"), ":exception-type": (7, "internalServerException")}
    with pytest.raises(Exception, match="plain words"):
        call.stream(model_on(fault_server, stream_answer(frame(headers, b"plain words"))), "Hi")


@pytest.mark.parametrize("at", [40, 300, 420])
def test_a_broken_connection_gives_a_prefix(fault_server, call, at):
    with pytest.raises(StreamInterruptedError) as excinfo:
        call.stream(model_on(fault_server, stream_answer(stream_of("text")).cut(at, "rst")), "Hi")

    partial = excinfo.value.partial
    assert partial is None or "Hello there.".startswith(partial.text)


def test_a_stream_that_ends_early_is_truncated(fault_server, call):
    frames = [event(*item) for item in events_of("text")]
    for body in (b"".join(frames[:3]), b"".join(frames[:3]) + frames[3][:20]):
        with pytest.raises(StreamTruncatedError) as excinfo:
            call.stream(model_on(fault_server, stream_answer(body)), "Hi")
        assert excinfo.value.partial.text == "Hello there."


def test_a_flipped_byte_is_malformed_after_what_came_before(fault_server, call):
    body = bytearray(stream_of("text"))
    body[-30] ^= 1
    with pytest.raises(MalformedStreamError, match="checksum") as excinfo:
        call.stream(model_on(fault_server, stream_answer(bytes(body))), "Hi")

    assert excinfo.value.partial.text == "Hello there."


@pytest.mark.parametrize("body", [b"", b"{}", b"data: x\n\n", b"not a stream at all, but a text"])
def test_what_is_no_event_stream_is_said_so(fault_server, call, body):
    with pytest.raises((MalformedStreamError, StreamTruncatedError)):
        call.stream(model_on(fault_server, Answer(body, headers=FRAMES)), "Hi")


def test_a_payload_that_is_no_json_is_malformed(fault_server, call):
    headers = {":message-type": (7, "event"), ":event-type": (7, "contentBlockDelta")}
    with pytest.raises(MalformedStreamError, match="JSON"):
        call.stream(model_on(fault_server, stream_answer(frame(headers, b"{no"))), "Hi")


def test_a_frame_larger_than_the_limit_is_refused(fault_server, call):
    model = model_on(
        fault_server, stream_answer(stream_of("text")), limits=SizeLimits(sse_event=20)
    )
    with pytest.raises(LimitExceededError):
        call.stream(model, "Hi")


def test_the_last_event_ends_the_answer_though_the_connection_stays_open(fault_server, call):
    left_open = Answer([stream_of("text"), ("stall", None)], headers=FRAMES, framing="chunked")
    start = time.monotonic()

    chunks = call.stream(model_on(fault_server, left_open), "Hi")
    assert "".join(chunk.text for chunk in chunks) == "Hello there."
    assert time.monotonic() - start < 5


def test_an_answer_in_json_to_a_stream_is_read_as_one(fault_server, call):
    chunks = call.stream(model_on(fault_server, json_answer(whole_of("text"))), "Hi")

    assert "".join(chunk.text for chunk in chunks) == "Hello there."
