"""The input names the runnable that gets it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.runnables import RouterRunnable, RunnableLambda
from tests.runnables.recording import Recorder


def letters(word: str) -> Iterator[str]:
    yield from word


ROUTER: RouterRunnable[Any] = RouterRunnable(
    {"add": lambda x: x + 1, "letters": RunnableLambda(letters)}
)


def test_the_key_chooses(call):
    assert call.invoke(ROUTER, {"key": "add", "input": 1}) == 2
    assert call.stream(ROUTER, {"key": "letters", "input": "ab"}) == ["a", "b"]
    assert call.transform(ROUTER, [{"key": "letters", "input": "ab"}]) == ["a", "b"]
    assert call.batch(ROUTER, [{"key": "add", "input": 1}, {"key": "letters", "input": "ab"}]) == [
        2,
        "ab",
    ]


def test_only_the_chosen_one_is_traced(call):
    recorder = Recorder()
    call.invoke(ROUTER, {"key": "letters", "input": "ab"}, {"callbacks": [recorder]})

    assert recorder.names() == ["letters"]
    assert recorder.parent_of("letters") is None
    recorder.check()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"key": "b", "input": 1}, "no runnable is called 'b'; there are 'add', 'letters'"),
        ({"key": "add"}, "needs"),
        (3, "needs"),
    ],
)
def test_a_wrong_input_says_what_is_needed(call, value, says):
    for do in (call.invoke, call.stream):
        with pytest.raises(UsageError, match=says):
            do(ROUTER, value)
