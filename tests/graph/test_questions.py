"""Questions belong to their tasks; an answer is for one of them, and is used once."""

from __future__ import annotations

import re
import threading

import pytest

from foldline.exceptions import NothingToResumeError, UnknownInterruptError, UsageError
from foldline.graph import Command, interrupt
from tests.graph.lines import answer, ask, at, fan, line

INPUT = {"log": ["in"]}


def two(saver, effects=None):
    return fan(("a", ask("a", effects)), ("b", ask("b", effects)), saver=saver)


def questions(call, graph, thread):
    return {
        question.value: question.id for question in call.run(graph, "get_state", thread).interrupts
    }


def test_G11_a_question_belongs_to_its_task(call, saver, thread):
    graph = two(saver)
    call.invoke(graph, INPUT, thread)

    state = call.run(graph, "get_state", thread)

    assert [(task.name, [item.value for item in task.interrupts]) for task in state.tasks] == [
        ("a", ["a"]),
        ("b", ["b"]),
    ]


def test_G11_the_second_question_of_a_node_has_another_id(call, saver, thread):
    def node(state):
        return {"log": [interrupt("which?"), interrupt("which?")]}

    graph = line(("a", node), saver=saver)
    first = call.invoke(graph, INPUT, thread)["__interrupt__"][0]
    second = call.invoke(graph, answer(1), thread)["__interrupt__"][0]

    assert re.fullmatch(r"[0-9a-f]{32}", first.id)
    assert first.id != second.id
    with pytest.raises(UnknownInterruptError):
        call.invoke(graph, answer({first.id: 3}), thread)
    assert call.invoke(graph, answer({second.id: 2}), thread) == {"log": ["in", 1, 2]}


def test_G11_the_same_question_on_another_branch_has_another_id(call, saver, thread):
    graph = line(("a", ask("a")), "b", saver=saver)
    first = call.invoke(graph, INPUT, thread)["__interrupt__"][0]
    call.invoke(graph, answer(1), thread)

    again = call.invoke(graph, None, at(call, graph, thread, "a").config)["__interrupt__"][0]

    assert (again.value, again.id != first.id) == ("a", True)
    with pytest.raises(UnknownInterruptError):
        call.invoke(graph, answer({first.id: 2}), thread)
    assert call.invoke(graph, answer({again.id: 3}), thread) == {"log": ["in", "a3", "b"]}


def test_G12_one_open_question_takes_any_answer(call, saver, thread):
    graph = line(("a", lambda state: {"log": [interrupt("a")]}), saver=saver)
    call.invoke(graph, INPUT, thread)

    # Its keys are no ids, so the dict is the answer.
    assert call.invoke(graph, answer({"approve": True}), thread) == {
        "log": ["in", {"approve": True}]
    }


def test_G12_some_of_several_questions_may_be_answered(call, saver, thread):
    effects = []
    graph = two(saver, effects)
    call.invoke(graph, INPUT, thread)
    ids = questions(call, graph, thread)

    stopped = call.invoke(graph, answer({ids["b"]: 2}), thread)

    assert [item.value for item in stopped["__interrupt__"]] == ["a"]
    assert stopped["log"] == ["in", "b2"]
    assert questions(call, graph, thread) == {"a": ids["a"]}
    assert call.invoke(graph, answer(1), thread) == {"log": ["in", "a1", "b2"]}
    assert effects == ["b", "a"]


@pytest.mark.parametrize(
    ("resume", "reason"),
    [
        ("x", "ambiguous"),
        ({"approve": True}, "ambiguous"),
        ({"0" * 32: "yes"}, "not_pending"),
        ({}, "empty_map"),
    ],
    ids=["a value", "a dict of no ids", "an unknown id", "no answer"],
)
def test_G12_an_answer_for_no_open_question_is_refused_and_nothing_is_written(
    call, saver, thread, resume, reason
):
    effects = []
    graph = two(saver, effects)
    call.invoke(graph, INPUT, thread)
    entries = saver.read(thread["configurable"]["thread_id"], "")

    with pytest.raises(UnknownInterruptError) as caught:
        call.invoke(graph, answer(resume), thread)

    assert caught.value.reason == reason
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, UsageError)
    assert ("multiple pending interrupts" in str(caught.value)) == (reason == "ambiguous")
    assert saver.read(thread["configurable"]["thread_id"], "") == entries
    assert effects == []


def test_G12_the_id_of_an_answered_question_is_not_an_answer_to_the_next_one(call, saver, thread):
    effects = []
    graph = line(("a", ask("a")), ("pay", ask("pay", effects)), saver=saver)
    old = call.invoke(graph, INPUT, thread)["__interrupt__"][0]
    call.invoke(graph, answer({old.id: "yes"}), thread)

    with pytest.raises(UnknownInterruptError) as caught:
        call.invoke(graph, answer({old.id: "yes"}), thread)

    assert caught.value.reason == "not_pending"
    assert effects == []


def test_G13_a_second_answer_while_the_node_runs_runs_nothing(call, saver, thread):
    began, may_end, paid, results = threading.Event(), threading.Event(), [], []

    def pay(state):
        answer = interrupt("pay?")
        paid.append(answer)
        began.set()
        may_end.wait(10)
        return {"log": ["paid"]}

    graph = line(("pay", pay), saver=saver)
    call.invoke(graph, INPUT, thread)
    first = threading.Thread(
        target=lambda: results.append(call.invoke(graph, answer(True), thread))
    )
    first.start()
    try:
        assert began.wait(10)
        with pytest.raises(NothingToResumeError, match=r"answered at \d{4}-.*under way"):
            call.invoke(graph, answer(True), thread)
    finally:
        may_end.set()
        first.join(10)

    assert (paid, results) == ([True], [{"log": ["in", "paid"]}])


def test_G13_a_second_answer_after_the_node_finished_runs_nothing(call, saver, thread):
    effects = []
    graph = line(("a", ask("a", effects)), "b", saver=saver)
    call.invoke(graph, INPUT, thread)
    call.invoke(graph, answer(1), thread)

    with pytest.raises(NothingToResumeError, match="nothing to resume"):
        call.invoke(graph, answer(1), thread)

    assert effects == ["a"]


def test_G13_many_answers_at_one_moment_run_the_node_once(call, saver, thread):
    effects, results, barrier = [], [], threading.Barrier(4)
    graph = line(("a", ask("a", effects)), saver=saver)
    call.invoke(graph, INPUT, thread)

    def resume():
        barrier.wait(10)
        try:
            results.append(call.invoke(graph, answer(1), thread)["log"])
        except NothingToResumeError:
            results.append("nothing")

    threads = [threading.Thread(target=resume) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)

    assert effects == ["a"]
    assert sorted(results, key=str) == [["in", "a1"], "nothing", "nothing", "nothing"]


def test_G13_after_a_failure_the_question_takes_another_answer(call, saver, thread):
    def pay(state):
        amount = interrupt("how much?")
        if amount < 0:
            raise ValueError("below zero")
        return {"log": [amount]}

    graph = line(("pay", pay), saver=saver)
    call.invoke(graph, INPUT, thread)
    with pytest.raises(ValueError, match="below zero"):
        call.invoke(graph, answer(-1), thread)

    assert call.invoke(graph, answer(5), thread) == {"log": ["in", 5]}


def test_G13_an_answer_with_a_state_change_is_one_write(call, saver, thread):
    graph = line(("a", ask("a")), saver=saver)
    call.invoke(graph, INPUT, thread)

    assert call.invoke(graph, Command(resume=1, update={"log": ["x"]}), thread) == {
        "log": ["in", "x", "a1"]
    }
