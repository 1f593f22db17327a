"""Tests that every chat model must pass, as pytest classes: an author subclasses one and defines `model()`.

    class TestMyModel(ChatModelConformance):
        def model(self):
            return MyModel()

Every test runs sync and async. The model must answer a prompt in the same way each time (a fake server, a recording).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, ClassVar, cast

import pytest

from foldline._io import ASYNC
from foldline._run import Run
from foldline.exceptions import StreamClosedError, StreamInterruptedError
from foldline.language_models._call.author import Author
from foldline.language_models._call.request import ChatRequest, messages_of
from foldline.language_models.chat_model_stream import ChatModelStream
from foldline.language_models.chat_models import BaseChatModel
from foldline.language_models.llms import BaseLLM
from foldline.messages import AIMessage, AIMessageChunk, BaseMessage
from foldline.protocol.events import Event
from foldline.protocol.fold import fold
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.protocol.replay import message_to_events
from foldline.testing._asking import Asker, RecordedCallbacks, RecordedEvents
from foldline.testing._rechunk import bridge_events, rechunk_events

__all__ = [
    "ChatModelConformance",
    "TextModelConformance",
    "ToolCallingConformance",
]

RECUTS = 25
"""How often a stream is cut in a new way."""
COMPARED_FIELDS = (
    "content",
    "tool_calls",
    "invalid_tool_calls",
    "usage_metadata",
    "finish_reason",
    "additional_kwargs",
)
"""The fields in which two versions of a message must be equal; ids of runs differ."""


class _Kit:
    prompt: ClassVar[Any] = "Say hello."
    """The prompt of every test."""
    options: ClassVar[dict[str, Any]] = {}
    """Options of every call."""

    @pytest.fixture(params=["blocking", "async"])
    def ask(self, request: pytest.FixtureRequest) -> Asker:
        """Call the model in this mode."""
        return Asker(request.param)

    def model(self) -> Any:  # noqa: ANN401  any model, as the author's subclass defines
        """Return the model to test."""
        raise NotImplementedError(f"{type(self).__name__} must define model()")


class ChatModelConformance(_Kit):
    """Tests that every chat model must pass; subclass it and define `model()`."""

    @property
    def _earlier(self) -> list[BaseMessage]:
        return messages_of(self.prompt)

    def test_events_follow_the_grammar_and_fold_to_the_message(self, ask: Asker) -> None:
        """V1-V20 on a real answer."""
        events, stream = ask.read(self.model(), self.prompt, **self.options)
        assert_valid_event_stream(events, ask.output(stream), earlier=self._earlier)

    def test_replaying_the_message_gives_the_message(self, ask: Asker) -> None:
        """`fold(message_to_events(m)) == m`."""
        _, stream = ask.read(self.model(), self.prompt, **self.options)
        message = ask.output(stream)
        replayed = AIMessage.from_fold(fold(message_to_events(message)), "v1")
        assert replayed == message

    def test_any_cut_of_the_stream_gives_the_same_message(self) -> None:
        """The message does not depend on how the stream is cut."""
        events, stream = Asker("blocking").read(self.model(), self.prompt, **self.options)
        for seed in range(RECUTS):
            cut_events = rechunk_events(events, seed)
            assert_valid_event_stream(cut_events, stream.output, earlier=self._earlier)
            cut_stream = ChatModelStream()
            for event in cut_events:
                cut_stream.dispatch(event)
            assert cut_stream.output == stream.output
            assert str(cut_stream.text) == str(stream.text)

    def test_the_bridge_from_chunks_says_the_assert_same(self) -> None:
        """Native = bridge on the same recording."""
        events, stream = Asker("blocking").read(self.model(), self.prompt, **self.options)
        bridged_events = bridge_events(events)
        assert_valid_event_stream(bridged_events, earlier=self._earlier)
        _assert_same(AIMessage.from_fold(fold(bridged_events), "v1"), stream.output)

    def test_sync_and_async_say_the_assert_same(self) -> None:
        """Sync = async."""
        first, second = (
            ask.output(ask.read(self.model(), self.prompt, **self.options)[1])
            for ask in (Asker("blocking"), Asker("async"))
        )
        _assert_same(first, second)

    def test_chunks_add_up_to_what_invoke_gives(self, ask: Asker) -> None:
        """v1 sum = invoke = v2."""
        invoked = ask.invoke(self.model(), self.prompt, **self.options)
        chunks = ask.stream(self.model(), self.prompt, **self.options)
        _, stream = ask.read(self.model(), self.prompt, **self.options)
        total = chunks[0]
        for chunk in chunks[1:]:
            total = total + chunk
        assert isinstance(invoked, AIMessage)
        assert isinstance(total, AIMessageChunk)
        _assert_same(total, invoked)
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
        """As many answers as inputs."""
        answers = ask.batch(self.model(), [self.prompt] * 3)
        assert len(answers) == 3
        assert all(isinstance(answer, AIMessage) for answer in answers)

    # -- listeners

    def test_listeners_hear_one_start_and_one_end(self, ask: Asker) -> None:
        """For every API."""
        for api in (ask.invoke, ask.stream, ask.read):
            recorder = RecordedCallbacks()
            api(self.model(), self.prompt, {"callbacks": [recorder]}, **self.options)
            assert recorder.names == ["start", "end"], api

    def test_listeners_see_every_event_of_a_stream(self, ask: Asker) -> None:
        """`on_stream_event` once per event, and the assembled message at the end."""
        recorder = RecordedCallbacks()
        events, stream = ask.read(
            self.model(), self.prompt, {"callbacks": [recorder]}, **self.options
        )
        assert recorder.events == events
        assert recorder.responses[0].generations[0][0].message == ask.output(stream)

    def test_a_listener_for_events_does_not_change_what_invoke_returns(self, ask: Asker) -> None:
        """The marker class routes `invoke` through events."""
        recorder = RecordedEvents()
        plain = ask.invoke(self.model(), self.prompt, **self.options)
        observed = ask.invoke(self.model(), self.prompt, {"callbacks": [recorder]}, **self.options)
        assert_valid_event_stream(recorder.events, earlier=self._earlier)
        assert type(observed.content) is type(plain.content)
        assert observed.text == plain.text

    # -- leaving early, breaking

    def test_nothing_happens_before_the_first_read(self, ask: Asker) -> None:
        """No callback, no request."""
        recorder = RecordedCallbacks()
        ask.read(self.model(), self.prompt, {"callbacks": [recorder]}, events=0, **self.options)
        assert recorder.names == []

    def test_closing_in_the_middle_tells_once(self, ask: Asker) -> None:
        """Other readers get `StreamClosedError` with the partial message."""
        recorder = RecordedCallbacks()
        _, stream = ask.read(
            self.model(), self.prompt, {"callbacks": [recorder]}, events=2, **self.options
        )
        if stream.error is None:  # the answer came at once, so it was not closed early
            assert recorder.names == ["start", "end"]
            assert ask.output(stream).status == "complete"
            return
        assert recorder.names == ["start", "error"]
        with pytest.raises(StreamClosedError) as closed_error:
            ask.output(stream)
        assert closed_error.value.partial.status == "incomplete"
        assert recorder.errors == [closed_error.value]

    def test_cancelling_the_reader_tells_once(self) -> None:
        """Cancelling the consuming task cancels the producer."""
        recorder = RecordedCallbacks()

        async def body() -> None:
            stream = await self.model().astream_v2(
                self.prompt, {"callbacks": [recorder]}, **self.options
            )
            reader = ASYNC.start(stream._final_message())
            while not recorder.names:
                await ASYNC.sleep(0)
            reader.cancel()
            with suppress(BaseException):  # the cancellation
                await reader.result()

        Asker("async").wait(body)
        assert recorder.names in (["start", "error"], ["start", "end"])

    def test_a_stream_that_breaks_keeps_what_came(self, ask: Asker) -> None:
        """The error carries the partial message, and every reader gets the same error."""
        events, _ = ask.read(self.model(), self.prompt, **self.options)
        model = _BreakingModel(inner=self.model(), after=len(events) - 1)
        recorder = RecordedCallbacks()
        with pytest.raises(StreamInterruptedError) as failure:
            ask.read(model, self.prompt, {"callbacks": [recorder]}, **self.options)
        assert recorder.names == ["start", "error"]
        assert failure.value.partial.status == "incomplete"
        message = AIMessage.from_fold(fold(events), "v1")
        assert str(message.text).startswith(str(failure.value.partial.text))


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
        """Iteration yields slices, or the call if it came complete."""
        stream = self.model().stream_v2(self.prompt, **self.options)
        slices = list(stream.tool_calls)
        assert {call["id"] for call in slices} == {call["id"] for call in stream.output.tool_calls}

    def test_a_stream_that_breaks_inside_a_call_has_no_call(self, ask: Asker) -> None:
        """An incomplete call is never a call to run (E5)."""
        events, _ = ask.read(self.model(), self.prompt, **self.options)
        kinds = [
            (event["event"], cast("Any", event).get("content", {}).get("type")) for event in events
        ]
        model = _BreakingModel(
            inner=self.model(), after=kinds.index(("content-block-finish", "tool_call"))
        )
        with pytest.raises(StreamInterruptedError) as failure:
            ask.read(model, self.prompt, **self.options)
        assert failure.value.partial.tool_calls == []
        assert failure.value.partial.invalid_tool_calls


class TextModelConformance(_Kit):
    """Tests that every text model must pass; subclass it and define `model()`."""

    def test_every_api_says_the_assert_same(self, ask: Asker) -> None:
        """The results of invoke, stream and batch are equal."""
        text = ask.invoke(self.model(), self.prompt, **self.options)
        assert isinstance(text, str)
        assert "".join(ask.stream(self.model(), self.prompt, **self.options)) == text
        assert ask.batch(self.model(), [self.prompt])[0] == text

    def test_listeners_hear_one_start_and_one_end(self, ask: Asker) -> None:
        """For every API."""
        for api in (ask.invoke, ask.stream):
            recorder = RecordedCallbacks()
            api(self.model(), self.prompt, {"callbacks": [recorder]}, **self.options)
            assert recorder.names == ["start", "end"], api

    def test_generate_keeps_one_answer_per_prompt(self) -> None:
        """As many lists of generations as prompts."""
        model: BaseLLM = self.model()
        assert len(model.generate([str(self.prompt)] * 2).generations) == 2


class _BreakingModel(BaseChatModel):
    """Another model, whose stream breaks after some events."""

    inner: Any
    after: int

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        count, author = 0, cast("Author", self.inner._author)
        async with aclosing(author.events(self.inner, request, run)) as source:
            async for item in source:
                for event in [item] if isinstance(item, dict) else item:
                    if count >= self.after:
                        raise StreamInterruptedError(
                            "the kit broke this stream", is_retryable=False
                        )
                    count += 1
                    yield event


def _assert_same(first: AIMessage, second: AIMessage) -> None:
    for field in COMPARED_FIELDS:
        assert _without_index(getattr(first, field)) == _without_index(getattr(second, field)), (
            field
        )


def _without_index(value: object) -> object:
    """Drop the indexes by which chunks of blocks are matched."""
    if not isinstance(value, list):
        return value
    return [
        {key: field for key, field in item.items() if key != "index"}
        if isinstance(item, dict)
        else item
        for item in value
    ]
