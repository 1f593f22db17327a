"""Answers of a model: what they check, how they are shown, and how their chunks add up."""

from __future__ import annotations

import copy
import pickle

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessageChunk,
    message_chunk_to_message,
)
from foldline.messages.ai import add_ai_message_chunks, add_usage, subtract_usage
from foldline.protocol import fold, message_to_events


def slice_of(args=None, *, index=0, name=None, id=None, **more):
    part = {"name": name, "args": args, "id": id, "index": index, **more}
    return AIMessageChunk(content="", tool_call_chunks=[part])


def total(*chunks):
    return add_ai_message_chunks(*chunks)


def test_tool_calls_among_content_blocks_are_tool_calls():
    message = AIMessage(
        content_blocks=[
            {"type": "text", "text": "a"},
            {"type": "tool_call", "name": "f", "args": {}, "id": "1"},
            {"type": "invalid_tool_call", "name": "g", "args": "{", "id": "2", "error": "cut"},
        ]
    )

    assert [call["name"] for call in message.tool_calls] == ["f"]
    assert [call["error"] for call in message.invalid_tool_calls] == ["cut"]


def test_calls_in_additional_kwargs_are_read():
    raw = [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "2", "type": "function", "function": {"name": "f", "arguments": "[1]"}},
    ]
    message = AIMessage("", additional_kwargs={"tool_calls": raw})

    assert message.tool_calls == [{"type": "tool_call", "name": "f", "args": {"a": 1}, "id": "1"}]
    assert message.invalid_tool_calls[0]["args"] == "[1]"


@pytest.mark.parametrize(
    "fields",
    [
        {"content": 3},
        {"content": None},
        {"content": [3]},
        {"content": "", "tool_calls": [{"name": "f", "args": "{}", "id": "1"}]},
        {"content": "", "tool_calls": "f"},
        {"content": "", "usage_metadata": {"input_tokens": 1}},
        {"content": "", "response_metadata": 3},
        {"content": "", "finish_reason": "whim"},
    ],
)
def test_a_wrong_field_is_refused(fields):
    with pytest.raises(ValidationError):
        AIMessage(**fields)
    with pytest.raises(ValidationError):
        AIMessageChunk(**fields)


def test_content_and_content_blocks_together_are_refused():
    with pytest.raises(ValueError, match="not both"):
        AIMessage("a", content_blocks=[{"type": "text", "text": "b"}])


def test_text_is_a_property_and_a_method():
    message = AIMessage(
        [{"type": "text", "text": "a"}, "b", {"type": "reasoning", "reasoning": "c"}]
    )

    assert message.text == "ab"
    assert message.text() == "ab"
    assert type(message.text()) is str


def test_pretty_repr_shows_calls():
    message = AIMessage(
        "x",
        name="bob",
        tool_calls=[{"name": "a", "args": {"q": [1]}, "id": "1"}],
        invalid_tool_calls=[{"name": "b", "args": "{", "id": "2", "error": "bad"}],
    )

    assert message.pretty_repr() == (
        "================================== Ai Message ==================================\n"
        "Name: bob\n\nx\nTool Calls:\n  a (1)\n Call ID: 1\n  Args:\n    q: [1]\n"
        "Invalid Tool Calls:\n  b (2)\n Call ID: 2\n  Error: bad\n  Args:\n    {"
    )


def test_html_for_notebooks_is_escaped():
    html = AIMessage("<script>alert('x')</script>")._repr_html_()

    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_chunk_from_text_is_like_a_checked_one():
    quick = AIMessageChunk("hi")
    validated = AIMessageChunk(content="hi", additional_kwargs={})

    assert quick == validated
    assert quick.model_dump() == validated.model_dump()
    assert repr(quick) == repr(validated)
    assert quick.model_dump(exclude_unset=True) == {"content": "hi"}


VIEWS = {
    "model_dump": lambda chunk: chunk.model_dump(),
    "model_dump_json": lambda chunk: chunk.model_dump_json(),
    "dict": dict,
    "vars": vars,
    "repr": repr,
    "str": str,
    "copy": lambda chunk: dict(copy.copy(chunk)),
    "deepcopy": lambda chunk: dict(copy.deepcopy(chunk)),
    "pickle": lambda chunk: dict(pickle.loads(pickle.dumps(chunk))),
    "model_copy": lambda chunk: dict(chunk.model_copy()),
    "model_validate": lambda chunk: dict(AIMessageChunk.model_validate(chunk.model_dump())),
    "fields_set": lambda chunk: chunk.model_fields_set - {"tool_calls", "invalid_tool_calls"},
    "field of a model": lambda chunk: TypeAdapter(list[AnyMessage]).dump_python([chunk]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_an_unread_sum_sees_the_whole(view):
    chunks = [
        AIMessageChunk("a"),
        slice_of('{"x":', name="f", id="1"),
        slice_of("1}"),
        AIMessageChunk(content="b", id="m", response_metadata={"k": 1}),
    ]
    plain = AIMessageChunk(
        content="ab",
        id="m",
        response_metadata={"k": 1},
        tool_call_chunks=[{"name": "f", "args": '{"x":1}', "id": "1", "index": 0}],
    )

    view_of_sum, expected = VIEWS[view](total(*chunks)), VIEWS[view](plain)

    if view in ("repr", "str", "model_dump_json"):
        assert sorted(view_of_sum) == sorted(
            expected
        )  # the keys of a call may stand in another order
    else:
        assert view_of_sum == expected


def test_a_sum_equals_a_chunk_that_says_the_same():
    assert AIMessageChunk("a") + AIMessageChunk("b") == AIMessageChunk("ab")
    assert AIMessageChunk("a") + AIMessageChunk("b") != AIMessageChunk("ba")
    assert AIMessageChunk("ab") != AIMessage("ab")


def test_an_older_sum_keeps_what_it_was():
    first = AIMessageChunk("a") + AIMessageChunk("b")
    second = first + AIMessageChunk("c")
    other = first + AIMessageChunk("d")

    assert [second.content, other.content, first.content] == ["abc", "abd", "ab"]


def test_T62_changing_a_chunk_after_adding_it_changes_no_sum():
    metadata = {"k": {"deep": [1]}}
    chunk = AIMessageChunk(content="b", response_metadata=metadata)
    total = AIMessageChunk("a") + chunk

    chunk.content = "changed"
    chunk.response_metadata["k"]["deep"].append(2)

    assert total.content == "ab"
    assert total.response_metadata == {"k": {"deep": [1]}}


def test_changing_a_sum_in_place_is_kept_by_later_sums():
    total = AIMessageChunk("a") + AIMessageChunk("b")
    total.response_metadata["k"] = 1
    total.id = "m"

    later = total + AIMessageChunk("c")

    assert (later.content, later.response_metadata, later.id) == ("abc", {"k": 1}, "m")


def test_extra_fields_survive_addition():
    total = AIMessageChunk(content="a", mood="good") + AIMessageChunk("b")
    total.colour = "blue"

    assert (total + AIMessageChunk("c")).model_extra == {"mood": "good", "colour": "blue"}


def test_subclass_fields_survive_addition():
    class Tagged(AIMessageChunk):
        tag: str = "none"

    total = Tagged(content="a", tag="x") + Tagged(content="b", tag="y")

    assert type(total) is Tagged
    assert (total.content, total.tag) == ("ab", "y")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "b", "ab"),
        ("", [{"type": "text", "text": "b"}], [{"type": "text", "text": "b"}]),
        ("a", ["b"], ["a", "b"]),
        (["a"], "b", ["ab"]),
        (["a"], "", ["a"]),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "b"}],
         [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ([{"type": "text", "text": "a", "index": 0}], [{"type": "text", "text": "b", "index": 0}],
         [{"type": "text", "text": "ab", "index": 0}]),
        ([{"type": "text", "text": "a", "index": 0}], [{"type": "text", "text": "b", "index": "0"}],
         [{"type": "text", "text": "ab", "index": 0}]),
    ],
)  # fmt: skip
def test_contents_add_up(left, right, expected):
    assert (AIMessageChunk(left) + AIMessageChunk(right)).content == expected


def test_T38_text_and_tool_at_one_index_are_two_blocks():
    text = [{"type": "text", "text": "a", "index": 0}]
    tool = [{"type": "tool_call_chunk", "args": "{}", "name": "f", "id": "1", "index": 0}]

    total = AIMessageChunk(text) + AIMessageChunk(tool) + AIMessageChunk(text)

    assert [block["type"] for block in total.content] == ["text", "tool_call_chunk"]
    assert total.content[0]["text"] == "aa"


@pytest.mark.parametrize(
    "args", ["[1]", "null", '"x"', "3", "NaN", '{"a": Infinity}', '{"a": 1', "{,}"]
)
def test_T20_T21_T43_arguments_that_are_no_object_are_invalid(args):
    total = slice_of(args, name="f", id="1") + AIMessageChunk(content="", chunk_position="last")

    assert total.tool_calls == []
    assert total.invalid_tool_calls[0]["args"] == args
    assert total.invalid_tool_calls[0]["error"]


def test_T22_empty_ids_and_names_never_overwrite():
    total = slice_of('{"a":', name="f", id="1") + slice_of("1}", name="", id="")

    assert total.tool_calls == [{"type": "tool_call", "name": "f", "args": {"a": 1}, "id": "1"}]


def test_T23_whole_calls_without_ids_stay_apart():
    total = slice_of("{}", name="f", index=None) + slice_of("{}", name="g", index=None)

    assert [call["name"] for call in total.tool_calls] == ["f", "g"]
    assert [call["id"] for call in total.tool_calls] == [None, None]


def test_T24_a_call_without_a_name_is_invalid():
    assert slice_of("{}", id="1").tool_calls == []
    assert slice_of("{}", id="1").invalid_tool_calls[0]["id"] == "1"


def test_T25_extras_on_a_later_slice_are_on_the_call():
    total = slice_of("{", name="f", id="1") + slice_of("}", extras={"signature": "s"})

    assert total.tool_calls[0]["extras"] == {"signature": "s"}


def test_T26_a_name_in_pieces_grows_until_arguments_come():
    message = total(
        slice_of("", name="get_", id="1"),
        slice_of("", name="weather"),
        slice_of("{}", name=None),
        slice_of("", name="x"),
    )

    assert message.tool_calls[0]["name"] == "get_weather"


def test_T27_T28_no_arguments_are_an_empty_object():
    assert slice_of(None, name="f", id="1").tool_calls[0]["args"] == {}
    assert slice_of("", name="f", id="1").tool_calls[0]["args"] == {}


def test_T30_slices_interleave_by_index():
    message = total(
        slice_of('{"a"', name="f", id="1", index=0),
        slice_of('{"b"', name="g", id="2", index=1),
        slice_of(":1}", index=0),
        slice_of(":2}", index=1),
    )

    assert [call["args"] for call in message.tool_calls] == [{"a": 1}, {"b": 2}]


def test_T31_T32_different_ids_are_different_calls():
    same_index = slice_of("{}", name="f", id="1") + slice_of("{}", name="f", id="2")
    no_index = slice_of("{}", name="f", id="1", index=None) + slice_of(
        "{}", name="f", id="2", index=None
    )

    assert [call["id"] for call in same_index.tool_calls] == ["1", "2"]
    assert [call["id"] for call in no_index.tool_calls] == ["1", "2"]


def test_T33_T34_one_id_or_one_index_is_one_call():
    same_id = slice_of("{", name="f", id="1", index=None) + slice_of("}", id="1", index=None)
    same_index = slice_of("{", name="f", id="1", index=0) + slice_of("}", index="0")

    assert len(same_id.tool_calls) == len(same_index.tool_calls) == 1


def test_T35_two_slices_of_one_call_in_one_chunk():
    parts = [
        {"name": "f", "args": "{", "id": "1", "index": 0},
        {"name": None, "args": "}", "id": None, "index": 0},
    ]
    chunk = AIMessageChunk(content="", tool_call_chunks=parts)

    assert [call["args"] for call in chunk.tool_calls] == [{}]


def test_T37_the_last_chunk_also_carries_arguments():
    last = AIMessageChunk(
        content="",
        tool_call_chunks=[{"name": None, "args": "1}", "id": None, "index": 0}],
        chunk_position="last",
    )
    total = slice_of('{"a":', name="f", id="1") + last

    assert total.tool_calls[0]["args"] == {"a": 1}
    assert total.chunk_position == "last"


def test_partial_arguments_are_guessed_until_the_end():
    so_far = slice_of('{"city": "Par', name="f", id="1")

    assert so_far.tool_calls[0]["args"] == {"city": "Par"}
    assert message_chunk_to_message(so_far).invalid_tool_calls[0]["args"] == '{"city": "Par'


def test_reading_calls_at_every_step_parses_each_slice_once():
    total = slice_of('{"text": "', name="write", id="1")
    for _ in range(2_000):
        total = total + slice_of("word ")
        assert total.tool_calls[0]["args"]["text"].endswith("d ")

    assert len(total.tool_calls[0]["args"]["text"]) == 10_000


def test_T58_T61_usage_is_summed_with_details_and_unknown_keys():
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
        "input_token_details": {"cache_read": 1, "odd": 3},
        "queries": 2,
    }
    chunk = AIMessageChunk(content="", usage_metadata=usage)

    assert (chunk + chunk).usage_metadata == {
        "input_tokens": 2,
        "output_tokens": 4,
        "total_tokens": 6,
        "input_token_details": {"cache_read": 2, "odd": 6},
        "queries": 4,
    }


def test_usage_adds_and_subtracts():
    usage = {
        "input_tokens": 5,
        "output_tokens": 2,
        "total_tokens": 7,
        "input_token_details": {"audio": 1},
    }

    assert add_usage(None, None) == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert add_usage(None, usage) == usage
    assert subtract_usage(usage, add_usage(usage, usage)) == {
        "input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "input_token_details": {"audio": 0},
    }  # fmt: skip


def test_T63_T64_metadata_is_never_joined_as_text():
    first = AIMessageChunk(
        content="", response_metadata={"model_name": "m-1", "finish_reason": None}
    )
    two = AIMessageChunk(
        content="", response_metadata={"model_name": "m-1", "finish_reason": "stop"}
    )

    assert (first + two).response_metadata == {"model_name": "m-1", "finish_reason": "stop"}


def test_log_probabilities_in_metadata_are_extended():
    chunks = [
        AIMessageChunk(content="", response_metadata={"logprobs": {"content": [{"token": token}]}})
        for token in "abc"
    ]

    assert [item["token"] for item in total(*chunks).response_metadata["logprobs"]["content"]] == [
        *"abc"
    ]


def test_additional_kwargs_merge_deeply():
    first = AIMessageChunk(
        content="", additional_kwargs={"reasoning_content": "a", "d": {"x": [1]}}
    )
    two = AIMessageChunk(content="", additional_kwargs={"reasoning_content": "b", "d": {"x": [2]}})

    assert (first + two).additional_kwargs == {"reasoning_content": "ab", "d": {"x": [1, 2]}}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (None, "p", "p"),
        ("", "p", "p"),
        ("p1", "p2", "p1"),
        ("lc_1", "p", "p"),
        ("lc_run-1", "p", "p"),
        ("run-1", "p", "p"),
        ("lc_1", "lc_run-2", "lc_run-2"),
        ("p", "lc_run-2", "p"),
    ],
)
def test_T67_a_providers_id_wins(left, right, expected):
    assert (
        AIMessageChunk(content="", id=left) + AIMessageChunk(content="", id=right)
    ).id == expected


def test_sum_and_lists_of_chunks():
    chunks = [AIMessageChunk("a"), AIMessageChunk("b"), AIMessageChunk("c")]

    assert sum(chunks).content == "abc"
    assert (chunks[0] + chunks[1:]).content == "abc"


def test_only_chunks_add_up():
    with pytest.raises(TypeError, match="only chunks add up"):
        AIMessageChunk("a") + "b"
    with pytest.raises(TypeError, match="only chunks add up"):
        AIMessageChunk("a") + AIMessage("b")


def test_chunks_of_two_kinds_give_the_first_kind():
    assert (AIMessageChunk("a") + HumanMessageChunk("b")) == AIMessageChunk("ab")
    assert (HumanMessageChunk("b") + AIMessageChunk("a")) == HumanMessageChunk("ba")


def test_half_characters_cut_between_chunks_are_joined():
    total = AIMessageChunk._trusted(content="\ud83d") + AIMessageChunk._trusted(content="\ude00")

    assert total.content == "😀"


def test_a_chunk_is_a_field_of_a_model():
    class Turn(BaseModel):
        chunk: AIMessageChunk

    turn = Turn(chunk=AIMessageChunk("a") + AIMessageChunk("b"))

    assert turn.model_dump()["chunk"]["content"] == "ab"
    assert Turn.model_validate_json(turn.model_dump_json()) == turn


def test_calls_with_values_json_does_not_know_become_slices_all_the_same():
    chunk = AIMessageChunk(
        content="", tool_calls=[{"name": "f", "args": {"at": {1, 2}}, "id": "1"}]
    )

    assert chunk.tool_call_chunks[0]["name"] == "f"


def test_a_call_reads_the_same_in_a_message_in_a_sum_and_after_events():
    slices = ({"name": "f", "args": '{"a":', "id": "1", "index": 0}, {"args": "1}", "index": 0})
    call_message = AIMessage("", tool_calls=[{"id": "1", "name": "f", "args": {"a": 1}}])
    first, last = (
        AIMessageChunk("", tool_call_chunks=[{"name": None, "id": None, **tool_slice}])
        for tool_slice in slices
    )
    replayed = AIMessage.from_fold(fold(message_to_events(call_message)))

    for message in (call_message, first + last, replayed):
        assert [list(call) for call in message.tool_calls] == [["name", "args", "id", "type"]]
    for message in (call_message, replayed):
        assert list(message.content_blocks[0]) == ["type", "id", "name", "args"]
