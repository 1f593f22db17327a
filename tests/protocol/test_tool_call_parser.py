"""From the text of a call to a call, strictly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from foldline.protocol import parse_tool_args, promote
from foldline.protocol.tool_call_parser import is_growing_call, is_server_call
from tests.strategies import json_objects, json_values, texts


def chunk(args, name="look", **more):
    return {"type": "tool_call_chunk", "id": "c1", "name": name, "args": args, **more}


@pytest.mark.parametrize("args", ["", None, "  ", "{}"])
def test_T27_no_arguments_are_an_empty_object(args):
    assert promote(chunk(args)) == {"type": "tool_call", "id": "c1", "name": "look", "args": {}}


@pytest.mark.parametrize(
    ("args", "noun"),
    [
        ("[1]", "a list"),
        ("null", "null"),
        ('"x"', "a string"),
        ("3", "a number"),
        ("true", "a boolean"),
    ],
)
def test_T20_arguments_that_are_no_object_are_invalid(args, noun):
    block = promote(chunk(args))

    assert block["type"] == "invalid_tool_call"
    assert block["args"] == args
    assert noun in block["error"]


@pytest.mark.parametrize(
    "args", ['{"a": 1', '{"a" 1}', '{"a": 1} x', '{"a": 1}{"b": 2}', "{'a': 1}"]
)
def test_T21_F_U01_F_U02_malformed_arguments_are_invalid_with_their_text_and_a_place(args):
    block = promote(chunk(args))

    assert block["type"] == "invalid_tool_call"
    assert block["args"] == args
    assert "char" in block["error"]


@pytest.mark.parametrize(
    "args",
    ['{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": 1, "a": 2}'],
)
def test_T43_F_U04_numbers_that_are_none_and_doubled_keys_are_refused(args):
    assert promote(chunk(args))["type"] == "invalid_tool_call"


def test_F_U04_large_whole_numbers_are_exact():
    assert parse_tool_args('{"n": 1180591620717411303424}') == {"n": 2**70}


def test_depth_is_bounded():
    deep = '{"a":' * 201 + "1" + "}" * 201

    assert "200" in parse_tool_args(deep)
    assert isinstance(parse_tool_args('{"a":' * 200 + "1" + "}" * 200), dict)


def test_F_U08_a_megabyte_of_open_brackets_is_refused_at_once():
    assert isinstance(parse_tool_args('{"a":' + "[" * 1_000_000), str)


@pytest.mark.parametrize("name", ["", None, 7])
def test_T24_a_call_without_a_name_is_invalid(name):
    block = promote(chunk("{}", name=name))

    assert block["type"] == "invalid_tool_call"
    assert "names no tool" in block["error"]


def test_T41_a_bad_server_call_is_marked_as_the_providers_own():
    block = promote({"type": "server_tool_call_chunk", "id": "s", "name": "search", "args": "{"})

    assert block["type"] == "invalid_tool_call"
    assert is_server_call(block)
    assert not is_server_call(promote(chunk("{")))
    assert is_server_call(promote({**chunk("{}"), "type": "server_tool_call_chunk"}))


def test_a_growing_call_is_told_from_a_finished_one():
    assert is_growing_call(chunk("{"))
    assert not is_growing_call(promote(chunk("{}")))


def test_extras_go_along():
    assert promote(chunk("{}", extras={"thought": "x"}))["extras"] == {"thought": "x"}
    assert promote(chunk("{", extras={"thought": "x"}))["extras"] == {"thought": "x"}


def test_an_unfinished_call_is_invalid_even_if_its_text_parses():
    block = promote(chunk('{"a": 1}'), unfinished="the stream was cut")

    assert (block["type"], block["error"]) == ("invalid_tool_call", "the stream was cut")


def test_lone_halves_of_characters_in_arguments_can_be_stored():
    assert parse_tool_args('{"a": "\\ud83d"}') == {"a": "\\ud83d"}
    assert parse_tool_args('{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_other_blocks_come_back_as_copies():
    block = {"type": "text", "text": "x", "extras": {"a": [1]}}

    assert promote(block) == block
    assert promote(block)["extras"]["a"] is not block["extras"]["a"]


@given(json_objects)
def test_what_json_writes_is_what_the_call_gets(args):
    assert promote(chunk(json.dumps(args)))["args"] == args


@given(st.text() | json_values, st.text() | st.none() | st.integers())
def test_promotion_never_raises(args, name):
    for kind in ("tool_call_chunk", "server_tool_call_chunk", "tool_call"):
        block = promote({"type": kind, "id": None, "name": name, "args": args})

        assert block["type"] in ("tool_call", "server_tool_call", "invalid_tool_call")


@given(texts)
def test_an_invalid_call_keeps_its_text(args):
    block = promote(chunk(args))

    assert block["type"] == "tool_call" or block["args"] == args


def test_objects_that_are_not_json_are_refused():
    assert promote({**chunk(None), "type": "tool_call", "args": {"a": float("nan")}})["type"] == (
        "invalid_tool_call"
    )
    assert promote({**chunk(None), "args": [1, 2]})["args"] == "[1, 2]"
