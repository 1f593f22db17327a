"""F-Y04: responses of OpenAI that end as completed although their status says otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.exceptions import ModelError
from tests.providers.openai.test_malformed_responses import (
    PATH,
    decoder,
    model,
    response,
    text_item,
)
from tests.servers import FaultServer, json_answer, sse_answer


def completed_with(**fields: Any) -> list[Any]:
    """The events of a stream whose end says `response.completed`, whatever its status."""
    reader = decoder()
    start = {"type": "response.created", "response": response(status="in_progress")}
    end = {"type": "response.completed", "response": response(text_item("half"), **fields)}
    return [event for item in (start, end) for event in reader.feed(item)]


def test_F_Y04_a_completed_response_that_failed_is_an_error():
    with pytest.raises(ModelError):
        completed_with(status="failed", error={"code": "server_error", "message": "broke"})


@pytest.mark.parametrize(
    ("reason", "expected"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_F_Y04_a_completed_response_that_is_incomplete_says_why(reason, expected):
    events = completed_with(status="incomplete", incomplete_details={"reason": reason})
    assert events[-1]["finish_reason"] == expected


@pytest.mark.parametrize("status", ["failed", "cancelled"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_F_Y04_the_error_of_a_failed_response_keeps_its_output(
    call, fault_server: FaultServer, status, is_streamed
):
    failed = response(text_item("half"), status=status)
    item_done = {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": failed["output"][0],
    }
    events = [item_done, {"type": "response.completed", "response": failed}]
    fault_server.script(PATH, sse_answer(events) if is_streamed else json_answer(failed))
    with pytest.raises(ModelError) as excinfo:
        call.invoke(model(fault_server), "x")
    assert excinfo.value.partial.text == "half"


def test_F_Y04_an_incomplete_response_is_not_cached(call, fault_server: FaultServer):
    details = {"reason": "max_output_tokens"}
    incomplete = response(text_item("half"), status="incomplete", incomplete_details=details)
    end = {"type": "response.completed", "response": incomplete}
    fault_server.script(PATH, sse_answer([end]), json_answer(response(text_item("all of it"))))
    chat = model(fault_server, cache=InMemoryCache())
    assert "".join(chunk.text for chunk in call.stream(chat, "x")) == "half"
    assert call.invoke(chat, "x").text == "all of it"
