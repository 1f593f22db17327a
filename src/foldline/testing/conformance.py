"""What every chat model must do, as pytest classes: an author subclasses one, says how to make the model, and runs it.

    class TestMyModel(ChatModelConformance):
        def model(self):
            return MyModel()

Every test runs blocking and awaited. The model must answer a prompt alike each time (a fake server, a recording).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, ClassVar, cast

import pytest

from foldline._io import ASYNC
from foldline._run import Run
from foldline.exceptions import StreamClosedError, StreamInterruptedError
from foldline.language_models.call.author import author_events
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.chat_model_stream import ChatModelStream
from foldline.language_models.chat_models import BaseChatModel
from foldline.language_models.llms import BaseLLM
from foldline.messages import AIMessage, AIMessageChunk
from foldline.protocol.events import Event
from foldline.protocol.fold import fold
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.protocol.replay import message_to_events
from foldline.testing.asking import Asker, RecordedCallbacks, RecordedEvents
from foldline.testing.rechunk import bridged, rechunked

__all__ = ["Asker", "ChatModelConformance", "TextModelConformance", "ToolCallingConformance"]

RECUTS = 25
"""How often a stream is cut anew."""
ALIKE = (
    "content",
    "tool_calls",
    "invalid_tool_calls",
    "usage_metadata",
    "finish_reason",
    "additional_kwargs",
)
"""What must be the same of two ways to the same message; ids of runs differ."""


class _Kit:
    prompt: ClassVar[Any] = "Say hello."
    """What the model is asked."""
    options: ClassVar[dict[str, Any]] = {}
    """Options of every call."""

    @pytest.fixture(params=["blocking", "async"])
    def ask(self, request: pytest.FixtureRequest) -> Asker:
        """Call the model in this colour."""
        return Asker(request.param)

    def model(self) -> Any:  # noqa: ANN401  any model: its author's test says which
        """Make the model to test."""
        raise NotImplementedError(f"{type(self).__name__} must define model()")


class ChatModelConformance(_Kit):
    """What every chat model must do; subclass it and define `model()`."""

    def test_events_follow_the_grammar_and_fold_to_the_message(self, ask: Asker) -> None:
        """V1-V20 on a real answer."""
        events, stream = ask.read(self.model(), self.prompt, **self.options)
        assert_valid_event_stream(events, ask.output(stream))

    def test_replaying_the_message_gives_the_message(self, ask: Asker) -> None:
        """`fold(message_to_events(m)) == m`."""
        _, stream = ask.read(self.model(), self.prompt, **self.options)
        message = ask.output(stream)
        again = AIMessage.from_fold(fold(message_to_events(message)), "v1")
        assert again == message

    def test_any_cut_of_the_stream_gives_the_same_message(self) -> None:
        """What a message says does not depend on how it was sliced."""
        events, stream = Asker("blocking").read(self.model(), self.prompt, **self.options)
        for seed in range(RECUTS):
            cut = rechunked(events, seed)
            assert_valid_event_stream(cut, stream.output)
            other = ChatModelStream()
            for event in cut:
                other.dispatch(event)
            assert other.output == stream.output
            assert str(other.text) == str(stream.text)

    def test_the_bridge_from_chunks_says_the_same(self) -> None:
        """Native = bridge on the same recording."""
        events, stream = Asker("blocking").read(self.model(), self.prompt, **self.options)
        made = bridged(events)
        assert_valid_event_stream(made)
        _same(AIMessage.from_fold(fold(made), "v1"), stream.output)

    def test_both_colours_say_the_same(self) -> None:
        """Blocking = awaited."""
        first, second = (
            ask.output(ask.read(self.model(), self.prompt, **self.options)[1])
            for ask in (Asker("blocking"), Asker("async"))
        )
        _same(first, second)

    def test_chunks_add_up_to_what_invoke_gives(self, ask: Asker) -> None:
        """v1 sum = invoke = v2."""
        invoked = ask.invoke(self.model(), self.prompt, **self.options)
        chunks = ask.stream(self.model(), self.prompt, **self.options)
        _, stream = ask.read(self.model(), self.prompt, **self.options)
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole = whole + chunk
        assert isinstance(invoked, AIMessage)
        assert isinstance(whole, AIMessageChunk)
        _same(whole, invoked)
        assert ask.output(stream).text == invoked.text
        assert ask.output(stream).tool_calls == invoked.tool_calls

    def test_the_output_is_marked_v1_and_has_an_id(self, ask: Asker) -> None:
        """Section 3 of the streaming spec."""
        events, stream = ask.read(self.model(), self.prompt, **self.options)
        message = ask.output(stream)
        assert isinstance(message.content, list)
        assert message.response_metadata["output_version"] == "v1"
        assert message.id == cast("dict[str, Any]", events[0])["id"]
        assert message.id
        assert message.status == "complete"

    def test_projections_agree_with_the_message(self) -> None:
        """Text, reasoning and calls of the stream are those of the message."""
        stream = self.model().stream_v2(self.prompt, **self.options)
        text = "".join(stream.text)
        message = stream.output
        assert text == str(stream.text) == message.text
        assert stream.tool_calls.get() == message.tool_calls
        assert (stream.usage is None) is (message.usage_metadata is None)

    def test_a_batch_answers_every_input(self, ask: Asker) -> None:
        """As many answers as inputs, the same as alone."""
        answers = ask.batch(self.model(), [self.prompt] * 3)
        assert len(answers) == 3
        assert all(isinstance(answer, AIMessage) for answer in answers)

    # -- listeners

    def test_listeners_hear_one_start_and_one_end(self, ask: Asker) -> None:
        """Whatever the API."""
        for api in (ask.invoke, ask.stream, ask.read):
            told = RecordedCallbacks()
            api(self.model(), self.prompt, {"callbacks": [told]}, **self.options)
            assert told.names == ["start", "end"], api

    def test_listeners_see_every_event_of_a_stream(self, ask: Asker) -> None:
        """`on_stream_event` once per event, and the assembled message at the end."""
        told = RecordedCallbacks()
        events, stream = ask.read(self.model(), self.prompt, {"callbacks": [told]}, **self.options)
        assert told.events == events
        assert told.responses[0].generations[0][0].message == ask.output(stream)

    def test_a_listener_for_events_does_not_change_what_invoke_returns(self, ask: Asker) -> None:
        """The marker class routes `invoke` through events."""
        told = RecordedEvents()
        plain = ask.invoke(self.model(), self.prompt, **self.options)
        seen = ask.invoke(self.model(), self.prompt, {"callbacks": [told]}, **self.options)
        assert_valid_event_stream(told.events)
        assert type(seen.content) is type(plain.content)
        assert seen.text == plain.text

    # -- leaving early, breaking

    def test_nothing_happens_before_the_first_read(self, ask: Asker) -> None:
        """No callback, no request."""
        told = RecordedCallbacks()
        ask.read(self.model(), self.prompt, {"callbacks": [told]}, events=0, **self.options)
        assert told.names == []

    def test_closing_in_the_middle_tells_once(self, ask: Asker) -> None:
        """Other readers get `StreamClosedError` with the partial message."""
        told = RecordedCallbacks()
        _, stream = ask.read(
            self.model(), self.prompt, {"callbacks": [told]}, events=2, **self.options
        )
        if stream.error is None:  # the answer came at once: there was no middle
            assert told.names == ["start", "end"]
            assert ask.output(stream).status == "complete"
            return
        assert told.names == ["start", "error"]
        with pytest.raises(StreamClosedError) as closed:
            ask.output(stream)
        assert closed.value.partial.status == "incomplete"
        assert told.errors == [closed.value]

    def test_cancelling_the_reader_tells_once(self) -> None:
        """Cancelling the consuming task cancels the producer."""
        told = RecordedCallbacks()

        async def body() -> None:
            stream = await self.model().astream_v2(
                self.prompt, {"callbacks": [told]}, **self.options
            )
            reader = ASYNC.start(stream._finished())
            while not told.names:
                await ASYNC.sleep(0)
            reader.cancel()
            with suppress(BaseException):  # the cancellation, which it is not our business to name
                await reader.result()

        Asker("async").wait(body)
        assert told.names in (["start", "error"], ["start", "end"])

    def test_a_stream_that_breaks_keeps_what_came(self, ask: Asker) -> None:
        """The error carries the partial message, and every reader gets the same error."""
        events, _ = ask.read(self.model(), self.prompt, **self.options)
        model = _Breaking(inner=self.model(), after=len(events) - 1)
        told = RecordedCallbacks()
        with pytest.raises(StreamInterruptedError) as broken:
            ask.read(model, self.prompt, {"callbacks": [told]}, **self.options)
        assert told.names == ["start", "error"]
        assert broken.value.partial.status == "incomplete"
        whole = AIMessage.from_fold(fold(events), "v1")
        assert str(whole.text).startswith(str(broken.value.partial.text))


class ToolCallingConformance(ChatModelConformance):
    """For a model whose answer to the prompt is a tool call."""

    def test_the_answer_is_a_call(self, ask: Asker) -> None:
        """Parsed arguments, an id, a name."""
        message = ask.invoke(self.model(), self.prompt, **self.options)
        assert message.tool_calls
        for call in message.tool_calls:
            assert call["id"]
            assert call["name"]
            assert isinstance(call["args"], dict)

    def test_slices_of_calls_are_seen_while_they_come(self) -> None:
        """Iterating gives slices, or the call where it came whole."""
        stream = self.model().stream_v2(self.prompt, **self.options)
        slices = list(stream.tool_calls)
        assert {one["id"] for one in slices} == {one["id"] for one in stream.output.tool_calls}

    def test_a_stream_that_breaks_inside_a_call_has_no_call(self, ask: Asker) -> None:
        """What is not whole is never a call to run (E5)."""
        events, _ = ask.read(self.model(), self.prompt, **self.options)
        kinds = [
            (event["event"], cast("Any", event).get("content", {}).get("type")) for event in events
        ]
        model = _Breaking(
            inner=self.model(), after=kinds.index(("content-block-finish", "tool_call"))
        )
        with pytest.raises(StreamInterruptedError) as broken:
            ask.read(model, self.prompt, **self.options)
        assert broken.value.partial.tool_calls == []
        assert broken.value.partial.invalid_tool_calls


class TextModelConformance(_Kit):
    """What every text model must do; subclass it and define `model()`."""

    def test_every_api_says_the_same(self, ask: Asker) -> None:
        """What invoke, stream and batch say."""
        said = ask.invoke(self.model(), self.prompt, **self.options)
        assert isinstance(said, str)
        assert "".join(ask.stream(self.model(), self.prompt, **self.options)) == said
        assert ask.batch(self.model(), [self.prompt])[0] == said

    def test_listeners_hear_one_start_and_one_end(self, ask: Asker) -> None:
        """Whatever the API."""
        for api in (ask.invoke, ask.stream):
            told = RecordedCallbacks()
            api(self.model(), self.prompt, {"callbacks": [told]}, **self.options)
            assert told.names == ["start", "end"], api

    def test_generate_keeps_one_answer_per_prompt(self) -> None:
        """As many lists of generations as prompts."""
        model: BaseLLM = self.model()
        assert len(model.generate([str(self.prompt)] * 2).generations) == 2


class _Breaking(BaseChatModel):
    """Another model, broken after some events."""

    inner: Any
    after: int

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        count = 0
        async with aclosing(author_events(self.inner, request, run)) as source:
            async for item in source:
                for event in [item] if isinstance(item, dict) else item:
                    if count >= self.after:
                        raise StreamInterruptedError(
                            "the kit broke this stream", is_retryable=False
                        )
                    count += 1
                    yield event


def _same(first: AIMessage, second: AIMessage) -> None:
    for field in ALIKE:
        assert _plain(getattr(first, field)) == _plain(getattr(second, field)), field


def _plain(value: object) -> object:
    """Leave out the numbers by which chunks of blocks find together."""
    if not isinstance(value, list):
        return value
    return [
        {key: field for key, field in item.items() if key != "index"}
        if isinstance(item, dict)
        else item
        for item in value
    ]
