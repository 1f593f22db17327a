"""Flows whose process, store or step fails: what was acknowledged happens once, and the thread can be carried on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from foldline.checkpoint import InMemorySaver, PostgresSaver, SqliteSaver
from foldline.checkpoint.base import Entry
from foldline.exceptions import NothingToResumeError, SchemaError, StoreError
from foldline.workflows import FlowInterruptedError, agather, interrupt, step, workflow
from tests.servers.databases import _accepts, postgres_server, wait_until

pytestmark = pytest.mark.timing

__all__ = ["postgres_server"]

KILLED = textwrap.dedent("""
    import os, signal, sys
    from foldline.checkpoint import SqliteSaver
    from foldline.workflows import step, workflow

    folder, *moments = sys.argv[1:]

    def die(at):
        if at == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    @step
    def work(number: int) -> int:
        die(f"before {number}")
        with open(f"{folder}/effects", "a") as file:
            file.write(f"{number}\\n")
        return number * number

    for moment in moments:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue

        @workflow(checkpointer=SqliteSaver(f"{folder}/flows.db"))
        def flow(count: int) -> int:
            total = 0
            for number in range(count):
                total += work(number)
                die(f"after {number}")
            return total

        print(flow.thread("t")(10), flush=True)
        os._exit(0)
""")


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["before", "after"])
def test_kill_9_at_every_step_repeats_no_acknowledged_effect(tmp_path, stage):
    moments = [f"{stage} {number}" for number in range(10)]

    run = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path, *moments, "never"], capture_output=True, text=True
    )

    assert run.stdout.split() == [str(sum(number * number for number in range(10)))], run.stderr
    effects = (tmp_path / "effects").read_text().split()
    assert effects == [str(number) for number in range(10)]


GRAPH = textwrap.dedent("""
    import operator, os, signal, sys
    from typing import Annotated, TypedDict
    from foldline.graph import START, SqliteSaver, StateGraph

    folder, *moments = sys.argv[1:]

    class State(TypedDict):
        items: Annotated[list[int], operator.add]

    def node(number):
        def run(state):
            if moment == str(number):
                os.kill(os.getpid(), signal.SIGKILL)
            with open(f"{folder}/effects", "a") as file:
                file.write(f"{number}\\n")
            return {"items": [number]}
        return f"n{number}", run

    graph = StateGraph(State)
    graph.add_sequence([node(number) for number in range(10)])
    graph.add_edge(START, "n0")
    config = {"configurable": {"thread_id": "t"}}
    for moment in moments:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        compiled = graph.compile(checkpointer=SqliteSaver(f"{folder}/graph.db"))
        is_new = compiled.get_state(config).created_at is None
        print(compiled.invoke({"items": []} if is_new else None, config)["items"], flush=True)
        os._exit(0)
""")


@pytest.mark.slow
def test_kill_9_at_every_node_of_a_graph_repeats_no_acknowledged_node(tmp_path):
    moments = [str(number) for number in range(10)]

    run = subprocess.run(
        [sys.executable, "-c", GRAPH, tmp_path, *moments, "never"], capture_output=True, text=True
    )

    assert run.stdout.strip() == str(list(range(10))), run.stderr
    assert (tmp_path / "effects").read_text().split() == moments


def test_of_two_that_answer_one_question_at_once_one_wins_and_the_other_is_told(tmp_path):
    saver, effects = SqliteSaver(tmp_path / "flows.db"), []

    @step
    def work() -> int:
        effects.append(1)
        return 1

    @workflow(checkpointer=saver)
    def flow(name: str):
        answer = interrupt("?")
        return [answer, work()]

    with pytest.raises(FlowInterruptedError):
        flow.thread("1")("x")
    barrier = threading.Barrier(2)

    def resume(answer):
        barrier.wait(10)
        try:
            return flow.thread("1").resume(answer)
        except NothingToResumeError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(resume, ["a", "b"]))

    refusals = [result for result in results if isinstance(result, str)]
    won = [result for result in results if isinstance(result, list)]
    assert len(refusals) == len(won) == len(effects) == 1
    assert "there is nothing to resume: the question was answered at" in refusals[0]


def test_a_locked_file_is_a_typed_error_and_the_thread_goes_on(tmp_path):
    saver = SqliteSaver(tmp_path / "flows.db")
    saver._database._patience = 0.05
    is_locked = [True]

    @step
    def work() -> int:
        if is_locked[0]:
            other.execute("BEGIN IMMEDIATE")
        return 1

    @workflow(checkpointer=saver)
    def flow(name: str) -> int:
        return work()

    other = sqlite3.connect(tmp_path / "flows.db", isolation_level=None)
    saver._database.close()
    with pytest.raises(StoreError, match="another process held it"):
        flow.thread("1")("x")
    other.execute("ROLLBACK")
    is_locked[0] = False

    assert flow.thread("1")("x") == 1


class FullDisk(InMemorySaver):
    """Has room for some entries."""

    room = 2

    def append(self, thread_id, namespace, entries, *, after):
        if self.room <= 0:
            raise StoreError(
                "flows.db: database or disk is full (the disk is full: free some space)"
            )
        self.room -= len(entries)
        super().append(thread_id, namespace, entries, after=after)


def test_a_full_disk_stops_the_flow_and_nothing_is_torn():
    saver, effects = FullDisk(), []

    @step
    def work(number: int) -> int:
        effects.append(number)
        return number

    @workflow(checkpointer=saver)
    def flow(count: int):
        return [work(number) for number in range(count)]

    with pytest.raises(StoreError, match="disk is full"):
        flow.thread("1")(3)
    saver.room = 100

    assert flow.thread("1")(3) == [0, 1, 2]
    assert effects == [0, 1, 1, 2]  # the one that was not acknowledged ran again


@pytest.mark.parametrize(
    ("body", "error_text"),
    [
        ("{", "damaged"),
        ("[]", "no version"),
        (json.dumps({"v": 99, "kind": "flow"}), "another version"),
        (json.dumps({"v": 1, "kind": "spell"}), "kind 'spell'"),
        (json.dumps({"v": 1, "kind": "step", "at": ""}), "damaged"),
        (json.dumps({"v": 1, "kind": "stop", "at": "", "interrupts": 5}), "damaged"),
    ],
)
def test_a_damaged_journal_is_a_typed_error(body, error_text):
    saver = InMemorySaver()

    @workflow(checkpointer=saver)
    def flow(name: str):
        return name

    flow.thread("1")("x")
    last = saver.read("1", "")[-1].id
    saver.append("1", "", [Entry("bad", last, body)], after=last)

    with pytest.raises(SchemaError, match=error_text):
        flow.thread("1")("x")


def test_a_journal_with_a_missing_entry_is_a_typed_error():
    saver = InMemorySaver()

    @workflow(checkpointer=saver)
    def flow(name: str):
        return interrupt("?")

    with pytest.raises(FlowInterruptedError):
        flow.thread("1")("x")
    del saver._threads["1"][""][0]

    with pytest.raises(SchemaError, match="which does not exist: the log is damaged"):
        flow.thread("1").resume(1)


@pytest.mark.slow
def test_a_cancelled_flow_loses_nothing_and_leaves_nothing_behind(tmp_path, no_leaks):
    saver = SqliteSaver(tmp_path / "flows.db")

    def run(cancel_after):
        effects: list[int] = []

        @step
        async def work(number: int) -> int:
            await asyncio.sleep(0)
            effects.append(number)
            return number

        @workflow(checkpointer=saver)
        async def flow(count: int) -> int:
            first = sum([await work(number) for number in range(count)])
            return first + sum(await agather(work.each(range(count, 2 * count))))

        thread = flow.thread(f"t{cancel_after}")

        async def body():
            task = asyncio.ensure_future(thread(3))
            for _ in range(cancel_after):
                await asyncio.sleep(0)
                if task.done():
                    break
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            finished_numbers = [
                int(place.rpartition("#")[2]) for place in (await thread.astate()).steps
            ]
            count = len(effects)
            result = await thread(3) if not task.done() or task.cancelled() else task.result()
            assert result == 15
            repeated = effects[count:]
            assert not set(finished_numbers) & set(repeated), "an acknowledged step ran again"
            # What had run before the cancellation was kept: nothing that ran is lost.
            assert sorted(set(effects)) == list(range(6))
            assert len(effects) == 6

        asyncio.run(body())

    for cancel_after in (0, 1, 2, 3, 5, 8, 13, 21, 34):
        run(cancel_after)
    saver.close()


def test_postgres_restarted_between_steps_is_not_noticed(postgres_server):
    saver = PostgresSaver(postgres_server.url)
    effects = []

    @step
    def work(number: int) -> int:
        effects.append(number)
        if number == 1:
            postgres_server.stop()
            postgres_server.start()
            wait_until(lambda: _accepts(postgres_server.url), "postgres")
        return number

    @workflow(checkpointer=saver)
    def flow(count: int):
        return [work(number) for number in range(count)]

    assert flow.thread("restarted")(3) == [0, 1, 2]
    assert effects == [0, 1, 2]
    assert flow.thread("restarted").state().status == "done"
    saver.close()


def test_a_thread_of_a_thousand_steps_goes_on_in_a_tenth_of_a_second(tmp_path):
    saver, quick = SqliteSaver(tmp_path / "flows.db"), InMemorySaver()
    calls = []

    @step
    def work(number: int) -> int:
        calls.append(number)
        return number

    def body(count: int):
        total = sum(work(number) for number in range(count))
        return total + interrupt("?")

    with pytest.raises(FlowInterruptedError):
        workflow(checkpointer=quick)(body).thread("1")(1000)
    saver.append("1", "", quick.read("1", ""), after=None)
    flow = workflow(checkpointer=saver)(body)
    start = time.process_time()
    assert flow.thread("1").resume(0) == 499500
    assert time.process_time() - start < 0.1 * 3, "three times the target, for a busy machine"
    assert len(calls) == 1000
