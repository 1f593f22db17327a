"""`updates` and `values` while a graph runs: what comes when."""

from __future__ import annotations

import asyncio
import threading
import time

from tests.graph.lines import answer, ask, fan, line, note

INPUT = {"log": ["in"]}


def test_G23_an_update_comes_when_its_task_finishes_and_is_stored(saver, thread):
    may_end = threading.Event()

    def slow(state):
        may_end.wait(10)
        return {"log": ["slow"]}

    graph = fan("fast", ("slow", slow), saver=saver)
    chunks = graph.stream(INPUT, thread, stream_mode="updates")

    first = next(chunks)
    finished = [task.result for task in graph.get_state(thread).tasks]
    may_end.set()

    assert first == {"fast": {"log": ["fast"]}}
    assert finished == [{"log": ["fast"]}, None]
    assert list(chunks) == [{"slow": {"log": ["slow"]}}]


def test_G23_an_update_comes_when_its_task_finishes_in_an_async_stream(saver, thread):
    async def body():
        may_end = asyncio.Event()

        async def slow(state):
            await may_end.wait()
            return {"log": ["slow"]}

        graph = fan("fast", ("slow", slow), saver=saver)
        chunks = graph.astream(INPUT, thread, stream_mode="updates")
        first = await anext(chunks)
        may_end.set()
        return first, [chunk async for chunk in chunks]

    first, rest = asyncio.run(body())

    assert first == {"fast": {"log": ["fast"]}}
    assert rest == [{"slow": {"log": ["slow"]}}]


def test_G23_values_come_after_the_step(call, saver, thread):
    graph = fan("a", ("b", lambda state: time.sleep(0.05) or {"log": ["b"]}), saver=saver)

    chunks = call.stream(graph, INPUT, thread, stream_mode="values")

    assert [chunk["log"] for chunk in chunks] == [["in"], ["in", "a", "b"]]


def test_G23_an_empty_state_is_no_chunk(call, saver, thread):
    graph = line("a", saver=saver)

    chunks = call.stream(graph, {}, thread, stream_mode="values")

    assert chunks == [{"log": ["a"]}]


def test_G23_each_task_with_a_question_has_a_chunk(call, saver, thread):
    graph = fan(("a", ask("a")), ("b", ask("b")), ("c", note("c")), saver=saver)

    chunks = call.stream(graph, INPUT, thread, stream_mode="updates")

    asked = [chunk["__interrupt__"] for chunk in chunks if "__interrupt__" in chunk]
    assert sorted([question.value for question in questions] for questions in asked) == [
        ["a"],
        ["b"],
    ]
    assert {"c": {"log": ["c"]}} in chunks


def test_G23_a_breakpoint_is_one_empty_chunk_wherever_it_is(call, saver, thread):
    inner = line("x", "y", interrupt_before=["y"])
    graph = line(("inner", inner), saver=saver)

    chunks = call.stream(graph, INPUT, thread, stream_mode="updates", subgraphs=True)
    stops = [item for item in chunks if "__interrupt__" in item[1]]
    rest = call.stream(graph, answer(None), thread, stream_mode="updates")

    assert stops == [((), {"__interrupt__": ()})]
    assert [*rest[0]] == ["inner"]
