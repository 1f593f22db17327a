"""Kept heads: a load adds the new records to the state that was folded before, and gives what the whole log gives."""

from __future__ import annotations

import operator
import time
from typing import Annotated, Any, TypedDict

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import (
    BaseCheckpointSaver,
    Entry,
    InMemorySaver,
    SqliteSaver,
    _heads as heads_module,
)
from foldline.checkpoint._heads import heads_of
from foldline.graph import (
    START,
    Command,
    MessagesState,
    Overwrite,
    StateGraph,
    UntrackedValue,
    add_messages,
    interrupt,
)
from foldline.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from foldline.testing import ScriptedChatModel
from foldline.workflows import _state_fold as fold_module

THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture(autouse=True)
def empty_thread(request):
    """The thread is empty, also in a database that other tests use."""
    if "saver" in request.fixturenames:
        request.getfixturevalue("saver").delete_thread("t")


class State(MessagesState):
    items: Annotated[list[dict[str, int]], operator.add]
    last: dict[str, Any]
    scratch: Annotated[str, UntrackedValue]


def reply(state: State) -> dict[str, Any]:
    count = len(state["messages"])
    return {
        "messages": [AIMessage(f"answer {count}", response_metadata={"n": {"of": count}})],
        "items": [{"n": count}],
        "last": {"n": [count]},
        "scratch": "not stored",
    }


def graph_of(saver, node=reply, schema=State):
    builder = StateGraph(schema)
    builder.add_node("reply", node)
    builder.add_edge(START, "reply")
    return builder.compile(checkpointer=saver)


def agent_of(saver):
    return create_agent(ScriptedChatModel(script=["yes"] * 50), checkpointer=saver)


def say(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def check_head(runnable, saver, thread=THREAD) -> Any:
    """Check that the kept head gives what the log gives; return the state."""
    kept = runnable.get_state(thread)
    assert len(heads_of(saver))
    heads_of(saver).drop("t")
    folded = runnable.get_state(thread)
    assert kept == folded
    assert [type(message) for message in kept.values["messages"]] == [
        type(message) for message in folded.values["messages"]
    ]
    return folded


class Counted:
    """Counts the records that are folded."""

    def __init__(self, monkeypatch) -> None:
        self.count = 0
        take = fold_module.Fold._take

        def counting(fold, head, entry, place):
            self.count += 1
            take(fold, head, entry, place)

        monkeypatch.setattr(fold_module.Fold, "_take", counting)


@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_a_turn_folds_only_the_records_of_the_turn_before(call, saver, make, monkeypatch):
    runnable, counted = make(saver), Counted(monkeypatch)
    for number in range(6):
        counted.count = 0
        call.run(runnable, "invoke", say(str(number)), THREAD)
        assert counted.count <= 3

    assert len(check_head(runnable, saver).values["messages"]) == 12


def test_a_value_that_is_not_stored_is_not_in_a_kept_head(saver):
    graph = graph_of(saver)
    graph.invoke(say("a"), THREAD)
    graph.invoke(say("b"), THREAD)

    assert "scratch" not in check_head(graph, saver).values


def change_content(state) -> None:
    state["messages"][0].content = "changed"


def change_metadata(state) -> None:
    next(m for m in state["messages"] if m.type == "ai").response_metadata["n"]["of"] = -1


def change_extra(state) -> None:
    state["messages"][0].own = "changed"


def change_list(state) -> None:
    state["messages"].append(HumanMessage("unseen", id="x"))
    state["messages"][0] = HumanMessage("other", id="y")


def change_items(state) -> None:
    state["items"][0]["n"] = -1
    state["last"]["n"].append(-1)


CHANGES = [change_content, change_metadata, change_extra, change_list, change_items]


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_node_changes_in_place_does_not_stay(call, saver, change):
    turn = 0

    def node(state: State) -> dict[str, Any]:
        nonlocal turn
        turn += 1
        update = reply(state)
        if turn == 3:
            change(state)
        return update

    graph = graph_of(saver, node)
    for number in range(3):
        call.run(graph, "invoke", say(str(number)), THREAD)
    call.run(graph, "invoke", say("3"), THREAD)
    state = check_head(graph, saver)

    assert [message.content for message in state.values["messages"][::2]] == ["0", "1", "2", "3"]
    assert state.values["items"][0] == {"n": 1}
    assert -1 not in state.values["last"]["n"]
    assert state.values["messages"][1].response_metadata == {"n": {"of": 1}}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_caller_changes_in_place_does_not_stay(saver, change):
    graph = graph_of(saver)
    for number in range(3):
        change_list({"messages": graph.invoke(say(str(number)), THREAD)["messages"]})
        change(graph.get_state(THREAD).values)
    state = check_head(graph, saver)

    assert [message.content for message in state.values["messages"][::2]] == ["0", "1", "2"]
    assert state.values["items"] == [{"n": 1}, {"n": 3}, {"n": 5}]


@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_what_another_process_writes_is_seen(make, tmp_path):
    first, second = SqliteSaver(tmp_path / "a.db"), SqliteSaver(tmp_path / "a.db")
    one, two = make(first), make(second)
    for number in range(3):
        one.invoke(say(f"one {number}"), THREAD)
        two.invoke(say(f"two {number}"), THREAD)
    texts = [message.content for message in one.get_state(THREAD).values["messages"][::2]]

    assert texts == ["one 0", "two 0", "one 1", "two 1", "one 2", "two 2"]
    check_head(one, first)
    check_head(two, second)


@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_forks_updates_and_time_travel_give_what_the_log_gives(call, saver, make):
    runnable = make(saver)
    for number in range(3):
        call.run(runnable, "invoke", say(str(number)), THREAD)
    history = list(runnable.get_state_history(THREAD))
    early = next(state for state in history if len(state.values.get("messages", ())) == 2)
    call.run(runnable, "update_state", THREAD, {"messages": [HumanMessage("update", id="u")]})
    check_head(runnable, saver)
    call.run(runnable, "invoke", say("fork"), early.config)
    state = check_head(runnable, saver)
    assert [message.content for message in state.values["messages"]][::2] == ["0", "fork"]
    call.run(runnable, "invoke", say("on"), THREAD)
    state = check_head(runnable, saver)
    assert len(state.values["messages"]) == 6
    call.run(
        runnable,
        "update_state",
        THREAD,
        {"messages": [RemoveMessage(id=state.values["messages"][0].id)]},
    )
    assert len(check_head(runnable, saver).values["messages"]) == 5
    assert len(runnable.get_state(early.config).values["messages"]) == 2


def test_a_question_is_answered_on_a_kept_head(call, saver):
    def ask(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(str(interrupt({"ask": ["it"]})))]}

    graph = graph_of(saver, ask)
    for number in range(3):
        stopped = call.run(graph, "invoke", say(str(number)), THREAD)
        assert stopped["__interrupt__"][0].value == {"ask": ["it"]}
        stopped["__interrupt__"][0].value["ask"].append("changed")
        graph.get_state(THREAD).tasks[0].interrupts[0].value["ask"].append("changed")
        assert graph.get_state(THREAD).tasks[0].interrupts[0].value == {"ask": ["it"]}
        check_head(graph, saver)
        call.run(graph, "invoke", Command(resume="yes"), THREAD)
    state = check_head(graph, saver)

    assert [message.content for message in state.values["messages"][1::2]] == ["yes"] * 3


def test_messages_with_objects_that_cannot_be_compared_are_copied_for_each_run(saver):
    def node(state: State) -> dict[str, Any]:
        for message in state["messages"]:
            if message.type == "tool":
                message.artifact.add(99)
        return {"messages": [ToolMessage("3", tool_call_id="c", artifact={1, 2})]}

    graph = graph_of(saver, node)
    for number in range(3):
        graph.invoke(say(str(number)), THREAD)

    messages = check_head(graph, saver).values["messages"]
    assert [message.artifact for message in messages[1::2]] == [{1, 2}] * 3


def test_another_graph_on_the_same_thread_folds_the_log_itself(saver):
    class Doubled(TypedDict):
        items: Annotated[list[int], lambda old, new: old + new + new]

    class Plain(TypedDict):
        items: Annotated[list[int], operator.add]

    one = graph_of(saver, lambda state: {"items": [1]}, Plain)
    two = graph_of(saver, lambda state: {"items": [2]}, Doubled)
    for _ in range(2):
        one.invoke({"items": []}, THREAD)
        two.invoke({"items": []}, THREAD)

    assert one.get_state(THREAD).values == {"items": [1, 2, 1, 2]}
    assert two.get_state(THREAD).values == {"items": [1, 1, 2, 2, 1, 1, 2, 2]}


def test_a_deleted_thread_is_not_kept(saver):
    graph = graph_of(saver)
    graph.invoke(say("a"), THREAD)
    graph.invoke(say("b"), THREAD)
    saver.delete_thread("t")
    assert not len(heads_of(saver))

    assert graph.get_state(THREAD).values.get("messages", []) == []
    assert len(graph.invoke(say("c"), THREAD)["messages"]) == 2


def test_a_stateful_subgraph_sees_its_own_state_on_each_branch(saver):
    inner = graph_of(True)

    def outer(state: State) -> dict[str, Any]:
        result = inner.invoke(say(state["messages"][-1].content))
        return {"messages": [AIMessage(str(len(result["messages"])))]}

    graph = graph_of(saver, outer)
    for number in range(3):
        graph.invoke(say(str(number)), THREAD)
    early = next(
        state
        for state in graph.get_state_history(THREAD)
        if len(state.values.get("messages", ())) == 2
    )

    assert graph.invoke(say("fork"), early.config)["messages"][-1].content == "4"
    assert graph.invoke(say("on"), THREAD)["messages"][-1].content == "6"
    check_head(graph, saver)


class ForeignSaver(BaseCheckpointSaver):
    """A saver as somebody wrote it for the interface of an earlier version."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, str], list[Entry]] = {}

    def read(self, thread_id: str, namespace: str) -> list[Entry]:
        return list(self.logs.get((thread_id, namespace), []))

    def append(
        self, thread_id: str, namespace: str, entries: list[Entry], *, after: str | None
    ) -> None:
        log = self.logs.setdefault((thread_id, namespace), [])
        assert (log[-1].id if log else None) == after
        log.extend(entries)

    def delete_thread(self, thread_id: str) -> None:
        for key in [key for key in self.logs if key[0] == thread_id]:
            del self.logs[key]


@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_a_saver_that_somebody_wrote_goes_on(call, make, monkeypatch):
    saver, counted = ForeignSaver(), Counted(monkeypatch)
    runnable = make(saver)
    for number in range(4):
        counted.count = 0
        call.run(runnable, "invoke", say(str(number)), THREAD)
        assert counted.count <= 3
    assert len(check_head(runnable, saver).values["messages"]) == 8
    saver.delete_thread("t")
    call.run(runnable, "invoke", say("new"), THREAD)
    assert len(check_head(runnable, saver).values["messages"]) == 2


def test_what_another_writer_of_a_foreign_store_added_is_read(monkeypatch):
    saver, other = ForeignSaver(), ForeignSaver()
    other.logs = saver.logs
    one, two = graph_of(saver), graph_of(other)
    for number in range(3):
        one.invoke(say(f"one {number}"), THREAD)
        two.invoke(say(f"two {number}"), THREAD)

    assert len(check_head(one, saver).values["messages"]) == 12


def test_the_heads_of_the_last_threads_are_kept(monkeypatch):
    monkeypatch.setattr(heads_module, "MAX_HEADS", 3)
    saver = InMemorySaver()
    graph = graph_of(saver)
    for number in range(5):
        for _ in range(2):
            graph.invoke(say("x"), {"configurable": {"thread_id": str(number)}})
    assert len(heads_of(saver)) == 3
    monkeypatch.setattr(heads_module, "MAX_SIZE", 1)
    graph.invoke(say("x"), {"configurable": {"thread_id": "4"}})
    assert len(heads_of(saver)) == 0
    assert len(graph.get_state({"configurable": {"thread_id": "4"}}).values["messages"]) == 6


def test_read_after_an_entry_gives_those_that_follow(saver):
    entries = [Entry(str(n), str(n - 1) if n else None, "{}") for n in range(4)]
    saver.append("t", "", entries, after=None)
    saver.append("t", "other", [Entry("x", None, "{}")], after=None)

    assert saver.read("t", "", after="1") == entries[2:]
    assert saver.read("t", "", after="3") == []
    assert saver.read("t", "", after="none") == []
    assert saver.head("t", "") == entries[-1]
    assert saver.head("t", "none") is None


@pytest.mark.timing
@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_a_late_turn_costs_at_most_a_few_early_ones(make):
    saver = InMemorySaver()
    runnable = make(saver)

    def turns(count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            start = time.process_time()
            runnable.invoke(say("x" * 500), THREAD)
            seconds.append(time.process_time() - start)
        return seconds

    turns(4)
    early = min(turns(10))
    runnable.update_state(THREAD, {"messages": [HumanMessage("x" * 500) for _ in range(780)]})
    turns(2)

    assert min(turns(10)) < 4 * early


class Lists(TypedDict):
    messages: Annotated[list[Any], add_messages]
    items: Annotated[list[Any], operator.add]


@pytest.mark.parametrize(
    "first",
    [
        {},
        {"items": [HumanMessage("one", id="1")]},
        {"messages": Overwrite([HumanMessage("one", id="1")])},
    ],
    ids=["an empty list", "messages of another reducer", "messages that were overwritten"],
)
def test_what_a_node_adds_to_a_list_in_place_does_not_stay(call, saver, first):
    def append(state: Lists) -> dict[str, Any]:
        state["items"].append(HumanMessage("not in the log"))
        state["messages"].append(HumanMessage("not in the log"))
        return {}

    builder = StateGraph(Lists).add_node("append", append).add_edge(START, "append")
    graph = builder.compile(checkpointer=saver)
    call.invoke(graph, first, THREAD)
    expected = call.run(graph, "get_state", THREAD).values

    for _ in range(2):
        call.invoke(graph, {"messages": []}, THREAD)

    assert call.run(graph, "get_state", THREAD).values == expected
    assert "not in the log" not in str(expected)
