"""A runnable for each item of a list."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.runnables import RunnableEach, RunnableLambda
from tests.runnables.recording import Recorder

ADD: Any = RunnableLambda(lambda x, plus=1: x + plus, name="add")


def test_each_item_is_run(call):
    assert call.invoke(ADD.map(), [1, 2, 3]) == [2, 3, 4]
    assert call.stream(ADD.map(), [1, 2]) == [[2, 3]]
    assert call.invoke(ADD.map(), []) == []
    assert call.invoke(ADD.map().map(), [[1], [2, 3]]) == [[2], [3, 4]]


def test_bound_arguments_and_config_are_for_every_item(call):
    recorder = Recorder()

    assert call.invoke(ADD.map().bind(plus=10), [1, 2]) == [11, 12]
    assert call.invoke(ADD.map(), [1, 2], plus=5) == [6, 7]
    call.invoke(ADD.map().with_config(tags=["t"]), [1], {"callbacks": [recorder]})
    assert recorder.tags_of("add") == ["t"]
    assert isinstance(ADD.map().bind(plus=1), RunnableEach)


def test_the_runs_of_items_are_children(call):
    recorder = Recorder()
    call.invoke(ADD.map(), [1, 2], {"callbacks": [recorder]})

    assert recorder.names() == ["RunnableEach<add>", "add", "add"]
    assert recorder.parent_of("add") == "RunnableEach<add>"
    recorder.check()


def test_one_failing_item_fails_the_whole(call):
    recorder = Recorder()
    with pytest.raises(TypeError):
        call.invoke(ADD.map(), [1, "x"], {"callbacks": [recorder]})
    recorder.check()


@pytest.mark.parametrize("bad", [3, "abc", {"a": 1}, None])
def test_what_is_no_list_is_refused(call, bad):
    with pytest.raises(UsageError, match="needs a list of inputs"):
        call.invoke(ADD.map(), bad)
