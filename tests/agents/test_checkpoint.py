"""Threads: memory, carrying on after a crash, approval in another process, forks, and hostile checkpoints."""

from __future__ import annotations

import json

import pytest

from foldline.agents import Command, create_agent, interrupt
from foldline.agents.checkpoint import (
    Entry,
    InMemorySaver,
    PostgresSaver,
    SqliteSaver,
    ThreadConflictError,
)
from foldline.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from foldline.exceptions import SchemaError, UsageError
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from tests.agents.conftest import add

THREAD = {"configurable": {"thread_id": "t1"}}


def scripted(*turns, **kwargs):
    return ScriptedChatModel(script=list(turns), **kwargs)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "agents.db")) as memory_saver:
            yield memory_saver
    else:
        memory_saver = PostgresSaver(request.getfixturevalue("postgres_server").url)
        memory_saver.delete_thread("t1")
        yield memory_saver
        memory_saver.close()


def test_a_thread_remembers(call, saver):
    agent = create_agent(scripted("Hello Ada", "You are Ada"), checkpointer=saver)

    call.invoke(agent, "I am Ada", THREAD)
    state = call.invoke(agent, "Who am I?", THREAD)

    assert [message.text for message in state["messages"]] == [
        "I am Ada",
        "Hello Ada",
        "Who am I?",
        "You are Ada",
    ]
    assert call.run(agent, "get_state", THREAD).values == state
    assert call.run(agent, "get_state", THREAD).next == ()


def test_a_run_stops_for_approval_and_goes_on_with_another_agent_object(call, saver):
    paths = []

    @tool
    def delete(path: str) -> str:
        """Delete a file."""
        paths.append(path)
        return f"deleted {path}"

    def agent(*turns):
        return create_agent(
            scripted(*turns),
            [delete, add],
            middleware=[HumanInTheLoopMiddleware({"delete": True})],
            checkpointer=saver,
        )

    first = agent([Call("delete", {"path": "/a"}), Call("add", {"a": 1, "b": 1})])
    result = call.invoke(first, "clean up", THREAD)

    assert paths == []
    (question,) = result["__interrupt__"]
    assert question.value["action_requests"][0]["args"] == {"path": "/a"}
    snapshot = call.run(first, "get_state", THREAD)
    assert snapshot.interrupts == (question,)
    assert snapshot.next == ("HumanInTheLoopMiddleware.after_model",)

    state = call.invoke(
        agent("All clean."), Command(resume={"decisions": [{"type": "approve"}]}), THREAD
    )

    assert paths == ["/a"]
    assert "__interrupt__" not in state
    assert state["messages"][-1].text == "All clean."
    with pytest.raises(UsageError, match="nothing to resume"):
        call.invoke(agent("x"), Command(resume=1), THREAD)


@pytest.mark.parametrize(
    ("decision", "path", "status"),
    [
        (
            {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "/b"}}},
            "/b",
            "success",
        ),
        ({"type": "reject", "message": "never"}, None, "error"),
        ({"type": "respond", "message": "done by hand"}, None, "success"),
    ],
)
def test_a_person_may_edit_reject_or_answer_a_call(call, decision, path, status):
    paths = []

    @tool
    def delete(path: str) -> str:
        """Delete a file."""
        paths.append(path)
        return "gone"

    agent = create_agent(
        scripted([Call("delete", {"path": "/a"})], "ok"),
        [delete],
        middleware=[HumanInTheLoopMiddleware({"delete": True})],
        checkpointer=InMemorySaver(),
    )
    call.invoke(agent, "?", THREAD)
    state = call.invoke(agent, Command(resume={"decisions": [decision]}), THREAD)

    assert paths == ([path] if path else [])
    assert state["messages"][2].status == status
    assert state["messages"][-1].text == "ok"


def test_decisions_that_do_not_fit_are_an_error_and_can_be_given_again(call):
    agent = create_agent(
        scripted([Call("add", {"a": 1, "b": 1})], "ok"),
        [add],
        middleware=[HumanInTheLoopMiddleware({"add": {"allowed_decisions": ["approve"]}})],
        checkpointer=InMemorySaver(),
    )
    call.invoke(agent, "?", THREAD)

    with pytest.raises(UsageError, match="1 decisions are needed and 2 were passed"):
        call.invoke(agent, Command(resume={"decisions": [{"type": "approve"}] * 2}), THREAD)
    state = call.invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), THREAD)

    assert state["messages"][-1].text == "ok"


def test_a_tool_may_ask_a_person_several_times_and_others_are_not_run_again(call, saver):
    runs = []

    @tool
    def book(city: str) -> str:
        """Book a trip."""
        day = interrupt({"question": "which day?"})
        seat = interrupt({"question": "which seat?"})
        return f"{city} on {day} at {seat}"

    @tool
    def note() -> str:
        """Write it down."""
        runs.append(1)
        return "noted"

    agent = create_agent(
        scripted([Call("book", {"city": "Oslo"}), Call("note", {})], "Booked."),
        [book, note],
        checkpointer=saver,
    )
    first = call.invoke(agent, "?", THREAD)["__interrupt__"]
    second = call.invoke(agent, Command(resume="Monday"), THREAD)["__interrupt__"]
    state = call.invoke(agent, Command(resume={second[0].id: "window"}), THREAD)

    assert [first[0].value, second[0].value] == [
        {"question": "which day?"},
        {"question": "which seat?"},
    ]
    assert state["messages"][2].content == "Oslo on Monday at window"
    assert runs == [1]


def test_an_answer_reaches_its_tool_past_hooks_that_change_nothing(call, saver):
    class Watching(AgentMiddleware):
        def before_model(self, state, runtime):
            return None

        def after_model(self, state, runtime):
            return None

    @tool
    def ask() -> str:
        """Ask."""
        return interrupt("sure?")

    agent = create_agent(
        scripted([Call("ask", {})], "ok"), [ask], middleware=[Watching()], checkpointer=saver
    )
    call.invoke(agent, "?", THREAD)

    state = call.invoke(agent, Command(resume="yes"), THREAD)

    assert [message.text for message in state["messages"]] == ["?", "", "yes", "ok"]


def test_several_open_questions_need_answers_by_id(call):
    @tool
    def ask(question: str) -> str:
        """Ask."""
        return interrupt(question)

    agent = create_agent(
        scripted([Call("ask", {"question": "a"}), Call("ask", {"question": "b"})], "ok"),
        [ask],
        checkpointer=InMemorySaver(),
    )
    questions = call.invoke(agent, "?", THREAD)["__interrupt__"]

    with pytest.raises(UsageError, match="multiple pending interrupts"):
        call.invoke(agent, Command(resume="x"), THREAD)
    state = call.invoke(
        agent,
        Command(resume={question.id: question.value.upper() for question in questions}),
        THREAD,
    )

    assert [message.content for message in state["messages"][2:4]] == ["A", "B"]


def test_interrupt_needs_a_checkpointer(call):
    @tool
    def ask() -> str:
        """Ask."""
        return interrupt("?")

    with pytest.raises(UsageError, match=r"interrupt\(\) needs a checkpointer"):
        call.invoke(create_agent(scripted([Call("ask", {})], "ok"), [ask]), "?")
    with pytest.raises(UsageError, match="inside a tool"):
        interrupt("outside")


def test_a_new_message_instead_of_an_answer_closes_the_open_calls(call):
    agent = create_agent(
        scripted([Call("add", {"a": 1, "b": 1})], "Fine, I leave it."),
        [add],
        middleware=[HumanInTheLoopMiddleware({"add": True})],
        checkpointer=InMemorySaver(),
    )
    call.invoke(agent, "add", THREAD)
    state = call.invoke(agent, "never mind", THREAD)

    assert [type(message) for message in state["messages"]] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
        HumanMessage,
        AIMessage,
    ]
    assert "went on without it" in state["messages"][2].text


def test_the_result_of_an_open_call_may_be_given_by_hand(call):
    agent = create_agent(
        scripted([Call("add", {"a": 1, "b": 1}, id="c1")], "Two."),
        [add],
        middleware=[HumanInTheLoopMiddleware({"add": True})],
        checkpointer=InMemorySaver(),
    )
    call.invoke(agent, "add", THREAD)
    state = call.invoke(agent, [ToolMessage("2", tool_call_id="c1")], THREAD)

    assert [message.text for message in state["messages"]] == ["add", "", "2", "Two."]


def test_none_carries_on_only_where_something_is_unfinished(call):
    agent = create_agent(scripted("x"), checkpointer=InMemorySaver())

    with pytest.raises(UsageError, match="there is none"):
        call.invoke(agent, None, THREAD)
    with pytest.raises(UsageError, match="needs a thread"):
        call.invoke(agent, "?")


def test_a_failed_step_is_taken_again(call):
    saver = InMemorySaver()
    failing = create_agent(
        scripted([Call("add", {"a": 1, "b": 1})], ValueError("down")), [add], checkpointer=saver
    )

    with pytest.raises(ValueError, match="down"):
        call.invoke(failing, "?", THREAD)
    state = call.invoke(create_agent(scripted("two"), [add], checkpointer=saver), None, THREAD)

    assert [message.text for message in state["messages"]] == ["?", "", "2", "two"]


def test_FK04_of_two_runs_on_one_thread_one_is_told_and_nothing_is_lost(saver):
    entry = Entry("a", None, json.dumps({"v": 1, "kind": "claim", "at": "now"}))
    saver.append("t1", "", [entry], after=None)

    with pytest.raises(ThreadConflictError, match="continued by another process"):
        saver.append("t1", "", [entry._replace(id="b")], after=None)

    assert [record.id for record in saver.read("t1", "")] == ["a"]
    assert saver.read("t1", "inner") == []
    saver.delete_thread("t1")
    assert saver.read("t1", "") == []


def test_the_history_of_a_thread_and_a_fork_of_it(call, saver):
    agent = create_agent(scripted("one", "two", "other"), checkpointer=saver)
    call.invoke(agent, "first", THREAD)
    call.invoke(agent, "second", THREAD)

    history = call.run(agent, "get_state_history", THREAD)
    assert [len(snapshot.values["messages"]) for snapshot in history] == [4, 3, 2, 1]
    after_first = history[2].config

    state = call.invoke(agent, "instead", after_first)
    assert [message.text for message in state["messages"]] == ["first", "one", "instead", "other"]
    assert call.run(agent, "get_state", THREAD).values == state


def test_a_state_can_be_changed_by_hand(call, saver):
    agent = create_agent(scripted("one", "two"), checkpointer=saver)
    call.invoke(agent, "first", THREAD)

    call.run(agent, "update_state", THREAD, {"messages": [AIMessage("by hand")]})

    assert [
        message.text for message in call.run(agent, "get_state", THREAD).values["messages"]
    ] == [
        "first",
        "one",
        "by hand",
    ]


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ('{"v": 3, "kind": "node"}', "another version of foldline"),
        ('{"v": 1, "kind": "unheard-of"}', "which an agent does not write"),
        ("{", "damaged"),
        ('{"kind": "node"}', "no version"),
        ('{"v": 1, "kind": "node", "at": "x", "values": {"messages": [{"lc": 1, "type": "constructor", '
         '"id": ["os", "system"], "kwargs": {}}]}}', "os"),
        ('{"v": 1, "kind": "node", "at": "x", "values": {"secrets": 1}}', "'secrets'"),
        ('{"v": 1, "kind": "node", "at": "x", "next": "Gone.after_model"}', "same middleware"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_version_or_a_damaged_one_is_a_typed_error(call, body, match):
    saver = InMemorySaver()
    saver.append("t1", "", [Entry("a", None, body)], after=None)

    with pytest.raises(SchemaError, match=match):
        call.invoke(create_agent(scripted("x"), checkpointer=saver), "?", THREAD)


def test_a_sub_agent_asks_a_person_through_the_outer_run(call, saver):
    answers = []

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        answer = interrupt(f"send to {to}?")
        answers.append(answer)
        return "sent"

    inner = create_agent(
        scripted([Call("send", {"to": "ada"})], "It is sent."), [send], name="postman"
    )

    @tool
    def post(task: str) -> str:
        """Ask the postman."""
        return inner.invoke({"messages": task})["messages"][-1].text

    @tool
    async def apost(task: str) -> str:
        """Ask the postman."""
        return (await inner.ainvoke({"messages": task}))["messages"][-1].text

    post_tool = apost if call.is_async else post
    outer = create_agent(
        scripted([Call(post_tool.name, {"task": "write"})], "Done."),
        [post_tool],
        checkpointer=saver,
    )

    result = call.invoke(outer, "?", THREAD)
    assert result["__interrupt__"][0].value == "send to ada?"
    state = call.invoke(outer, Command(resume="yes"), THREAD)

    assert answers == ["yes"]
    assert [message.text for message in state["messages"]] == ["?", "", "It is sent.", "Done."]
    assert len(inner.setup.model.requests) == 2
