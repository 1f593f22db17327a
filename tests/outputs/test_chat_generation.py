"""Generations of chat models: a message, and the text of it."""

from __future__ import annotations

import copy
import pickle
import time

import pytest
from pydantic import ValidationError

from foldline.load import dumpd, load
from foldline.messages import AIMessage, AIMessageChunk
from foldline.outputs import ChatGeneration, ChatGenerationChunk, merge_chat_generation_chunks

pytestmark = pytest.mark.timing

CALL = {"name": "add", "args": {"a": 1}, "id": "call_1", "type": "tool_call"}


def chunk(text: object, **info: object) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=text), generation_info=info or None)


def test_the_text_is_the_text_of_the_message_whatever_was_given():
    assert ChatGeneration(message=AIMessage("a"), text="other").text == "a"
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "url": "u"}, "b"]
    assert ChatGeneration(message=AIMessage(blocks)).text == "ab"
    assert type(ChatGeneration(message=AIMessage(blocks)).text) is str


def test_pieces_add_up():
    total = chunk("a", p="1") + chunk("b") + [chunk("c", p="2"), chunk("d")]

    assert isinstance(total, ChatGenerationChunk)
    assert (total.text, total.message.content) == ("abcd", "abcd")
    assert total.generation_info == {"p": "12"}
    assert total == merge_chat_generation_chunks(
        [chunk("a", p="1"), chunk("bc", p="2"), chunk("d")]
    )


def test_text_of_interleaved_blocks_is_that_of_the_merged_message():
    first = [{"type": "text", "text": "a", "index": 0}, {"type": "text", "text": "b", "index": 1}]
    total = chunk(first) + chunk([{"type": "text", "text": "c", "index": 0}])

    assert total.text == total.message.text == "acb"


def test_merging_nothing_gives_nothing_and_one_gives_itself():
    first = chunk("a")
    assert merge_chat_generation_chunks([]) is None
    assert merge_chat_generation_chunks([first]) is first


def test_only_pieces_can_be_added():
    for other in (1, ChatGeneration(message=AIMessage("a")), [1]):
        with pytest.raises(TypeError, match="unsupported operand"):
            chunk("a") + other


def test_adding_many_pieces_is_linear():
    def seconds(count: int) -> float:
        parts = [chunk("word ") for _ in range(count)]
        start = time.perf_counter()
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        assert len(total.text) == 5 * count
        return time.perf_counter() - start

    seconds(200)
    small, large = min(seconds(1000) for _ in range(3)), min(seconds(8000) for _ in range(3))
    assert large / small < 8 * 2.5


def test_a_trusted_piece_is_like_any_other():
    message = AIMessageChunk(content="a", tool_calls=[CALL])
    trusted = ChatGenerationChunk._trusted(message, {"x": 1})

    assert trusted == ChatGenerationChunk(message=message, generation_info={"x": 1})
    assert (
        trusted.model_dump()
        == ChatGenerationChunk(message=message, generation_info={"x": 1}).model_dump()
    )
    assert trusted.type == "ChatGenerationChunk"
    assert ChatGeneration._trusted(AIMessage("a")) == ChatGeneration(message=AIMessage("a"))


def test_a_message_of_a_wrong_type_is_refused():
    with pytest.raises(ValidationError, match="message"):
        ChatGeneration(message="hello")


def test_tool_calls_survive_a_pydantic_dump():
    generation = ChatGeneration(message=AIMessage("a", tool_calls=[CALL]))

    copy = ChatGeneration.model_validate(generation.model_dump())

    assert copy == generation
    assert isinstance(copy.message, AIMessage)


@pytest.mark.parametrize(
    "generation",
    [
        ChatGeneration(message=AIMessage("a", tool_calls=[CALL]), generation_info={"lc": 1}),
        ChatGenerationChunk(message=AIMessageChunk(content="a", tool_calls=[CALL])),
        chunk("a", p=1) + chunk("b"),
    ],
)
def test_chat_generations_load_as_they_were_dumped(generation):
    loaded_generation = load(dumpd(generation))

    assert type(loaded_generation) is type(generation)
    assert type(loaded_generation.message) is type(generation.message)
    assert loaded_generation == generation


def test_a_piece_made_the_short_way_is_one_that_was_checked():
    quick = ChatGenerationChunk(message=AIMessageChunk(content="hi"))
    validated = ChatGenerationChunk.model_validate({"message": AIMessageChunk(content="hi")})
    assert quick == validated
    assert quick.model_dump() == validated.model_dump()
    assert repr(quick) == repr(validated)
    fresh = ChatGenerationChunk(message=AIMessageChunk(content="hi"))
    assert (fresh.text, fresh.generation_info, fresh.type) == ("hi", None, "ChatGenerationChunk")
    assert fresh.model_fields_set == {"message"}
    assert pickle.loads(pickle.dumps(ChatGenerationChunk(message=fresh.message))) == validated
    assert copy.deepcopy(ChatGenerationChunk(message=fresh.message)) == validated
