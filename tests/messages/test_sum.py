"""Adding chunks up: in any grouping the same, and in time that grows with the number of chunks only."""

from __future__ import annotations

import operator
import time
from functools import reduce

import pytest
from hypothesis import given, settings, strategies as st

from foldline.messages import AIMessageChunk
from tests.strategies import ids, json_objects, metadata_dicts, names, texts, usages

pytestmark = pytest.mark.timing

indexes = st.none() | st.integers(0, 2) | st.sampled_from(["0", "1"])
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "reasoning"]), "text": texts},
    optional={"index": st.integers(0, 2), "id": ids, "extras": json_objects},
)
contents = texts | st.lists(texts | blocks, max_size=3)
slices = st.fixed_dictionaries(
    {
        "name": st.none() | names,
        "args": st.none() | texts,
        "id": st.none() | st.sampled_from(["", "a", "b"]),
        "index": indexes,
    }
)


def complete_usage(usage):
    return {"total_tokens": usage["input_tokens"] + usage["output_tokens"], **usage}


chunks = st.builds(
    AIMessageChunk,
    content=contents,
    id=st.none() | st.sampled_from(["lc_1", "lc_run-1", "run-1", "p1", "p2"]),
    name=st.none() | names,
    tool_call_chunks=st.lists(slices, max_size=2),
    usage_metadata=st.none() | usages.map(complete_usage),
    response_metadata=metadata_dicts,
    additional_kwargs=json_objects,
    chunk_position=st.none() | st.just("last"),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(chunks, chunks, chunks)
def test_addition_is_associative(first, two, three):
    assert (first + two) + three == first + (two + three)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(chunks, chunks, chunks)
def test_reading_in_between_changes_nothing(first, two, three):
    unread = first + two + three
    half = first + two
    repr(half)

    assert half + three == unread


@given(st.lists(texts, min_size=1), st.data())
def test_text_cut_anywhere_adds_up_to_the_same(pieces, data):
    text = "".join(pieces)
    place = data.draw(st.integers(0, len(text)))

    total = reduce(operator.add, map(AIMessageChunk, pieces))
    two = AIMessageChunk(text[:place]) + AIMessageChunk(text[place:])

    assert total.content == two.content == text


def seconds(chunk, number):
    parts = [chunk(content="token ") for _ in range(number)]
    start = time.process_time()
    reduce(operator.add, parts).content  # noqa: B018  reading is what is timed
    return time.process_time() - start


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(chunks, st.lists(chunks, max_size=3))
def test_adding_a_list_is_adding_each(first, others):
    assert first + others == reduce(operator.add, others, first)


@pytest.mark.slow
def test_accumulating_is_linear():
    small = min(seconds(AIMessageChunk, 2_000) for _ in range(5)) / 2_000
    large = min(seconds(AIMessageChunk, 200_000) for _ in range(2)) / 200_000

    assert large < small * 4  # per chunk; a quadratic sum would cost a hundred times more


@pytest.mark.slow
def test_T44_accumulating_tool_arguments_is_linear():
    def cost(number):
        part = {"name": None, "args": "0123456789", "id": None, "index": 0}
        first = {**part, "name": "f", "id": "1", "args": '{"a": "'}
        parts = [
            AIMessageChunk._trusted(content="", tool_call_chunks=[part]) for _ in range(number)
        ]
        total = AIMessageChunk._trusted(content="", tool_call_chunks=[first])
        start = time.process_time()
        for chunk in parts:
            total = total + chunk
        assert len(total.tool_calls[0]["args"]["a"]) == number * 10
        return (time.process_time() - start) / number

    assert cost(20_000) < min(cost(1_000) for _ in range(3)) * 5


def test_metadata_on_every_chunk_is_merged_in_reasonable_time():
    parts = [
        AIMessageChunk._trusted(
            content="a",
            additional_kwargs={"reasoning_content": "x"},
            response_metadata={"n": number},
        )
        for number in range(5_000)
    ]

    total = reduce(operator.add, parts)

    assert len(total.additional_kwargs["reasoning_content"]) == 5_000
    assert total.response_metadata == {"n": 4_999}


def test_lists_in_repeated_metadata_grow_whether_or_not_the_sum_is_read_in_between():
    first = AIMessageChunk("", response_metadata={"a": None})
    others = [AIMessageChunk("", response_metadata={"model_name": {"x": [1]}}) for _ in range(2)]

    unread = first + others[0] + others[1]
    half = first + others[0]
    repr(half)

    assert (half + others[1]).response_metadata == unread.response_metadata
    assert unread.response_metadata["model_name"] == {"x": [1, 1]}
