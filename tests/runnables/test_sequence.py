"""Sequences: values go from step to step, streams piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.runnables import Runnable, RunnableGenerator, RunnableLambda, RunnableSequence
from tests.runnables.recording import Recorder


def test_seed_004_a_sequence_made_with_a_pipe(call):
    sequence = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: x * 2)

    assert call.invoke(sequence, 1) == 4
    assert call.batch(sequence, [1, 2, 3]) == [4, 6, 8]


def test_seed_004_a_sequence_with_a_dict_in_it(call):
    sequence = RunnableLambda(lambda x: x + 1) | {
        "mul_2": RunnableLambda(lambda x: x * 2),
        "mul_5": RunnableLambda(lambda x: x * 5),
    }

    assert call.invoke(sequence, 1) == {"mul_2": 4, "mul_5": 10}


def test_seed_004_the_key_methods_exist_sync_and_async():
    for name in ("invoke", "ainvoke", "batch", "abatch", "stream", "astream"):
        assert callable(getattr(Runnable, name))


def test_a_sequence_can_be_made_of_a_list_of_steps(call):
    assert call.invoke(RunnableSequence(lambda x: x + 1, lambda x: x * 2), 1) == 4


def test_pipe_takes_many_steps_and_a_name(call):
    sequence = RunnableLambda(lambda x: x + 1).pipe(lambda x: x * 2, str, name="three")

    assert call.invoke(sequence, 1) == "4"
    assert sequence.get_name() == "three"


def test_functions_and_dicts_may_stand_on_the_left(call):
    add = RunnableLambda(lambda x: x["n"] + 1)

    assert call.invoke({"n": lambda x: x} | add, 1) == 2
    assert call.invoke((lambda x: {"n": x}) | add, 1) == 2


def test_nested_sequences_are_flattened():
    add = RunnableLambda(lambda x: x + 1)

    assert len(((add | add) | (add | add)).steps) == 4


def test_a_stream_flows_through_piece_by_piece(call):
    inputs: list[str] = []

    def letters(words: Iterator[str]) -> Iterator[str]:
        for word in words:
            for letter in word:
                inputs.append(letter)
                yield letter

    def shout(letters: Iterator[str]) -> Iterator[str]:
        for letter in letters:
            inputs.append(letter.upper())
            yield letter.upper()

    sequence = RunnableGenerator(letters) | shout

    assert call.stream(sequence, "ab") == ["A", "B"]
    assert inputs == ["a", "A", "b", "B"]
    assert call.invoke(sequence, "ab") == "AB"
    assert call.transform(sequence, ["a", "b"]) == ["A", "B"]


def test_keyword_arguments_are_for_the_first_step(call):
    def first(x: int, *, plus: int = 0) -> int:
        return x + plus

    sequence = RunnableLambda(first) | RunnableLambda(lambda x: x * 2)

    assert call.invoke(sequence, 1, plus=2) == 6
    assert call.stream(sequence, 1, plus=2) == [6]


def test_the_steps_of_a_traced_stream_start_in_order_and_end(call):
    recorder = Recorder()
    sequence = (
        RunnableLambda(lambda x: x, name="one")
        | RunnableGenerator(lambda_letters, name="two")
        | RunnableLambda(lambda x: x, name="three")
    )

    assert call.stream(sequence, "ab", {"callbacks": [recorder]}) == ["ab"]

    assert recorder.names() == ["RunnableSequence", "one", "two", "three"]
    assert recorder.tags_of("two") == ["seq:step:2"]
    assert recorder.parent_of("two") == "RunnableSequence"
    assert recorder.outputs()["two"] == "ab"
    recorder.check()


def lambda_letters(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        yield from word


@pytest.mark.parametrize("bad", [3, "text", None, [1], object()])
def test_a_wrong_type_in_a_pipe_says_what_a_step_may_be(bad: Any):
    with pytest.raises(TypeError, match="must be a Runnable, a function or a dict"):
        RunnableLambda(lambda x: x) | bad
    with pytest.raises(TypeError, match="must be a Runnable, a function or a dict"):
        bad | RunnableLambda(lambda x: x)


def test_one_step_is_no_sequence():
    with pytest.raises(UsageError, match="at least 2 steps, got 1"):
        RunnableSequence(lambda x: x)


def test_repr_shows_the_pipe():
    def double(x: int) -> int:
        return x * 2

    assert repr(RunnableLambda(double) | {"a": double}) == (
        "RunnableLambda(double)\n| {\n    a: RunnableLambda(double)\n  }"
    )
