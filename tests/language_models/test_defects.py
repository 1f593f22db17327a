"""The known defects of the reference implementation (chat-model.md, last section), each as a test."""

from __future__ import annotations

import asyncio
import time

import pytest
from pydantic import BaseModel

from foldline._streams.bounds import RESET
from foldline.exceptions import (
    BudgetExceeded,
    ContextOverflowError,
    ModelRateLimitError,
    OutputRejectedError,
    SecurityError,
    StreamInterruptedError,
)
from foldline.language_models import ChatModel, Limits, ModelHooks, RetryPolicy, usage_scope
from foldline.language_models.structured._output import OutputSchema
from foldline.messages import AIMessage, HumanMessage
from foldline.protocol import assert_valid_event_stream
from foldline.protocol.fold import fold
from tests.language_models.scripted import AT_ONCE, Narrow, Speaking, calls, read, usage


class City(BaseModel):
    name: str


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def test_limits_are_enforced_because_preprocess_is_awaited(call):
    class Checking(ChatModel):
        checked: int = 0

        def preprocess(self, input, options):
            self.checked += 1

        def process(self, input, options):
            return {"text": "hi"}

    model = Checking(max_input_tokens=20)

    call.invoke(model, "short")
    with pytest.raises(ContextOverflowError):
        call.invoke(model, "long " * 100)
    assert model.checked == 2


def test_an_object_as_tool_choice_is_accepted(call):
    model = Speaking(answers=[calls(("f", {}))])

    call.run(
        model,
        "run",
        {
            "messages": "x",
            "tools": [tool("f")],
            "toolChoice": {"type": "function", "function": {"name": "f"}},
        },
    )

    assert model.requests[0].options["tool_choice"] == {
        "type": "function",
        "function": {"name": "f"},
    }


def test_names_in_history_and_tool_choice_are_encoded_and_collisions_kept_apart(call):
    history = [
        HumanMessage("x"),
        AIMessage("", tool_calls=[{"id": "1", "name": "a.b", "args": {}}]),
    ]
    model = Narrow(answers=[calls(("a_b_2", {}), ("a_b", {}))])

    answer = call.invoke(model.bind_tools([tool("a_b"), tool("a.b")], tool_choice="a.b"), history)

    assert model.requests[0].messages[1].tool_calls[0]["name"] == "a_b_2"
    assert model.requests[0].options["tool_choice"]["function"]["name"] == "a_b_2"
    assert [call["name"] for call in answer.tool_calls] == ["a.b", "a_b"]


def test_constructors_keep_the_options_of_the_base():
    hooks = ModelHooks()

    class Provider(ChatModel):
        model: str = "tiny"

        def process(self, input, options):
            return {"text": "hi"}

    provider = Provider(
        name="mine", hooks=hooks, retry_on_error={"retries": 7}, model_options={"a": 1}
    )

    assert (provider.name, provider.hooks, provider.model_options) == ("mine", hooks, {"a": 1})
    assert provider._retry_policy.max_retries == 7


def test_the_usage_of_failed_attempts_and_cache_counts_are_kept(call):
    broken = StreamInterruptedError(
        "cut", partial=AIMessage("", usage_metadata=usage(10, 0, cache_read=4))
    )
    model = Speaking(answers=[broken, AIMessage("hi", usage_metadata=usage(10, 2, cache_read=5))])

    answer = call.invoke(model, "x")

    assert answer.usage_metadata["total_tokens"] == 22
    assert answer.usage_metadata["input_token_details"]["cache_read"] == 9
    assert answer.response_metadata["retries"] == 1


def test_failure_hooks_are_called_once(call):
    errors = []
    hooks = ModelHooks(on_error=lambda request, error: errors.append(error))
    model = Speaking(answers=[ModelRateLimitError("slow")], hooks=hooks)

    with pytest.raises(ModelRateLimitError):
        call.invoke(model, "x")

    assert len(errors) == 1


@pytest.mark.timing
def test_a_timeout_cancels():
    cancellations = []

    class HangingModel(ChatModel):
        async def process(self, input, options):
            try:
                await asyncio.sleep(60)
            finally:
                cancellations.append(True)

    async def body():
        with usage_scope(Limits(timeout=0.05)):
            await HangingModel().ainvoke("x")

    start = time.monotonic()
    with pytest.raises(BudgetExceeded):
        asyncio.run(body())

    assert cancellations == [True]
    assert time.monotonic() - start < 5


def test_a_generator_is_closed_on_break():
    closings = []

    class Long(ChatModel):
        def process(self, input, options):
            try:
                for _ in range(1000):
                    yield {"text": "x"}
            finally:
                closings.append(True)

    stream = Long().stream("x")
    for _ in stream:
        break
    stream.close()

    async def run_async():
        stream = Long().astream("x")
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(run_async())
    assert closings == [True, True]


def test_a_retry_tells_the_model_what_was_wrong(call):
    model = Speaking(answers=['{"nom": 1}', '{"name": "Rome"}'])

    call.invoke(model.with_structured_output(City, method="json_schema", max_retries=2), "x")

    messages = model.requests[1].messages
    assert '{"nom": 1}' in messages[-2].text
    assert "name: Field required" in messages[-1].text


def test_parallel_calls_do_not_overshoot_a_budget(call):
    model = Speaking(answers=[AIMessage("hi", usage_metadata=usage(5, 5))])

    with usage_scope(Limits(model_calls=3, total_tokens=1000)) as scope:
        call.batch(model, ["x"] * 12, return_exceptions=True)

    assert scope.model_calls == 3


def test_references_are_not_ignored():
    schema = OutputSchema(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/N"}},
            "$defs": {"N": {"type": "integer"}},
        }
    )

    assert schema.read({"a": "x"}).issues
    assert schema.read({"a": 1}).value == {"a": 1}


def test_text_beside_tool_calls_is_kept(call):
    output = call.run(
        Speaking(answers=[calls(("f", {}), text="I call f.")]), "run", {"messages": "x"}
    )

    assert output.text.strip() == "I call f."
    assert output.tool_calls


def test_media_types_are_kept(call):
    class Draws(ChatModel):
        def process(self, input, options):
            return {"files": [{"type": "file", "data": "aGk=", "mimeType": "image/webp"}]}

    output = call.run(Draws(), "run", {"messages": "x"})

    assert output.files[0]["mime_type"] == "image/webp"


def test_a_guard_speaks_before_the_text_is_out():
    model = Speaking(answers=["very bad text"], guards=[lambda message: "bad" not in message.text])

    pieces, error = read(model.stream("x"))

    assert isinstance(error, OutputRejectedError)
    assert pieces == []


def test_no_path_and_no_url_of_a_message_is_read(call, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    model = Speaking(answers=["x"], profile={"image_url_inputs": False})

    for block in (
        {"path": str(secret)},
        {"url": secret.as_uri()},
        {"url": "http://169.254.169.254/"},
    ):
        with pytest.raises(SecurityError):
            call.invoke(model, [HumanMessage([{"type": "file", **block}])])
    assert model.requests == []


# -- retries after content was delivered


class BreakingModel(Speaking):
    """Breaks once in the middle of its answer."""

    breaks: int = 1

    async def _events(self, request, run):
        async for event in super()._events(request, run):
            yield event
            if event["event"] == "content-block-delta" and self.breaks:
                self.breaks -= 1
                raise StreamInterruptedError("cut")


def test_after_content_was_delivered_the_error_is_raised_with_the_partial(call):
    model = BreakingModel(answers=["one two"], retry_on_error=AT_ONCE)

    with pytest.raises(StreamInterruptedError) as excinfo:
        call.stream(model, "x")

    assert excinfo.value.partial.text == "one "
    assert len(model.requests) == 1


def test_with_reset_the_consumer_is_told_what_to_drop_and_the_attempt_is_repeated(call):
    policy = RetryPolicy(initial=0.0, jitter=False, on_partial="reset")
    model = BreakingModel(answers=["one two"], retry_on_error=policy)

    events = call.stream_v2(model, "x")

    kinds = [event["event"] for event in events]
    assert kinds.count(RESET) == 1
    assert kinds.count("message-start") == 2
    reset = events[kinds.index(RESET)]
    assert (reset["attempt"], reset["reason"]) == (1, "cut")
    assert_valid_event_stream(events)
    message = fold(events)
    assert message.blocks[0]["text"] == "one two "
    assert message.metadata["retries"] == 1


def test_with_reset_chunks_add_up_to_the_repeated_answer(call):
    policy = RetryPolicy(initial=0.0, jitter=False, on_partial="reset")
    chunks = call.stream(BreakingModel(answers=["one two"], retry_on_error=policy), "x")

    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk

    assert total.text == "one two "
    assert any("reset" in chunk.response_metadata for chunk in chunks)


def test_with_reset_the_text_of_a_stream_is_the_repeated_answer():
    policy = RetryPolicy(initial=0.0, jitter=False, on_partial="reset")
    stream = BreakingModel(answers=["one two"], retry_on_error=policy).stream_v2("x")

    assert str(stream.text) == "one two "
    assert stream.output.text == "one two "
