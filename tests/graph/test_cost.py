"""What a long thread costs."""

from __future__ import annotations

import time

import pytest

from foldline.agents import create_agent
from foldline.agents.state import REMOVE_ALL_MESSAGES, GrowingMessages, merge_messages
from foldline.checkpoint import Entry, InMemorySaver
from foldline.graph import START, MessagesState, StateGraph
from foldline.messages import AIMessage, HumanMessage, RemoveMessage
from foldline.testing import ScriptedChatModel
from foldline.utils.uuid import new_id

pytestmark = pytest.mark.timing


def graph_of(saver):
    builder = StateGraph(MessagesState)
    builder.add_node("reply", lambda state: {"messages": [AIMessage("y" * 50)]})
    builder.add_edge(START, "reply")
    return builder.compile(checkpointer=saver)


def agent_of(saver):
    return create_agent(ScriptedChatModel(script=["y" * 50] * 4000), checkpointer=saver)


@pytest.mark.parametrize("make", [graph_of, agent_of])
def test_AH7_a_thread_loads_in_linear_time(make):
    saver = InMemorySaver()
    runnable = make(saver)

    def seconds(count: int) -> float:
        thread = {"configurable": {"thread_id": str(count)}}
        message = HumanMessage("x" * 50, id="first")
        runnable.update_state(thread, {"messages": [message]})
        runnable.update_state(thread, {"messages": [message.model_copy(update={"id": "next"})]})
        last = saver.read(str(count), "")[-1]
        copies, parent = [], last.id
        for number in range(count - 2):  # the same record again, with another message
            copies.append(Entry(new_id(), parent, last.body.replace('"next"', f'"{number}"')))
            parent = copies[-1].id
        saver.append(str(count), "", copies, after=last.id)
        start = time.process_time()
        assert len(runnable.get_state(thread).values["messages"]) == count
        return time.process_time() - start

    seconds(20)
    assert seconds(1600) < seconds(200) * 8 * 2.5


@pytest.mark.parametrize(
    "updates",
    [
        [["a"], ["b", "c"], ["a"]],
        [["a", "b"], [RemoveMessage(id="a")], ["a"]],
        [["a", "b"], [RemoveMessage(id=REMOVE_ALL_MESSAGES), "c"], ["b", "c"]],
        [[], ["a", "a"], [RemoveMessage(id="a"), "a"]],
    ],
)
def test_AH7_messages_that_grow_in_place_are_those_that_are_merged(updates):
    growing: list = GrowingMessages()
    merged: list = []
    for number, update in enumerate(updates):
        messages = [
            HumanMessage(f"{item} of {number}", id=item) if isinstance(item, str) else item
            for item in update
        ]
        merged = merge_messages(merged, messages)
        assert merge_messages(growing, messages) is growing

    assert list(growing) == merged
