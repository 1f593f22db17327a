"""Graphs and flows: the cost of a node beside LangGraph's, what a thread takes on disk, how soon it goes on."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypedDict

Run = Callable[[], float]
NODES = 100


class State(TypedDict):
    n: int


def node(side: str, *, saver: bool = False) -> Run:
    """One node of a chain of a hundred, without a checkpointer or with the one in memory."""
    if side == "foldline":
        graph = checkpoints = import_module("foldline.graph")
    else:
        graph = import_module("langgraph.graph")
        checkpoints = import_module("langgraph.checkpoint.memory")
    builder = graph.StateGraph(State)
    previous = graph.START
    for number in range(NODES):
        builder.add_node(f"n{number}", lambda state: {"n": state["n"] + 1})
        builder.add_edge(previous, f"n{number}")
        previous = f"n{number}"
    compiled = builder.compile(checkpointer=checkpoints.InMemorySaver() if saver else None)
    threads = iter(range(10**9))

    def run() -> int:
        config = {"recursion_limit": 1000, "configurable": {"thread_id": str(next(threads))}}
        assert compiled.invoke({"n": 0}, config)["n"] == NODES
        return NODES

    return run


def _chat(saver: Any) -> Any:
    graph = import_module("foldline.graph")
    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("answer", lambda state: {"messages": [("ai", "b" * 1000)]})
    builder.add_edge(graph.START, "answer")
    return builder.compile(checkpointer=saver)


def storage(side: str, *, turns: int = 200) -> Run:
    """The bytes on disk of a turn of 2 KB, in KiB, late in a long thread."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/threads.db"
            saver = import_module("foldline.checkpoint").SqliteSaver(path)
            compiled, sizes = _chat(saver), []
            for turn in range(turns):
                compiled.invoke(
                    {"messages": [("user", "a" * 1000)]}, {"configurable": {"thread_id": "1"}}
                )
                if turn in (turns // 2 - 1, turns - 1):
                    saver._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
                    sizes.append(os.path.getsize(path))
            saver.close()
            return (sizes[1] - sizes[0]) / (turns // 2) / 1024

    return run


def threads(side: str, *, count: int = 10_000) -> Run:
    """The time of a turn on a thread among ten thousand in one file, beside that of the first one."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            saver = import_module("foldline.checkpoint").SqliteSaver(f"{folder}/threads.db")
            saver._database.rows("PRAGMA synchronous = OFF")  # the disk is not what is measured
            compiled = _chat(saver)

            def turns(first: int) -> float:
                start = time.process_time()
                for number in range(first, first + 100):
                    config = {"configurable": {"thread_id": str(number)}}
                    compiled.invoke({"messages": [("user", "hello")]}, config)
                return time.process_time() - start

            early = turns(0)
            template = saver.read("0", "")
            for number in range(100, count):
                saver.append(str(number), "", template, after=None)
            late_seconds = turns(count)
            saver.close()
            return late_seconds / early

    return run


def resume(side: str, *, steps: int = 1000) -> Run:
    """Milliseconds until a flow of a thousand finished steps goes on."""
    flows, checkpoint = import_module("foldline.workflows"), import_module("foldline.checkpoint")

    @flows.step
    def work(number: int) -> int:
        return number

    def body(count: int) -> int:
        return sum(work(number) for number in range(count)) + int(flows.interrupt("?"))

    quick = checkpoint.InMemorySaver()
    flows.workflow(checkpointer=quick)(body).invoke(steps, {"configurable": {"thread_id": "1"}})
    entries = quick.read("1", "")

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            saver = checkpoint.SqliteSaver(f"{folder}/flows.db")
            saver.append("1", "", entries, after=None)
            flow = flows.workflow(checkpointer=saver)(body)
            start = time.process_time()
            flow.thread("1").resume(0)
            elapsed = (time.process_time() - start) * 1000
            saver.close()
            return elapsed

    return run
