"""When a run is written down: before it goes on, beside its next step, or when it ends."""

from __future__ import annotations

import operator
import threading
from typing import Annotated, TypedDict

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import SqliteSaver
from foldline.exceptions import StoreError, UsageError
from foldline.graph import START, StateGraph
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import step, workflow

ONE = {"configurable": {"thread_id": "1"}}
KINDS = ["flow", "graph", "agent"]


class State(TypedDict, total=False):
    items: Annotated[list[int], operator.add]


class Slow(SqliteSaver):
    """Writes when the gate is open; `is_full` refuses."""

    def __init__(self, path):
        super().__init__(path)
        self.gate = threading.Event()
        self.was_open: list[bool] = []
        self.is_full = False

    def append(self, thread_id, namespace, entries, *, after):
        self.was_open.append(self.gate.wait(10))
        if self.is_full:
            raise StoreError("the disk is full")
        super().append(thread_id, namespace, entries, after=after)


def make_program(kind, saver, work):
    """A program of three pieces of work."""
    if kind == "flow":
        piece = step(work)

        @workflow(checkpointer=saver)
        def flow(name: str) -> list[int]:
            return [piece(number) for number in range(3)]

        return flow, "x"
    if kind == "graph":
        builder = StateGraph(State)
        nodes = [
            (f"n{number}", lambda state, number=number: {"items": [work(number)]})
            for number in range(3)
        ]
        builder.add_sequence(nodes)
        builder.add_edge(START, "n0")
        return builder.compile(checkpointer=saver), {}

    @tool("work")
    def use(number: int) -> int:
        """Work."""
        return work(number)

    def turn(request):
        count = sum(message.type == "tool" for message in request.messages)
        return "Done." if count == 3 else [Call("work", {"number": count}, id=f"c{count}")]

    return create_agent(ScriptedChatModel(script=turn), [use], checkpointer=saver), "go"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_async_writes_beside_the_next_step_and_all_is_there_at_the_end(
    call, tmp_path, kind, no_leaks
):
    saver, numbers = Slow(tmp_path / "1.db"), []

    def work(number: int) -> int:
        numbers.append(number)
        if number == 2:
            saver.gate.set()  # nothing was written before
        return number

    program, value = make_program(kind, saver, work)
    no_leaks.mark()
    call.invoke(program, value, ONE, durability="async")

    assert all(saver.was_open)
    assert numbers == [0, 1, 2]
    same, _ = make_program(kind, saver, work)
    if kind == "flow":
        assert call.run(same.thread("1"), "state").value == [0, 1, 2]
    else:
        assert not call.run(same, "get_state", ONE).next
    entries = saver.read("1", "")
    assert [entry.parent for entry in entries] == [None, *(entry.id for entry in entries[:-1])]
    saver.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_could_not_be_written_behind_a_run_ends_it(call, tmp_path, kind):
    saver, numbers = Slow(tmp_path / "1.db"), []
    saver.gate.set()

    def work(number: int) -> int:
        numbers.append(number)
        saver.is_full = True
        return number

    program, value = make_program(kind, saver, work)
    with pytest.raises(StoreError, match="the disk is full"):
        call.invoke(program, value, ONE, durability="async")

    assert numbers[0] == 0
    saver.close()


@pytest.mark.parametrize("kind", KINDS)
def test_exit_writes_once(call, tmp_path, kind):
    saver = Slow(tmp_path / "1.db")
    saver.gate.set()
    program, value = make_program(kind, saver, lambda number: number)

    call.invoke(program, value, ONE, durability="exit")

    assert len(saver.was_open) == 1
    saver.close()


@pytest.mark.parametrize("kind", KINDS)
def test_another_word_is_refused(call, tmp_path, kind):
    saver = SqliteSaver(tmp_path / "1.db")
    program, value = make_program(kind, saver, lambda number: number)

    with pytest.raises(UsageError, match="durability='never'"):
        call.invoke(program, value, ONE, durability="never")
    saver.close()
