"""Messages to a thread that a run may own: taken once, before a step, by whoever owns the thread."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from foldline.agents import create_agent
from foldline.agents.middleware import AgentMiddleware
from foldline.checkpoint import InMemorySaver, PostgresSaver, SqliteSaver
from foldline.exceptions import InvalidUpdateError, RunCancelledError, UsageError
from foldline.graph import Command, StateGraph
from foldline.messages import HumanMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import interrupt
from foldline.workflows._inbox import leave
from tests.graph.lines import Log, answer, ask, at, line, note


@pytest.fixture(autouse=True)
def _look_at_each_step(monkeypatch):
    monkeypatch.setenv("FOLDLINE_INBOX_WAIT", "0")


def texts(state):
    return [message.text for message in state["messages"] if message.text]


def once(function):
    """A node that calls a function the first time that it runs, and adds "a"."""
    calls = []

    def node(state):
        if not calls:
            calls.append(1)
            function()
        return {"log": ["a"]}

    return node


def test_an_input_to_a_running_graph_is_merged_before_its_next_step_and_begins_at_the_start(
    call, saver, thread
):
    results = []
    first = once(lambda: results.append(graph.send({"log": ["sent"]}, thread)))
    graph = line(("a", first), "b", saver=saver)

    state = call.invoke(graph, {"log": []}, thread)

    assert results == [None]
    assert state["log"] == ["a", "sent", "a", "b", "b"]


def test_a_notification_to_a_running_graph_changes_its_state_and_begins_nothing(
    call, saver, thread
):
    first = once(lambda: graph.send({"log": ["told"]}, thread, what="notification"))
    graph = line(("a", first), "b", saver=saver)

    assert call.invoke(graph, {"log": []}, thread)["log"] == ["a", "told", "b"]


def test_a_message_to_an_agent_waits_for_the_results_of_its_calls(call, saver, thread):
    @tool
    def look() -> str:
        """Look."""
        agent.send("and be brief", thread)
        return "seen"

    model = ScriptedChatModel(script=[[Call("look", {})], "done"])
    agent = create_agent(model, [look], checkpointer=saver)

    state = call.invoke(agent, {"messages": "go"}, thread)

    assert texts(state) == ["go", "seen", "and be brief", "done"]
    assert model.requests[-1].messages[-1].text == "and be brief"


def test_a_message_during_the_last_model_call_is_answered_by_the_same_run(call, saver, thread):
    class Sender(AgentMiddleware):
        """Sends a message while the model answers the first time."""

        def wrap_model_call(self, request, handler):
            if len(request.messages) == 1:
                agent.send(HumanMessage("one more"), thread)
            return handler(request)

        async def awrap_model_call(self, request, handler):
            if len(request.messages) == 1:
                await agent.asend(HumanMessage("one more"), thread)
            return await handler(request)

    model = ScriptedChatModel(script=["first", "second"])
    agent = create_agent(model, middleware=[Sender()], checkpointer=saver)

    state = call.invoke(agent, {"messages": "go"}, thread)

    assert texts(state) == ["go", "first", "one more", "second"]
    assert texts(call.run(agent, "get_state", thread).values) == texts(state)


def test_a_thread_that_nobody_owns_is_continued_by_the_sender(call, saver, thread):
    graph = line("a", saver=saver)

    assert call.run(graph, "send", {"log": ["x"]}, thread)["log"] == ["x", "a"]
    assert call.run(graph, "send", {"log": ["y"]}, thread)["log"] == ["x", "a", "y", "a"]
    agent = create_agent(ScriptedChatModel(script=["hello", "again"]), checkpointer=saver)
    other = {"configurable": {"thread_id": uuid4().hex}}
    assert texts(call.run(agent, "send", "hi", other)) == ["hi", "hello"]
    assert texts(call.run(agent, "send", "hi!", other))[2:] == ["hi!", "again"]


def test_a_notification_to_an_idle_graph_changes_its_state_and_runs_nothing(call, saver, thread):
    graph = line("a", saver=saver)
    call.invoke(graph, {"log": []}, thread)

    state = call.run(graph, "send", {"log": ["told"]}, thread, what="notification")

    assert state["log"] == ["a", "told"]
    assert call.run(graph, "get_state", thread).values == state


def test_a_message_leaves_a_question_open_and_is_taken_after_its_answer(call, saver, thread):
    graph = line(("a", ask("a")), "b", saver=saver)
    call.invoke(graph, {"log": []}, thread)

    state = call.run(graph, "send", {"log": ["sent"]}, thread)

    assert [question.value for question in state["__interrupt__"]] == ["a"]
    state = call.invoke(graph, answer("!"), thread)
    assert state["log"][:2] == ["a!", "sent"]


def test_a_message_to_an_agent_that_waits_for_an_approval_stays_behind_it(call, saver, thread):
    @tool
    def pay() -> str:
        """Pay."""
        return f"paid {interrupt('pay?')}"

    model = ScriptedChatModel(script=[[Call("pay", {})], "done"])
    agent = create_agent(model, [pay], checkpointer=saver)
    call.invoke(agent, {"messages": "go"}, thread)

    assert "__interrupt__" in call.run(agent, "send", "hurry", thread)
    assert texts(call.invoke(agent, Command(resume="now"), thread)) == [
        "go", "paid now", "hurry", "done",
    ]  # fmt: skip


def test_a_message_does_not_pass_a_breakpoint(call, saver, thread):
    graph = line("a", "b", saver=saver, interrupt_before=["b"])
    call.invoke(graph, {"log": []}, thread)

    assert call.run(graph, "send", {"log": ["sent"]}, thread)["log"] == ["a"]
    assert call.run(graph, "get_state", thread).next == ("b",)
    assert "b" in call.invoke(graph, None, thread)["log"]


def test_a_run_that_is_cancelled_stops_before_its_next_step_and_can_be_continued(
    call, saver, thread
):
    effects = []
    first = once(lambda: graph.cancel(thread, sender="ann"))
    graph = line(("a", first), ("b", note("b", effects)), saver=saver)

    with pytest.raises(RunCancelledError, match="cancelled by ann") as caught:
        call.invoke(graph, {"log": []}, thread)

    assert (caught.value.thread_id, caught.value.sender) == (
        thread["configurable"]["thread_id"],
        "ann",
    )
    assert effects == []
    assert call.invoke(graph, None, thread)["log"] == ["a", "b"]


def test_a_request_to_cancel_an_idle_thread_does_not_cancel_its_next_run(call, saver, thread):
    graph = line("a", "b", saver=saver)
    call.invoke(graph, {"log": []}, thread)
    call.run(graph, "cancel", thread)

    assert call.invoke(graph, {"log": []}, thread)["log"] == ["a", "b", "a", "b"]


def test_a_message_that_comes_after_the_last_look_is_taken_by_the_run_that_gives_the_thread_back(
    call, thread
):
    class LateSaver(InMemorySaver):
        """A saver to which a message comes just before a run gives its thread back."""

        late = 1

        def release(self, thread_id, epoch):
            if self.late:
                self.late -= 1
                leave(self, thread_id, "input", {"log": ["late"]})
            super().release(thread_id, epoch)

    graph = line("a", saver=LateSaver())

    assert call.invoke(graph, {"log": []}, thread)["log"] == ["a", "late", "a"]


def test_messages_of_many_senders_are_each_taken_once(saver, thread):
    graph = line("a", saver=saver)
    numbers = [str(number) for number in range(24)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: graph.send({"log": [number]}, thread), numbers))

    log = graph.invoke({"log": []}, thread)["log"]
    assert sorted((text for text in log if text != "a"), key=int) == numbers


def test_a_value_that_does_not_fit_is_refused_when_it_is_sent(call, saver, thread):
    graph = line("a", saver=saver)

    with pytest.raises(InvalidUpdateError):
        call.run(graph, "send", {"wrong": 1}, thread)
    with pytest.raises(UsageError, match="checkpointer"):
        call.run(line("a"), "send", {"log": []}, thread)

    assert call.invoke(graph, {"log": []}, thread)["log"] == ["a"]


def test_a_message_that_does_not_fit_the_state_any_more_fails_one_run(call, saver, thread):
    graph = line("a", saver=saver)
    call.invoke(graph, {"log": []}, thread)
    leave(saver, thread["configurable"]["thread_id"], "input", {"gone": 1})

    with pytest.raises(InvalidUpdateError):
        call.invoke(graph, {"log": []}, thread)

    assert call.invoke(graph, {"log": ["x"]}, thread)["log"][-2:] == ["x", "a"]


def test_a_branch_takes_no_messages_that_came_before_it_began(call, saver, thread):
    graph = line("a", "b", saver=saver)
    call.invoke(graph, {"log": []}, thread)
    earlier = at(call, graph, thread, "b").config
    call.run(graph, "send", {"log": ["sent"]}, thread)

    assert call.invoke(graph, None, earlier)["log"] == ["a", "b"]
    assert call.invoke(graph, {"log": ["new"]}, thread)["log"] == ["a", "b", "new", "a", "b"]


def test_a_snapshot_knows_which_messages_were_taken(tmp_path, thread):
    path = str(tmp_path / "threads.db")
    for number in range(3):
        with SqliteSaver.from_conn_string(path) as saver:
            graph = line("a", saver=saver)
            graph.send({"log": [f"{number}" * 40_000]}, thread)
    with SqliteSaver.from_conn_string(path) as saver:
        log = line("a", saver=saver).invoke({"log": []}, thread)["log"]
        assert saver.snapshot(thread["configurable"]["thread_id"], "") is not None
    assert [text[0] for text in log] == ["0", "a", "1", "a", "2", "a", "a"]


def test_a_graph_with_a_pydantic_state_takes_plain_values(call, saver, thread):
    builder = StateGraph(Log)
    builder.add_node("a", note("a"))
    builder.set_entry_point("a")
    graph = builder.compile(checkpointer=saver)

    assert call.run(graph, "send", {"log": [("x", 1)]}, thread)["log"] == [("x", 1), "a"]


CHILD = """
import sys, time
from foldline.checkpoint import PostgresSaver, SqliteSaver
from tests.graph.lines import line, note

place, thread_id, kill_after = sys.argv[1:]
saver = (PostgresSaver if place.startswith("postgres") else SqliteSaver)(place)
count = 0

def work(state):
    global count
    count += 1
    if count == int(kill_after):
        print("work", flush=True)
        time.sleep(60)
    return {"log": ["a"]}

graph = line(("a", work), "b", saver=saver)
print("ready", flush=True)
for text in sys.stdin:
    graph.send({"log": [text.strip()]}, {"configurable": {"thread_id": thread_id}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_a_message_to_a_process_that_is_killed_is_taken_once_by_the_next_run(
    place, request, tmp_path, thread, monkeypatch
):
    monkeypatch.setenv("FOLDLINE_INBOX_WAIT", "0")
    thread_id = thread["configurable"]["thread_id"]
    if place == "sqlite":
        url = str(tmp_path / "threads.db")
        saver = SqliteSaver(url)
    else:
        url = request.getfixturevalue("postgres_server").url
        saver = PostgresSaver(url)
    graph = line("a", "b", saver=saver)
    for kill_after in (1, 2):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, url, thread_id, str(kill_after)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdout.readline() == "ready\n"
        child.stdin.write("".join(f"{kill_after}-{number}\n" for number in range(kill_after)))
        child.stdin.flush()
        assert child.stdout.readline() == "work\n"
        assert graph.send({"log": [f"parent-{kill_after}"]}, thread) is None
        child.kill()
        child.communicate()
        graph.send({"log": [f"later-{kill_after}"]}, thread)
    log = graph.invoke({"log": []}, thread)["log"]
    saver.close()

    sent = sorted(text for text in log if "-" in text)
    assert sent == sorted(["1-0", "2-0", "2-1", "parent-1", "parent-2", "later-1", "later-2"]), (
        json.dumps(log)
    )
