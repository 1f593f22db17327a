"""`RunnableWithMessageHistory`: its inputs, the stored messages, and when nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from foldline._io.drive import drive_each
from foldline.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from foldline.exceptions import StoreError, UsageError
from foldline.language_models.fake_chat_models import FakeListChatModel
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage
from foldline.runnables import (
    ConfigurableFieldSpec,
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnableWithMessageHistory,
)
from foldline.runnables._stream_call import StreamCall
from tests.runnables.recording import Recorder

CONFIG: Any = {"configurable": {"session_id": "ann"}}


class Histories(dict[str, InMemoryChatMessageHistory]):
    """Conversations by session."""

    def of(self, session_id: str) -> InMemoryChatMessageHistory:
        return self.setdefault(session_id, InMemoryChatMessageHistory())

    def texts(self, session_id: str = "ann") -> list[tuple[str, str]]:
        return [(message.type, message.text) for message in self.of(session_id).messages]


@pytest.fixture
def histories() -> Histories:
    return Histories()


def echo(messages: list[Any]) -> str:
    return " ".join(message.text for message in messages)


def test_earlier_messages_go_in_and_new_ones_are_kept(call, histories):
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories.of)

    assert call.invoke(chain, "one", CONFIG) == "one"
    assert call.invoke(chain, [HumanMessage("two")], CONFIG) == "one one two"
    assert (
        call.invoke(chain, HumanMessage("three"), {"configurable": {"session_id": "bob"}})
        == "three"
    )
    assert histories.texts() == [
        ("human", "one"),
        ("ai", "one"),
        ("human", "two"),
        ("ai", "one one two"),
    ]
    assert histories.texts("bob") == [("human", "three"), ("ai", "three")]


def test_the_history_has_a_place_of_its_own_in_a_dict(call, histories):
    inputs: list[Any] = []

    def answer(values: dict[str, Any]) -> AIMessage:
        inputs.append((values["question"], [m.text for m in values["history"]]))
        return AIMessage("sure")

    chain = RunnableWithMessageHistory(
        RunnableLambda(answer),
        histories.of,
        input_messages_key="question",
        history_messages_key="history",
    )
    call.invoke(chain, {"question": "a?"}, CONFIG)
    call.invoke(chain, {"question": "b?"}, CONFIG)

    assert inputs == [("a?", []), ("b?", ["a?", "sure"])]
    assert histories.texts() == [("human", "a?"), ("ai", "sure"), ("human", "b?"), ("ai", "sure")]


def test_without_a_place_the_history_comes_before_the_new_messages(call, histories):
    chain = RunnableWithMessageHistory(
        RunnableLambda(lambda values: {"answer": [AIMessage(echo(values["said"]))], "other": 1}),
        histories.of,
        input_messages_key="said",
        output_messages_key="answer",
    )

    call.invoke(chain, {"said": "a"}, CONFIG)
    assert call.invoke(chain, {"said": "b"}, CONFIG)["answer"][0].text == "a a b"


def test_a_model_remembers_and_a_streamed_answer_is_kept_once(call, histories):
    chain = RunnableWithMessageHistory(FakeListChatModel(responses=["hello you"]), histories.of)

    pieces = call.stream(chain, "hi", CONFIG)

    assert "".join(piece.text for piece in pieces) == "hello you"
    assert histories.texts() == [("human", "hi"), ("ai", "hello you")]
    answer = histories.of("ann").messages[-1]
    assert type(answer) is AIMessage, "a whole message, not a chunk"


def test_E6_when_the_answer_fails_nothing_is_kept(call, histories):
    def break_off(inputs: Iterator[Any]) -> Iterator[str]:
        yield "half an "
        raise ValueError("broken")

    for broken in (RunnableLambda(lambda messages: 1 / 0), RunnableGenerator(break_off)):
        chain = RunnableWithMessageHistory(broken, histories.of)
        with pytest.raises((ValueError, ZeroDivisionError)):
            call.stream(chain, "hi", CONFIG)
        with pytest.raises((ValueError, ZeroDivisionError)):
            call.invoke(chain, "hi", CONFIG)

    assert histories.texts() == []


def test_E6_a_stream_that_is_closed_early_keeps_nothing(histories):
    chain = RunnableWithMessageHistory(FakeListChatModel(responses=["hello"]), histories.of)

    stream = chain.stream("hi", CONFIG)
    next(stream)
    stream.close()

    assert histories.texts() == []


def test_E6_an_incomplete_answer_is_kept_with_its_mark(call, histories):
    chain = RunnableWithMessageHistory(
        RunnableLambda(lambda messages: AIMessage("half an", status="incomplete")), histories.of
    )

    call.invoke(chain, "hi", CONFIG)

    assert histories.of("ann").messages[-1].status == "incomplete"


def test_FK03_a_history_that_fails_is_heard(call):
    class Full(BaseChatMessageHistory):
        messages = ()  # type: ignore[assignment]

        def add_messages(self, messages: Any) -> None:
            raise StoreError("disk full")

        def clear(self) -> None:
            """Nothing to forget."""

    chain = RunnableWithMessageHistory(RunnableLambda(echo), lambda session_id: Full())

    with pytest.raises(StoreError, match="disk full"):
        call.invoke(chain, "hi", CONFIG)
    with pytest.raises(StoreError, match="disk full"):
        call.stream(chain, "hi", CONFIG)


def test_a_conversation_may_be_named_by_several_values(call, histories):
    specs = [
        ConfigurableFieldSpec(id=key, annotation=str, is_shared=True) for key in ("user", "topic")
    ]
    chain = RunnableWithMessageHistory(
        RunnableLambda(echo),
        lambda user, topic: histories.of(f"{user}/{topic}"),
        history_factory_config=specs,
    )

    call.invoke(chain, "hi", {"configurable": {"user": "ann", "topic": "cats"}})

    assert list(histories) == ["ann/cats"]
    assert [spec.id for spec in chain.config_specs] == ["topic", "user"]
    with pytest.raises(UsageError, match="lacks 'topic'"):
        call.invoke(chain, "hi", {"configurable": {"user": "ann"}})


def test_a_single_value_may_have_any_name(call, histories):
    spec = ConfigurableFieldSpec(id="thread", annotation=str)
    by_place = RunnableWithMessageHistory(
        RunnableLambda(echo), lambda x: histories.of(x), history_factory_config=[spec]
    )
    by_name = RunnableWithMessageHistory(
        RunnableLambda(echo), lambda *, thread: histories.of(thread), history_factory_config=[spec]
    )

    for chain in (by_place, by_name):
        call.invoke(chain, "hi", {"configurable": {"thread": "t"}})
    assert len(histories.texts("t")) == 4


@pytest.mark.parametrize("config", [None, {}, {"configurable": {"other": 1}}])
def test_a_call_that_names_no_conversation_is_refused(call, histories, config):
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories.of)

    with pytest.raises(UsageError, match="lacks 'session_id'; call it with config="):
        call.invoke(chain, "hi", config)


def test_wrong_inputs_and_outputs_say_which_key_to_set(call, histories):
    chain = RunnableWithMessageHistory(RunnableLambda(lambda _: {"a": 1, "b": 2}), histories.of)

    with pytest.raises(
        UsageError,
        match=r"the output has no 'output': set output_messages_key to one of \['a', 'b'\]",
    ):
        call.invoke(chain, "hi", CONFIG)
    with pytest.raises(UsageError, match="the input has no 'input'"):
        call.invoke(chain, {"x": "hi", "y": 1}, CONFIG)
    with pytest.raises(UsageError, match=r"Got 7.*set input_messages_key"):
        call.invoke(chain, 7, CONFIG)
    with pytest.raises(UsageError, match="is for a dict, and the input is str"):
        call.invoke(
            RunnableWithMessageHistory(RunnableLambda(echo), histories.of, input_messages_key="q"),
            "hi",
            CONFIG,
        )
    with pytest.raises(UsageError, match="is for a dict, and the input is str"):
        call.invoke(
            RunnableWithMessageHistory(
                RunnableLambda(echo), histories.of, history_messages_key="h"
            ),
            "hi",
            CONFIG,
        )
    with pytest.raises(UsageError, match="returned dict"):
        call.invoke(RunnableWithMessageHistory(RunnableLambda(echo), lambda s: {}), "hi", CONFIG)
    with pytest.raises(UsageError, match="needs a runnable and a function"):
        RunnableWithMessageHistory(RunnableLambda(echo))
    assert histories.texts() == []


def test_the_only_key_of_a_dict_needs_no_naming(call, histories):
    chain = RunnableWithMessageHistory(
        RunnableLambda(lambda messages: {"said": echo(messages)}), histories.of
    )

    assert call.invoke(chain, {"text": "hi"}, CONFIG) == {"said": "hi"}
    assert histories.texts() == [("human", "hi"), ("ai", "hi")]


def test_traces_show_the_loading_and_the_runnable(call, histories):
    recorder = Recorder()
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories.of)

    call.invoke(chain, "hi", {"callbacks": [recorder], **CONFIG})

    assert recorder.names() == ["RunnableWithMessageHistory", "load_history", "echo"]
    assert recorder.parent_of("echo") == "RunnableWithMessageHistory"
    assert recorder.tags_of("load_history") == ["seq:step:1"]
    recorder.check()


def test_each_conversation_of_a_batch_has_its_history(call, histories):
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories.of)
    configs = [{"configurable": {"session_id": name}} for name in ("a", "b")]

    call.batch(chain, ["1", "2"], configs)
    assert call.batch(chain, ["3", "4"], configs) == ["1 1 3", "2 2 4"]


def test_the_twins_of_a_history_are_used_where_it_has_them():
    class Twins(InMemoryChatMessageHistory):
        async def aget_messages(self) -> list[Any]:
            calls.append("aget")
            return self.messages

        async def aadd_messages(self, messages: Any) -> None:
            calls.append("aadd")
            self.add_messages(messages)

    import asyncio

    calls: list[str] = []
    history = Twins()
    chain = RunnableWithMessageHistory(RunnableLambda(echo), lambda session_id: history)

    asyncio.run(chain.ainvoke("hi", CONFIG))
    assert calls == ["aget", "aadd"]
    chain.invoke("hi", CONFIG)
    assert calls == ["aget", "aadd"]


def test_stream_v2_keeps_a_whole_answer_and_no_part_of_one(histories):
    class Model(Runnable[Any, Any]):
        def _open_stream_v2(self, call: StreamCall) -> Any:
            async def events() -> Any:
                value, _ = await call.begin()
                status = "incomplete" if value[-1].text == "stop" else "complete"
                yield len(value)
                await call.end(AIMessage("ok", status=status))

            return drive_each(events())

    chain = RunnableWithMessageHistory(Model(), histories.of)

    assert list(chain.stream_v2("hi", CONFIG)) == [1]
    assert list(chain.stream_v2("stop", CONFIG)) == [3]
    assert histories.texts() == [("human", "hi"), ("ai", "ok")]


def test_schemas_say_what_goes_in(histories):
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories.of, input_messages_key="q")

    assert list(chain.get_input_schema().model_fields) == ["q"]
    assert "session_id" in chain.get_config_jsonschema()["$defs"]["Configurable"]["properties"]
    assert [node.name for node in chain.get_graph().nodes.values()][1] == "echo"


def test_chunks_are_kept_as_whole_messages(call, histories):
    chain = RunnableWithMessageHistory(RunnableLambda(lambda _: AIMessageChunk("hi")), histories.of)

    call.invoke(chain, "hi", CONFIG)

    assert type(histories.of("ann").messages[-1]) is AIMessage


def test_an_empty_stream_keeps_nothing(call, histories):
    def silent(inputs: Iterator[Any]) -> Iterator[str]:
        yield from ()

    assert (
        call.stream(
            RunnableWithMessageHistory(RunnableGenerator(silent), histories.of), "hi", CONFIG
        )
        == []
    )
    assert histories.texts() == []


def test_types_may_be_said(histories):
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories.of, custom_input_type=dict)

    assert chain.get_input_schema().model_json_schema()["type"] == "object"
    assert RunnableWithMessageHistory(RunnableLambda(echo), histories.of).OutputType is str
    keyed = RunnableWithMessageHistory(RunnableLambda(echo), histories.of, history_messages_key="h")
    assert keyed.get_input_schema().model_json_schema()["type"] == "object"
