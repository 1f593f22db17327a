"""`copy_thread` and `prune` of savers."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import Entry
from foldline.checkpoint.base import left_behind
from foldline.exceptions import ThreadConflictError, UsageError
from foldline.testing import ScriptedChatModel
from tests.graph.test_heads import ForeignSaver, agent_of, graph_of, say


def config_of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.fixture(autouse=True)
def empty_threads(request):
    if "saver" in request.fixturenames:
        for name in ("a", "b"):
            request.getfixturevalue("saver").delete_thread(name)


@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_a_copied_thread_has_the_state_and_goes_on_by_itself(call, saver, make):
    runnable = make(saver)
    for number in range(3):
        runnable.invoke(say(str(number)), config_of("a"))
    call.run(saver, "copy_thread", "a", "b")
    assert runnable.get_state(config_of("b")).values == runnable.get_state(config_of("a")).values
    assert len(list(runnable.get_state_history(config_of("b")))) == len(
        list(runnable.get_state_history(config_of("a")))
    )
    runnable.invoke(say("only b"), config_of("b"))

    assert len(runnable.get_state(config_of("a")).values["messages"]) == 6
    assert len(runnable.get_state(config_of("b")).values["messages"]) == 8


def test_all_namespaces_of_a_thread_are_copied(call, saver):
    saver.append("a", "", [Entry("1", None, "{}"), Entry("2", "1", "{}")], after=None)
    saver.append("a", "inner", [Entry("3", None, "{}")], after=None)
    call.run(saver, "copy_thread", "a", "b")

    assert saver.read("b", "") == saver.read("a", "")
    assert saver.read("b", "inner") == saver.read("a", "inner")


def test_a_thread_is_not_copied_over_another_or_itself(call, saver):
    saver.append("a", "", [Entry("1", None, "{}")], after=None)
    saver.append("b", "inner", [Entry("2", None, "{}")], after=None)
    with pytest.raises(ThreadConflictError, match="'b' has entries already"):
        call.run(saver, "copy_thread", "a", "b")
    with pytest.raises(UsageError, match="to itself"):
        call.run(saver, "copy_thread", "a", "a")

    assert saver.read("b", "") == []


def test_a_thread_that_does_not_exist_is_copied_as_nothing(call, saver):
    call.run(saver, "copy_thread", "a", "b")

    assert saver.read("b", "") == []


@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_prune_deletes_the_branches_that_were_left(call, saver, make):
    runnable = make(saver)
    for number in range(3):
        runnable.invoke(say(str(number)), config_of("a"))
    early = next(
        state
        for state in runnable.get_state_history(config_of("a"))
        if len(state.values.get("messages", ())) == 2
    )
    runnable.invoke(say("fork"), early.config)
    before, entries = runnable.get_state(config_of("a")), saver.read("a", "")
    call.run(saver, "prune", ["a", "b"], keep_last=2)
    assert saver.read("a", "") == entries
    call.run(saver, "prune", ["a", "b"])

    assert len(saver.read("a", "")) < len(entries)
    assert runnable.get_state(config_of("a")) == before
    assert list(runnable.get_state_history(config_of("a")))
    runnable.invoke(say("on"), config_of("a"))
    assert len(runnable.get_state(config_of("a")).values["messages"]) == 6


def test_prune_keeps_at_least_one_branch(call, saver):
    saver.append("a", "", [Entry("1", None, "{}")], after=None)
    with pytest.raises(UsageError, match="at least one branch"):
        call.run(saver, "prune", ["a"], keep_last=0)

    assert saver.read("a", "")


def test_entries_of_kept_branches_are_not_left_behind():
    tree = [("1", None), ("2", "1"), ("3", "2"), ("4", "2"), ("5", "1"), ("6", "5")]

    assert left_behind(tree, 1) == {"2", "3", "4"}
    assert left_behind(tree, 2) == {"3"}
    assert left_behind(tree, 9) == set()
    assert left_behind([], 1) == set()


def test_a_saver_that_somebody_wrote_says_that_it_cannot(call):
    with pytest.raises(UsageError, match="ForeignSaver cannot copy threads"):
        call.run(ForeignSaver(), "copy_thread", "a", "b")
    with pytest.raises(UsageError, match="ForeignSaver cannot prune threads"):
        call.run(ForeignSaver(), "prune", ["a"])


def test_delete_thread_has_an_async_form(call, saver):
    agent = create_agent(ScriptedChatModel(script=["yes"]), checkpointer=saver)
    agent.invoke(say("x"), config_of("a"))
    call.run(saver, "delete_thread", "a")

    assert saver.read("a", "") == []
