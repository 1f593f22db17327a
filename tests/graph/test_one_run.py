"""One run per thread at a time; the order in which a call on a thread is refused, for graphs, agents and flows."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import ClassVar

import pytest

from foldline.agents import create_agent
from foldline.exceptions import (
    EmptyInputError,
    NothingToResumeError,
    ThreadBusyError,
    ThreadConflictError,
    UnknownInterruptError,
)
from foldline.graph import Command, interrupt
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import agather, gather, idempotency_key, step, workflow
from tests.graph.lines import answer, ask, fan, line, note

OTHER_ID = "0" * 32


class Face:
    """A graph, an agent or a flow that asks "a" and "b" at once, or only "a"."""

    def __init__(self, call, saver, thread):
        self.call, self.saver, self.thread = call, saver, thread
        self.effects = []

    def resume(self, value):
        return self.call.invoke(self.runnable, Command(resume=value), self.thread)

    def start(self):
        return self.call.invoke(self.runnable, self.input, self.thread)["__interrupt__"]

    def entries(self):
        return self.saver.read(self.thread["configurable"]["thread_id"], "")

    def asked(self, question):
        answer = interrupt(question)
        self.effects.append(f"{question}{answer}")
        self.on_effect()
        return f"{question}{answer}"

    def on_effect(self):
        """What an effect waits for."""


class GraphFace(Face):
    input: ClassVar = {"log": []}

    def ask(self, *questions):
        def asking(question):
            return lambda state: {"log": [self.asked(question)]}

        nodes = [(question, asking(question)) for question in questions]
        self.runnable = fan(*nodes, saver=self.saver)
        return self


class AgentFace(Face):
    input: ClassVar = {"messages": "go"}

    def ask(self, *questions):
        @tool("ask")
        def asking(question: str) -> str:
            """Ask."""
            return self.asked(question)

        calls = [Call("ask", {"question": question}) for question in questions]
        model = ScriptedChatModel(script=[calls, "done", calls, "done"])
        self.runnable = create_agent(model, [asking], checkpointer=self.saver)
        return self


class FlowFace(Face):
    input = "go"

    def ask(self, *questions):
        asking = step(name="asking")(self.asked)

        if self.call.is_async:

            @workflow(checkpointer=self.saver, name="asks")
            async def flow(text: str) -> list[str]:
                return await agather(asking.each(questions))
        else:

            @workflow(checkpointer=self.saver, name="asks")
            def flow(text: str) -> list[str]:
                return gather(asking.each(questions))

        self.runnable = flow
        return self


@pytest.fixture(params=[GraphFace, AgentFace, FlowFace], ids=["graph", "agent", "flow"])
def face(request, call, saver, thread):
    return request.param(call, saver, thread)


@contextmanager
def owned_by_another(face):
    thread_id = face.thread["configurable"]["thread_id"]
    epoch = face.saver.claim(thread_id, "another run")
    try:
        yield
    finally:
        face.saver.release(thread_id, epoch)


def refused(face, error, value, reason=None):
    """The answer is refused with this error, and nothing is written or run."""
    entries, effects = face.entries(), list(face.effects)
    with pytest.raises(error) as caught:
        face.resume(value)
    assert getattr(caught.value, "reason", None) == reason
    assert (face.entries(), face.effects) == (entries, effects)


def test_G15_answers_are_refused_in_one_order(face):
    face.ask("a", "b")

    refused(face, UnknownInterruptError, {}, "empty_map")
    refused(face, NothingToResumeError, "x")
    refused(face, NothingToResumeError, {OTHER_ID: "x"})

    ids = {question.value: question.id for question in face.start()}
    refused(face, UnknownInterruptError, {}, "empty_map")
    refused(face, UnknownInterruptError, {OTHER_ID: "x"}, "not_pending")
    refused(face, UnknownInterruptError, {ids["a"]: "x", OTHER_ID: "x"}, "not_pending")
    refused(face, UnknownInterruptError, "x", "ambiguous")
    refused(face, UnknownInterruptError, {"yes": True}, "ambiguous")

    face.resume({ids["a"]: 1, ids["b"]: 2})
    assert sorted(face.effects) == ["a1", "b2"]
    refused(face, UnknownInterruptError, {}, "empty_map")
    refused(face, NothingToResumeError, {ids["a"]: 1})
    refused(face, NothingToResumeError, "x")


def test_G8_none_on_an_empty_thread_is_an_empty_input(face):
    face.ask("a")

    with pytest.raises(EmptyInputError, match="pass an input"):
        face.call.invoke(face.runnable, None, face.thread)

    assert face.entries() == []


def test_G15_a_busy_thread_is_the_last_reason(face, monkeypatch):
    ids = {question.value: question.id for question in face.ask("a", "b").start()}

    monkeypatch.setenv("FOLDLINE_ANSWER_WAIT", "0.05")
    with owned_by_another(face):
        refused(face, UnknownInterruptError, {}, "empty_map")
        refused(face, UnknownInterruptError, {OTHER_ID: "x"}, "not_pending")
        refused(face, UnknownInterruptError, "x", "ambiguous")
        refused(face, ThreadBusyError, {ids["a"]: 1, ids["b"]: 2})

    face.resume({ids["a"]: 1, ids["b"]: 2})
    assert sorted(face.effects) == ["a1", "b2"]


@pytest.mark.parametrize("value", ["an input", None], ids=["input", "none"])
def test_G15_an_input_or_none_on_a_busy_thread_runs_nothing(face, value):
    face.ask("a").start()
    entries = face.entries()

    with owned_by_another(face), pytest.raises(ThreadBusyError, match="another run"):
        face.call.invoke(face.runnable, None if value is None else face.input, face.thread)

    assert (face.entries(), face.effects) == (entries, [])


def test_G15_while_the_answered_run_is_alive_there_is_nothing_to_resume(face):
    began, may_end = threading.Event(), threading.Event()
    question = face.ask("a").start()[0]
    face.on_effect = lambda: (began.set(), may_end.wait(10))
    results = []
    runner = threading.Thread(target=lambda: results.append(face.resume(1)))
    runner.start()
    try:
        assert began.wait(10)
        refused(face, UnknownInterruptError, {}, "empty_map")
        refused(face, NothingToResumeError, 1)
        refused(face, NothingToResumeError, {question.id: 1})
        with pytest.raises(ThreadBusyError):
            face.call.invoke(face.runnable, None, face.thread)
        with pytest.raises(ThreadBusyError):
            face.call.invoke(face.runnable, face.input, face.thread)
    finally:
        may_end.set()
        runner.join(10)

    assert face.effects == ["a1"]
    assert len(results) == 1


@pytest.mark.parametrize("value", ["yes", {}, {OTHER_ID: 1}], ids=["a value", "no answer", "an id"])
def test_G15_at_a_breakpoint_any_answer_continues(call, saver, thread, value):
    graph = line("a", "b", saver=saver, interrupt_before=["b"])
    call.invoke(graph, {"log": []}, thread)

    assert call.invoke(graph, answer(value), thread) == {"log": ["a", "b"]}


def test_G15_an_update_of_a_running_thread_is_refused(call, saver, thread):
    refusals = []

    def node(state):
        for change in (
            lambda: graph.update_state(thread, {"log": ["x"]}),
            lambda: graph.invoke({"log": ["x"]}, thread),
        ):
            try:
                change()
            except ThreadBusyError as error:
                refusals.append(error.thread_id)
        return {"log": ["a"]}

    graph = line(("a", lambda state: aside(lambda: node(state))), saver=saver)

    assert call.invoke(graph, {"log": []}, thread) == {"log": ["a"]}
    assert refusals == [thread["configurable"]["thread_id"]] * 2


def aside(function):
    """Call a function in a thread that knows nothing of the run."""
    results = []
    other = threading.Thread(target=lambda: results.append(function()))
    other.start()
    other.join(20)
    return results[0]


def test_G15_a_run_that_lost_its_thread_stops_before_its_next_effect(call, saver, thread):
    effects, thread_id = [], thread["configurable"]["thread_id"]

    def robbed(state):
        # As if this run had been taken for dead: its claim ends, and another run begins.
        owner = saver.claim_of_test
        saver.release(thread_id, owner)
        saver.release(thread_id, saver.claim(thread_id, "another run"))
        return {"log": ["a"]}

    graph = line(("a", robbed), ("b", note("b", effects)), saver=saver)
    claim = saver.claim

    def remember(thread_id, owner):
        saver.claim_of_test = claim(thread_id, owner)
        return saver.claim_of_test

    saver.claim = remember
    with pytest.raises(ThreadConflictError):
        call.invoke(graph, {"log": []}, thread)
    saver.claim = claim

    assert effects == []


def test_G15_a_node_that_runs_again_has_the_same_idempotency_key(call, saver, thread):
    keys = []

    def pay(state):
        keys.append(idempotency_key())
        if len(keys) == 1:
            raise RuntimeError("boom")
        return {"log": ["paid"]}

    graph = line(("pay", pay), ("again", lambda state: keys.append(idempotency_key())), saver=saver)
    with pytest.raises(RuntimeError, match="boom"):
        call.invoke(graph, {"log": []}, thread)
    call.invoke(graph, None, thread)
    call.invoke(graph, {"log": []}, thread)

    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    assert all(keys)


def test_G15_a_step_in_a_node_has_a_key_of_its_own(call, saver, thread):
    keys = []

    @step
    def pay() -> None:
        keys.append(idempotency_key())

    def node(state):
        pay()
        pay()

    graph = line(("a", node), ("b", node), saver=saver)
    call.invoke(graph, {"log": []}, thread)
    call.invoke(graph, {"log": []}, thread)

    assert len(set(keys)) == 8


def test_G15_a_tool_that_runs_again_has_the_same_idempotency_key(call, saver, thread):
    keys = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        keys.append(idempotency_key())
        if len(keys) == 1:
            raise KeyboardInterrupt
        return "paid"

    calls = [Call("pay", {"amount": 1})]
    agent = create_agent(
        ScriptedChatModel(script=[calls, "done", calls, "done"]), [pay], checkpointer=saver
    )
    with pytest.raises(KeyboardInterrupt):
        call.invoke(agent, "go", thread)
    call.invoke(agent, None, thread)
    call.invoke(agent, "again", thread)

    assert keys[0] == keys[1]
    assert len(set(keys)) == 2
    assert all(keys)


def test_G15_a_killed_step_keeps_its_finished_tasks(call, saver, thread):
    effects, failures = [], ["once"]

    def fragile(state):
        effects.append("b")
        if failures:
            failures.pop()
            raise RuntimeError("boom")
        return {"log": ["b"]}

    graph = fan(("a", note("a", effects)), ("b", fragile), ("c", ask("c")), saver=saver)
    with pytest.raises(RuntimeError, match="boom"):
        call.invoke(graph, {"log": []}, thread)
    call.invoke(graph, None, thread)

    assert sorted(effects) == ["a", "b", "b"]
    assert call.invoke(graph, answer(1), thread) == {"log": ["a", "b", "c1"]}


@pytest.mark.parametrize("kind", ["node", "nested", "stateful", "called", "tool"])
def test_G15_an_answer_to_an_earlier_checkpoint_is_another_effect_with_another_key(
    call, saver, thread, kind
):
    keys = []

    def pay(state):
        answer = interrupt("pay?")
        keys.append(idempotency_key())
        return {"log": [answer]}

    @tool
    def pay_tool() -> str:
        """Pay."""
        return pay({})["log"][0]

    if kind == "tool":
        model = ScriptedChatModel(
            script=lambda request: (
                "done" if request.messages[-1].type == "tool" else [Call("pay_tool", {}, id="c1")]
            )
        )
        app, first = create_agent(model, [pay_tool], checkpointer=saver), {"messages": "pay"}
    else:
        inner = line(("pay", pay), saver=True if kind == "stateful" else None)
        nodes = {
            "node": pay,
            "nested": inner,
            "stateful": inner,
            "called": lambda s: inner.invoke(s),
        }
        app, first = line(("pay", nodes[kind]), saver=saver), {"log": []}
    call.invoke(app, first, thread)
    asked = app.get_state(thread).config

    call.invoke(app, Command(resume="yes"), thread)
    call.invoke(app, Command(resume="yes"), asked)

    assert len(set(keys)) == len(keys) == 2
