"""The scripted model answers as its script says, sync and async."""

from __future__ import annotations

import asyncio
import time

import pytest

from foldline.exceptions import ModelError, ModelRateLimitError, StreamInterruptedError, UsageError
from foldline.messages import AIMessage, AIMessageChunk
from foldline.testing import Call, Fail, FakeChatModel, Finish, Reason, ScriptedChatModel, Stall
from tests.language_models.reading import answer, read, start, text_events

pytestmark = pytest.mark.timing


def test_texts_messages_and_steps(call):
    model = ScriptedChatModel(
        script=[
            "Hello there!",
            AIMessage("whole", id="m"),
            [Reason("hm", {"signature": "s"}), "ok", Finish("length", metadata={"k": 1})],
        ]
    )

    assert read(call, model, "texts").value == ["Hello", " there!"]
    assert call.invoke(model, "x").id == "m"
    message = answer(call, model)
    assert message.content[0]["extras"] == {"signature": "s"}
    assert (message.finish_reason, message.response_metadata["k"]) == ("length", 1)


def test_calls_come_in_slices_and_end_with_tool_use(call):
    model = ScriptedChatModel(script=[[Call("f", {"a": "long enough"}, slice_size=4), Call("g")]])

    message = answer(call, model)

    assert [call["name"] for call in message.tool_calls] == ["f", "g"]
    assert len({call["id"] for call in message.tool_calls}) == 2
    assert message.finish_reason == "tool_use"


def test_raw_events_and_chunks_pass_as_they_are(call):
    model = ScriptedChatModel(
        script=[
            [start(), *text_events("a"), {"event": "message-finish"}],
            [AIMessageChunk(content="b"), "c"],
        ]
    )

    assert answer(call, model).text == "a"
    assert answer(call, model).text == "bc"


def test_errors_come_at_once_in_the_middle_or_at_an_event(call):
    slow = ModelRateLimitError("slow")
    assert (
        read(call, ScriptedChatModel(script=[slow], retry_on_error=False), "output").error is slow
    )
    reading = read(
        call, ScriptedChatModel(script=[["a", Fail(ModelRateLimitError("slow"))]]), "output"
    )
    assert reading.error.partial.text == "a"
    model = ScriptedChatModel(script=["one two three"], fail_at=4)
    reading = read(call, model, "output")
    assert isinstance(reading.error, StreamInterruptedError)
    assert (reading.error.partial.text, model.interrupted) == ("one two", 1)


def test_a_turn_may_be_one_step(call):
    model = ScriptedChatModel(script=[Call("add", {"a": 1}), Fail(ModelError("down"))])

    assert call.invoke(model, "1 + ?").tool_calls[0]["args"] == {"a": 1}
    with pytest.raises(ModelError, match="down"):
        call.invoke(model, "again")


def test_a_turn_of_an_unknown_type_is_refused_with_what_to_write(call):
    with pytest.raises(UsageError, match="a turn of type int: write a text, a message"):
        call.invoke(ScriptedChatModel(script=[3]), "hi")


def test_a_stall_waits(call):
    start = time.monotonic()

    assert call.invoke(ScriptedChatModel(script=[["a", Stall(0.05), "b"]]), "x").text == "ab"
    assert time.monotonic() - start >= 0.05


def test_a_stall_can_be_cancelled():
    async def body() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ScriptedChatModel(script=[[Stall()]]).ainvoke("x"), 0.01)

    asyncio.run(body())


def test_a_script_may_be_a_function_of_the_request(call):
    model = ScriptedChatModel(script=lambda request: request.messages[-1].text.upper())

    assert call.invoke(model, "hi").text == "HI"
    assert [request.messages[0].text for request in model.requests] == ["hi"]


def test_a_script_that_is_over_says_so_or_begins_again(call):
    finite, cyclic = ScriptedChatModel(script=["a"]), FakeChatModel(script=["a"], is_cyclic=True)

    call.invoke(finite, "x")
    with pytest.raises(UsageError, match="this is request 2"):
        call.invoke(finite, "x")
    assert [call.invoke(cyclic, "x").text for _ in range(3)] == ["a"] * 3
