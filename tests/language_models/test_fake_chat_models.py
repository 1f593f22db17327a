"""The fake chat models under LangChain's names."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.language_models import (
    FakeChatModel,
    FakeListChatModel,
    FakeMessagesListChatModel,
    GenericFakeChatModel,
    ParrotFakeChatModel,
    get_tokenizer,
    is_openai_data_block,
)
from foldline.language_models.fake_chat_models import FakeListChatModelError
from foldline.messages import AIMessage, HumanMessage
from tests.language_models.reading import answer


def texts(chunks: list[Any]) -> list[str]:
    return [chunk.text for chunk in chunks if chunk.text]


def test_a_list_of_texts_is_answered_in_turn_and_spelled(call):
    model = FakeListChatModel(responses=["ab", "c"])

    assert [call.invoke(model, "x").text for _ in range(3)] == ["ab", "c", "ab"]
    model.i = 0
    assert texts(call.stream(model, "x")) == ["a", "b"]
    model.i = 0
    assert [answer.text for answer in call.batch(model, ["1", "2", "3"])] == ["ab", "c", "ab"]
    model.i = 0
    configs = [{"tags": ["a"]}, {"tags": ["b"]}]
    assert [answer.text for answer in call.batch(model, ["1", "2"], configs)] == ["ab", "c"]


def test_a_list_model_breaks_where_it_is_told(call):
    model = FakeListChatModel(responses=["abc"], error_on_chunk_number=1, sleep=0.0)

    with pytest.raises(FakeListChatModelError):
        call.stream(model, "x")
    assert call.invoke(model, "x").text == "abc"


def test_messages_are_answered_in_turn_and_stay_as_scripted(call):
    script = [AIMessage("a"), AIMessage("b", id="given")]
    model = FakeMessagesListChatModel(responses=script)

    first, second = call.invoke(model, "x"), call.invoke(model, "x")

    assert (first.text, second.id) == ("a", "given")
    assert script[0].id is None


def test_a_generic_fake_streams_words_calls_and_kwargs(call):
    message = AIMessage(
        "hello  big\nworld",
        tool_calls=[{"name": "f", "args": {"a": 1, "b": 2}, "id": "c"}],
        additional_kwargs={
            "function_call": {"name": "move", "arguments": '{"a": 1, "b": 2}'},
            "k": 3,
        },
        response_metadata={"model_name": "m"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    model = GenericFakeChatModel(messages=iter([message] * 3))

    streamed_message = answer(call, model)
    invoked_message = call.invoke(model, "x")

    assert texts(call.stream(model, "x")) == ["hello", " ", " ", "big", "\n", "world"]
    for result in (streamed_message, invoked_message):
        assert result.text == message.text
        assert result.tool_calls[0]["args"] == {"a": 1, "b": 2}
        assert result.additional_kwargs == message.additional_kwargs
        assert result.usage_metadata == message.usage_metadata
        assert result.response_metadata["model_name"] == "m"


def test_a_generic_fake_streams_blocks_too(call):
    blocks = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a b"}]
    model = GenericFakeChatModel(messages=iter([AIMessage(content=blocks)]))

    assert answer(call, model).content == blocks


def test_a_generic_fake_that_has_no_answer_left_says_so(call):
    model = GenericFakeChatModel(messages=iter(["a"]))

    assert call.invoke(model, "x").text == "a"
    with pytest.raises(UsageError, match="no answer left"):
        call.invoke(model, "x")


def test_a_parrot_repeats_and_the_simplest_fake_answers(call):
    assert call.invoke(ParrotFakeChatModel(), [HumanMessage("a"), HumanMessage("b")]).text == "b"
    assert texts(call.stream(ParrotFakeChatModel(), "b")) == ["b"]
    assert call.invoke(FakeChatModel(), "x").text == "fake response"
    with pytest.raises(UsageError, match="at least one"):
        call.invoke(ParrotFakeChatModel(), [])


def test_the_tokenizer_needs_no_network():
    assert get_tokenizer().encode("12345") == [0, 1]


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ({"type": "image_url", "image_url": {"url": "x"}}, "image"),
        ({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}, "audio"),
        ({"type": "file", "file": {"file_id": "x"}}, "file"),
        ({"type": "image_url", "image_url": "x"}, None),
        ({"type": "input_audio", "input_audio": {"data": "x"}}, None),
        ({"type": "file", "file": {}}, None),
        ({"type": "text", "text": "x"}, None),
    ],
)
def test_openais_data_blocks_are_known(block, kind):
    assert is_openai_data_block(block) is (kind is not None)
    for other in ("image", "audio", "file"):
        assert is_openai_data_block(block, other) is (kind == other)
