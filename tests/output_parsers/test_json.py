"""JSON out of answers: whole, fenced, in prose, cut off, streaming, as differences, as objects."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, Field

from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage, AIMessageChunk
from foldline.output_parsers import JsonOutputParser, PydanticOutputParser, SimpleJsonOutputParser
from foldline.utils._json_patch import apply_patch

pytestmark = pytest.mark.timing

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)
PROSE = st.sampled_from(
    [
        "",
        "Sure: ",
        "See [1] and {x} and {}: ",
        "```json\n",
        "Here:\n```\n",
        "`",
        "  \n",
        "{ not",
        "a ``` b ",
    ]
)
AFTER = st.sampled_from(["", "\n```", " done", "\n```\nThat was {it}.", "`", "\n"])


def split(text: str, size: int = 3) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def partition(data: st.DataObject, text: str) -> list[str]:
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure:\n```json\n{"a": 1}\n```\nbye', {"a": 1}),
        ('Sure: {"a": 1} bye', {"a": 1}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ("12", 12),
        ('"text"', "text"),
        ('The {} of ```{"b": 2}```', {"b": 2}),
    ],
)
def test_json_is_found_where_it_stands(call, text, value):
    parser = JsonOutputParser()

    assert call.invoke(parser, text) == value
    assert call.invoke(parser, AIMessage(text)) == value
    assert call.transform(parser, split(text))[-1] == value


def test_the_value_so_far_streams_and_only_when_it_is_new(call):
    text = '{"a": [1, {"b": "xyz"}], "c": null, "d": "é\\n", "e": {}}'

    assert call.transform(JsonOutputParser(), split(text)) == [
        {},
        {"a": [1]},
        {"a": [1, {}]},
        {"a": [1, {"b": "x"}]},
        {"a": [1, {"b": "xyz"}]},
        {"a": [1, {"b": "xyz"}], "c": None},
        {"a": [1, {"b": "xyz"}], "c": None, "d": ""},
        {"a": [1, {"b": "xyz"}], "c": None, "d": "é\n"},
        {"a": [1, {"b": "xyz"}], "c": None, "d": "é\n", "e": {}},
    ]


def test_results_given_before_do_not_change(call):
    results = call.transform(JsonOutputParser(), split('{"a": [1, 2, {"b": [3]}]}', 1))

    assert results[0] == {}
    assert len({json.dumps(result) for result in results}) == len(results)


def test_differences_stream_as_json_patches(call):
    patches = call.transform(JsonOutputParser(diff=True), ["[1", "3, 2", ', {"a/b~c": 1}', "] "])

    assert patches == [
        [{"op": "replace", "path": "", "value": [1]}],
        [{"op": "replace", "path": "/0", "value": 13}, {"op": "add", "path": "/1", "value": 2}],
        [{"op": "add", "path": "/2", "value": {"a/b~c": 1}}],
    ]


@pytest.mark.parametrize("text", ["nope", "nope }", "[1 oops", '{"a": 1 oops', "{'a': 1}"])
def test_an_answer_without_json_is_a_typed_error_with_the_answer_kept(call, text):
    for run in (
        lambda: call.invoke(JsonOutputParser(), text),
        lambda: call.transform(JsonOutputParser(), split(text)),
    ):
        with pytest.raises(OutputParserException) as excinfo:
            run()
        assert excinfo.value.llm_output == text


def test_nothing_streams_from_nothing(call):
    assert call.transform(JsonOutputParser(), ["", " ", "\n"]) == []
    assert call.transform(JsonOutputParser(), [AIMessageChunk("")]) == []
    with pytest.raises(OutputParserException):
        call.invoke(JsonOutputParser(), "")


def test_a_long_answer_is_cut_in_the_message_and_whole_in_the_error():
    text = "no " * 10_000
    with pytest.raises(OutputParserException) as excinfo:
        JsonOutputParser().parse(text)
    assert len(str(excinfo.value)) < 2000
    assert excinfo.value.llm_output == text


@settings(max_examples=120, deadline=None)
@given(PROSE, VALUES, AFTER, st.data())
def test_however_an_answer_is_cut_the_last_result_is_that_of_the_whole(before, value, after, data):
    text = before + json.dumps(value, ensure_ascii=data.draw(st.booleans())) + after
    parser = JsonOutputParser()
    try:
        expected = parser.parse(text)
    except OutputParserException:
        with pytest.raises(OutputParserException):
            list(parser.transform(iter(partition(data, text))))
        return
    results = list(parser.transform(iter(partition(data, text))))
    if expected is None:
        assert results == [] or results[-1] is None or before
    else:
        assert results[-1] == expected


@settings(max_examples=80, deadline=None)
@given(OBJECTS, st.data())
def test_applying_all_differences_gives_the_value(value, data):
    state: Any = None
    for patch in JsonOutputParser(diff=True).transform(iter(partition(data, json.dumps(value)))):
        state = apply_patch(state, patch)
    assert state == value


@settings(max_examples=120, deadline=None)
@given(st.text('{}[]",:`json 1e-.tfn\\u\n', max_size=60), st.data())
def test_any_answer_gives_a_value_or_a_typed_error(text, data):
    for run in (
        lambda: JsonOutputParser().parse(text),
        lambda: list(JsonOutputParser().transform(iter(partition(data, text)))),
    ):
        with suppress(OutputParserException):
            run()


@pytest.mark.parametrize(
    "text",
    [
        "{" * 20_000,
        '{"' * 10_000,
        "[" * 20_000,
        "```json\n" * 3_000,
        '{"a":' * 5_000,
        "[1," * 6_000,
        '{"a": "' + "x" * 20_000,
    ],
    ids=lambda text: text[:8],
)
def test_F_U08_hostile_answers_cost_no_more_than_their_length(text):
    for pieces in ([text], split(text, 500)):
        start = time.process_time()
        try:
            for _ in JsonOutputParser().transform(iter(pieces)):
                pass
        except OutputParserException:
            pass
        assert time.process_time() - start < 5


def test_a_stream_costs_what_it_is_long():
    def cost(items: int) -> float:
        text = json.dumps({"items": [{"id": i, "name": f"item {i}"} for i in range(items)]})
        best = 1e9
        for _ in range(3):
            pieces = [AIMessageChunk(piece) for piece in split(text, 6)]
            start = time.process_time()
            for _ in JsonOutputParser().transform(iter(pieces)):
                pass
            best = min(best, time.process_time() - start)
        return best

    assert cost(600) / cost(150) < 4 * 2.5


class Joke(BaseModel):
    """A joke."""

    setup: str = Field(description="the question")
    punchline: str = "x"


def test_an_answer_as_an_object(call):
    parser = PydanticOutputParser(pydantic_object=Joke)

    assert call.invoke(parser, '```json\n{"setup": "a"}\n```') == Joke(setup="a")
    assert parser.OutputType is Joke


def test_objects_so_far_stream_as_soon_as_they_are_valid(call):
    parser = PydanticOutputParser(pydantic_object=Joke)
    results = call.transform(parser, ['{"pun', 'chline": "p", ', '"setup": "a', 'bc"}'])

    assert results == [Joke(setup="a", punchline="p"), Joke(setup="abc", punchline="p")]
    patches = call.transform(
        PydanticOutputParser(pydantic_object=Joke, diff=True), ['{"setup": "a', 'b"}']
    )
    assert patches[1] == [{"op": "replace", "path": "/setup", "value": "ab"}]


@pytest.mark.parametrize("text", ['{"x": 1}', "nope", "[]"])
def test_an_answer_that_is_no_object_of_the_model_is_a_typed_error(call, text):
    parser = PydanticOutputParser(pydantic_object=Joke)
    with pytest.raises(OutputParserException) as excinfo:
        call.invoke(parser, text)
    assert excinfo.value.llm_output is not None
    with pytest.raises(OutputParserException):
        call.transform(parser, split(text))


def test_format_instructions_show_the_schema():
    for parser in (
        JsonOutputParser(pydantic_object=Joke),
        PydanticOutputParser(pydantic_object=Joke),
    ):
        instructions = parser.get_format_instructions()
        assert '"setup": {"description": "the question"' in instructions
        assert "{{" not in instructions
    assert "JSON" in JsonOutputParser().get_format_instructions()
    assert SimpleJsonOutputParser is JsonOutputParser


def test_subclasses_that_write_their_own_parse_are_asked_for_all_so_far(call):
    class Keys(JsonOutputParser):
        def parse_result(self, result, *, partial=False):
            value = super().parse_result(result, partial=partial)
            return sorted(value) if value is not None else None

    assert call.transform(Keys(), ['{"b": 1', ', "a": 2}']) == [["b"], ["a", "b"]]
