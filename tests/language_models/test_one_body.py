"""Defects that a review found in the shared body of a call: batches of every shape, interrupted ends, fallbacks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.exceptions import (
    MalformedStreamError,
    ModelError,
    OutputRejectedError,
    StreamTruncatedError,
)
from foldline.language_models import BaseChatModel, FakeListChatModel
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import RunnableLambda
from foldline.tracers._streaming import V2StreamingHandler

START = {"event": "message-start", "role": "ai", "id": "m1"}
FINISH = {"event": "message-finish"}
UNKNOWN = {"event": "x-custom"}


def text(content: str, index: int = 0) -> list[Any]:
    block = {"type": "text", "text": content}
    delta = {"type": "text-delta", "text": content}
    return [
        {"event": "content-block-start", "index": index, "content": {"type": "text", "text": ""}},
        {"event": "content-block-delta", "index": index, "delta": delta},
        {"event": "content-block-finish", "index": index, "content": block},
    ]


HELLO = [START, *text("hello"), FINISH]


class Native(BaseChatModel):
    """Yields the items of the next script, events or lists; raises exceptions."""

    scripts: list[list[Any]]
    tries: list[int]

    async def _events(self, request, run):
        self.tries.append(1)
        for item in self.scripts[min(len(self.tries), len(self.scripts)) - 1]:
            if isinstance(item, Exception):
                raise item
            yield item


class GenerateOnly(BaseChatModel):
    answers: list[AIMessage]

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self.answers[0])])


def native(*scripts: list[Any], **settings: Any) -> Native:
    return Native(scripts=list(scripts), tries=[], **settings)


class Watching(BaseCallbackHandler, V2StreamingHandler):
    raise_error = True

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_stream_event(self, event: Any, **kwargs: Any) -> None:
        self.events.append(event["event"])


def test_a_listener_to_events_does_not_change_the_chunks(call):
    chunks = call.stream(FakeListChatModel(responses=["ab"]), "x", {"callbacks": [Watching()]})
    assert [chunk.content for chunk in chunks] == ["a", "b"]


@pytest.mark.parametrize("mode", ["buffer", "post"])
def test_T08_an_unknown_event_behind_the_finish_hides_nothing_from_guards(call, mode):
    def model() -> Native:
        return native([[*HELLO, UNKNOWN]], guards=[lambda message: "no"], guard_mode=mode)

    with pytest.raises(OutputRejectedError):
        call.invoke(model(), "x")
    with pytest.raises(OutputRejectedError):
        call.stream(model(), "x")


def test_an_event_behind_the_finish_is_an_error_before_the_finish_goes_out(call):
    watching = Watching()
    with pytest.raises(MalformedStreamError):
        call.stream(native([[*HELLO, *text("more", 1)]]), "x", {"callbacks": [watching]})
    assert "message-finish" not in watching.events


def test_what_a_caller_changes_in_a_message_stays_in_that_message(call):
    finish = {**FINISH, "metadata": {"deep": {"a": 1}}, "additional_kwargs": {"q": {}}}
    model = native([START, *text("hi"), finish])
    first = call.invoke(model, "x")
    first.response_metadata["deep"]["a"] = 99
    first.additional_kwargs["q"]["z"] = 1

    second = call.invoke(model, "x")
    assert second.response_metadata["deep"] == {"a": 1}
    assert second.additional_kwargs == {"q": {}}


class Interrupting(BaseCallbackHandler):
    raise_error = True

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_end_costs_no_event_of_an_answer_that_came_whole():
    stream = GenerateOnly(answers=[AIMessage("hello")]).stream_v2(
        "x", {"callbacks": [Interrupting()]}
    )
    with pytest.raises(KeyboardInterrupt):
        list(stream)
    assert [event["event"] for event in stream][-1] == "message-finish"
    assert "".join(stream.text) == "hello"


def test_T78_closing_while_the_end_is_told_preserves_the_success():
    class Slow(AsyncCallbackHandler):
        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            await asyncio.sleep(30)

    async def main() -> tuple[str, list[str]]:
        model = GenerateOnly(answers=[AIMessage("hello")])
        stream = await model.astream_v2("x", {"callbacks": [Slow()]})
        reader = asyncio.create_task(anext(aiter(stream)))
        await asyncio.sleep(0.05)
        await stream.aclose()
        await asyncio.gather(reader, return_exceptions=True)
        return (await stream).text, [event["event"] async for event in stream]

    text, events = asyncio.run(asyncio.wait_for(main(), 10))
    assert text == "hello"
    assert events[-1] == "message-finish"


def test_a_chain_listener_that_breaks_at_the_end_asks_no_model_again():
    class Chain(BaseCallbackHandler):
        raise_error = True

        def __init__(self) -> None:
            self.ends = 0

        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            self.ends += 1

        def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("broken")

    broken = Chain()
    model = RunnableLambda(lambda x: x) | GenerateOnly(answers=[AIMessage("hello")])
    stream = model.with_retry(wait_exponential_jitter=False).stream_v2("x", {"callbacks": [broken]})
    with pytest.raises(RuntimeError):
        list(stream)
    assert broken.ends <= 1


@pytest.mark.parametrize("error", [ValueError("v"), ModelError("m"), {"event": "error"}])
def test_T97_a_fallback_stands_in_for_what_failed_before_its_first_content(error):
    broken = native([START, error], retry_on_error=False)
    model = broken.with_fallbacks([native(HELLO)])
    assert model.stream_v2("x").output.text == "hello"
    assert "".join(chunk.text for chunk in model.stream("x")) == "hello"


@pytest.mark.parametrize("items", [[[], *HELLO], [*HELLO, []], [START, [], *HELLO[1:]]])
def test_an_empty_batch_is_nothing(call, items):
    assert call.invoke(native(items), "x").text == "hello"
    assert "".join(chunk.text for chunk in call.stream(native(items), "x")) == "hello"


def test_T02_a_model_that_yields_nothing_is_truncated_also_where_it_may_not_stream(call):
    with pytest.raises(StreamTruncatedError):
        call.stream(native([], disable_streaming=True), "x")


def test_a_step_that_fails_before_the_model_is_told_once():
    class Chain(BaseCallbackHandler):
        def __init__(self) -> None:
            self.errors = 0

        def on_chain_error(self, *args: Any, **kwargs: Any) -> None:
            self.errors += 1

    def bad(_: Any) -> Any:
        raise ValueError("bad")

    listener = Chain()
    stream = (RunnableLambda(bad) | native(HELLO)).stream_v2("x", {"callbacks": [listener]})
    with pytest.raises(ValueError, match="bad"):
        stream.output  # noqa: B018
    assert listener.errors == 2  # the step's, and the sequence's


class AuthorMessage(AIMessage):
    """An author's own class."""


def test_a_whole_answer_keeps_its_class_and_form_when_its_tools_are_renamed(call):
    class PatternModel(GenerateOnly):
        _tool_name_pattern = "[A-Za-z0-9_-]"

    block = {"type": "tool_use", "id": "c1", "name": "files_read", "input": {"a": 1}}
    raw = {"id": "c1", "type": "function", "function": {"name": "files_read", "arguments": "{}"}}
    answer = AuthorMessage(
        content=[block],
        additional_kwargs={"tool_calls": [raw]},
        tool_calls=[{"name": "files_read", "args": {"a": 1}, "id": "c1", "type": "tool_call"}],
    )
    tool = {"type": "function", "function": {"name": "files.read", "parameters": {}}}
    message = call.invoke(PatternModel(answers=[answer]).bind_tools([tool]), "x")

    assert type(message) is AuthorMessage
    assert message.content == [{**block, "name": "files.read"}]
    assert message.tool_calls[0]["name"] == "files.read"
    assert message.additional_kwargs["tool_calls"][0]["function"]["name"] == "files.read"


def test_tool_choice_is_read_for_a_model_of_which_nothing_is_known():
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    choice = {"type": "any", "disable_parallel_tool_use": True}
    model = ChatOpenAI(model="my-unknown-model", api_key="k")
    assert model.explain("x", tools=[tool], tool_choice=choice).body["parallel_tool_calls"] is False


def test_V1_a_rescue_after_content_tells_listeners_to_drop_it(call):
    watching = Watching()
    model = native(
        [START, *text("a"), ValueError("v")],
        hooks={"on_error": lambda request, error: AIMessage("instead")},
    )
    assert call.invoke(model, "x", {"callbacks": [watching]}).text == "instead"
    assert watching.events.count("message-reset") == 1


def test_T09_an_error_event_under_guards_is_that_error(call):
    error = {"event": "error", "message": "boom", "code": "c", "retryable": False}
    model = native([START, *text("secret"), error], guards=[lambda message: True])
    with pytest.raises(ModelError, match="boom") as excinfo:
        call.invoke(model, "x")
    assert excinfo.value.code == "c"


def test_T08_an_unknown_event_after_the_finish_is_ignored(call):
    assert call.invoke(native([*HELLO, UNKNOWN]), "x").text == "hello"


@pytest.mark.parametrize("garbage", ["garbage", None, 3, {"no": "event"}])
@pytest.mark.parametrize("place", [0, 2])
def test_what_is_no_event_is_malformed_wherever_it_comes(call, garbage, place):
    items = [*HELLO[:place], garbage, *HELLO[place:]]
    for ask in (call.invoke, call.stream, call.stream_v2):
        with pytest.raises(MalformedStreamError):
            ask(native(items), "x")


def test_content_that_came_with_the_finish_is_delivered_before_a_late_error():
    stream = native(
        [START, *text("a"), [*text("b", 1), FINISH], ModelError("late")], retry_on_error=False
    ).stream_v2("x")
    pieces = []
    with pytest.raises(ModelError, match="late"):
        pieces.extend(stream.text)
    pieces = [event for event in stream._log.cursor() if event["event"] == "content-block-delta"]
    assert [event["delta"]["text"] for event in pieces] == ["a", "b"]


def test_usage_of_retries_is_not_added_to_an_authors_own_message(call):
    usage = {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}
    constant = AIMessage("hello", usage_metadata=usage)

    class Flaky(BaseChatModel):
        tries: list[int]

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            self.tries.append(1)
            if len(self.tries) % 2:
                raise ModelError(
                    "again", is_retryable=True, partial=AIMessage("", usage_metadata=usage)
                )
            return ChatResult(generations=[ChatGeneration(message=constant)])

    model = Flaky(retry_on_error={"retries": 1, "initial": 0}, tries=[])
    for _ in range(2):
        assert call.invoke(model, "x").usage_metadata["total_tokens"] == 20
    assert constant.usage_metadata["total_tokens"] == 10
