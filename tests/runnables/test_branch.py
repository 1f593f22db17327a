"""Branches chosen by conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.runnables import RunnableBranch, RunnableLambda
from tests.runnables.recording import Recorder


def letters(word: str) -> Iterator[str]:
    yield from word


BRANCH: RunnableBranch[Any, Any] = RunnableBranch(
    (
        RunnableLambda(lambda x: isinstance(x, int), name="is int"),
        RunnableLambda(lambda x: x + 1, name="add"),
    ),
    (lambda x: isinstance(x, str), RunnableLambda(letters)),
    RunnableLambda(lambda x: "other", name="other"),
)


def test_the_first_condition_that_holds_chooses(call):
    assert call.batch(BRANCH, [1, "ab", None]) == [2, "ab", "other"]
    assert call.stream(BRANCH, "ab") == ["a", "b"]
    assert call.transform(BRANCH, ["a", "b"]) == ["a", "b"]


def test_conditions_and_branches_are_traced(call):
    recorder = Recorder()
    call.invoke(BRANCH, None, {"callbacks": [recorder]})

    assert recorder.tags_of("is int") == ["condition:1"]
    assert recorder.tags_of("other") == ["branch:default"]
    assert recorder.parent_of("other") == "RunnableBranch"
    assert "add" not in recorder.names()
    recorder.check()


def test_keyword_arguments_reach_the_branch_and_not_the_condition(call):
    branch = RunnableBranch((lambda x: True, lambda x, plus=0: x + plus), lambda x: x)

    assert call.invoke(branch, 1, plus=2) == 3


def test_an_error_in_a_condition_is_told_once(call):
    recorder = Recorder()

    def fail(x: Any) -> bool:
        raise ValueError("no")

    branch = RunnableBranch((fail, lambda x: x), lambda x: x)
    for do in (call.invoke, call.stream):
        with pytest.raises(ValueError, match="no"):
            do(branch, 1, {"callbacks": [recorder]})
    recorder.check()
    assert set(recorder.endings().values()) == {"error"}


@pytest.mark.parametrize(
    ("branches", "error", "says"),
    [
        ([(lambda x: True, lambda x: x)], UsageError, "at least two branches"),
        ([(lambda x: True, lambda x: x), 3], TypeError, "default of RunnableBranch must be"),
        ([3, lambda x: x], TypeError, "must be a tuple"),
        ([(1, 2, 3), lambda x: x], UsageError, "not of length 3"),
        ([("q", lambda x: x), lambda x: x], TypeError, "must be a Runnable, a function or a dict"),
    ],
)
def test_wrong_branches_are_refused(branches, error, says):
    with pytest.raises(error, match=says):
        RunnableBranch(*branches)
