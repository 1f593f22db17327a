"""Flows in plain Python: stored results, repeated steps, and questions to a person."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

import pytest
from pydantic import BaseModel

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver, SqliteSaver
from foldline.exceptions import FlowFinishedError, SchemaError, UsageError
from foldline.messages import HumanMessage
from foldline.testing import Call as ToolCall, ScriptedChatModel
from foldline.workflows import (
    Command,
    FlowChangedError,
    FlowInterruptedError,
    RetryPolicy,
    StepTimeoutError,
    agather,
    asleep,
    flow_version,
    gather,
    idempotency_key,
    interrupt,
    now,
    random,
    sleep,
    step,
    uuid,
    workflow,
    write,
)

pytestmark = pytest.mark.timing

ONE = {"configurable": {"thread_id": "1"}}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    return InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "flows.db")


class Receipt(BaseModel):
    amount: int
    at: datetime | None = None


def test_a_finished_step_is_not_run_again_after_a_question(call, saver):
    charges = []

    @step
    def charge(amount: int) -> Receipt:
        charges.append(amount)
        return Receipt(amount=amount)

    @workflow(checkpointer=saver)
    def checkout(amount: int):
        receipt = charge(amount)
        return [receipt.amount, interrupt("ship?")]

    state = call.invoke(checkout, 5, ONE)
    result = call.invoke(checkout, Command(resume=True), ONE)

    assert [question.value for question in state["__interrupt__"]] == ["ship?"]
    assert result == [5, True]
    assert charges == [5]


def test_a_flow_called_as_a_function_raises_what_it_stopped_for(saver):
    @workflow(checkpointer=saver)
    def ask(word: str) -> str:
        return word + interrupt("and?")

    thread = ask.thread("t")
    with pytest.raises(FlowInterruptedError, match=r"ask.thread\('t'\).resume") as excinfo:
        thread("a")

    assert excinfo.value.interrupts[0].value == "and?"
    assert thread.state().status == "interrupted"
    assert thread.resume("b") == "ab"
    assert thread.state().value == "ab"


def test_an_async_flow_keeps_its_steps_too(saver):
    calls = []

    @step
    async def fetch(number: int) -> int:
        calls.append(number)
        await asyncio.sleep(0)
        return number * 2

    @workflow(checkpointer=saver)
    async def total(count: int) -> int:
        numbers = await agather(fetch.each(range(count)), limit=2)
        await asleep(0)
        return sum(numbers) + interrupt("more?")

    async def body():
        thread = total.thread("1")
        with pytest.raises(FlowInterruptedError):
            await thread(3)
        return await thread.resume(100)

    assert asyncio.run(body()) == 106
    assert sorted(calls) == [0, 1, 2]


def test_the_same_input_carries_on_with_an_unfinished_run(saver):
    calls = []

    @step
    def first() -> str:
        calls.append("first")
        return "a"

    @step
    def second() -> str:
        calls.append("second")
        if calls.count("second") == 1:
            raise ConnectionError("down")
        return "b"

    @workflow(checkpointer=saver)
    def flow(name: str) -> str:
        return name + first() + second()

    thread = flow.thread("1")
    with pytest.raises(ConnectionError):
        thread("x")
    assert thread.state().status == "failed"

    assert thread("x") == "xab"
    assert calls == ["first", "second", "second"]
    assert thread("x") == "xab"
    assert calls == ["first", "second", "second"]


def test_G40_a_finished_flow_gives_its_result_and_runs_again_only_on_purpose(saver):
    keys = []

    @step
    def charge(order: str) -> str:
        keys.append(idempotency_key())
        return f"paid {order}"

    @workflow(checkpointer=saver)
    def checkout(order: str) -> str:
        return charge(order)

    thread = checkout.thread("1")
    assert thread("a") == thread("a") == thread.carry_on() == "paid a"
    assert len(keys) == 1

    with pytest.raises(FlowFinishedError, match="finished run of checkout with another input"):
        thread("b")
    assert len(keys) == 1

    assert thread.again("b") == "paid b"
    assert thread("b") == "paid b"
    assert len(keys) == len(set(keys)) == 2


def test_another_input_on_an_unfinished_thread_is_refused(saver):
    @workflow(checkpointer=saver)
    def flow(name: str) -> str:
        return name + interrupt("?")

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")

    with pytest.raises(UsageError, match="unfinished run of flow with another input"):
        thread("y")


def test_a_caught_failure_is_replayed_as_it_was(saver):
    calls = []

    class DeclinedError(Exception):
        pass

    globals()["DeclinedError"] = DeclinedError
    DeclinedError.__qualname__ = "DeclinedError"

    @step
    def pay() -> str:
        calls.append(1)
        raise DeclinedError("no money")

    @workflow(checkpointer=saver)
    def flow(name: str) -> str:
        try:
            pay()
        except DeclinedError as error:
            return f"{error} {interrupt('what now?')}"
        return "paid"

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")

    assert thread.resume("ok") == "no money ok"
    assert calls == [1]


def test_time_chance_and_ids_are_the_same_in_a_replay(saver):
    values = []

    @workflow(checkpointer=saver)
    def flow(name: str):
        values.append((now(), random(), uuid()))
        sleep(0.01)
        return interrupt("?")

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")
    thread.resume(1)

    assert values[0] == values[1]


def test_arguments_that_changed_are_named(saver):
    amount = [1]

    @step
    def charge(n: int) -> int:
        return n

    @workflow(checkpointer=saver)
    def flow(name: str):
        charge(0)
        charge(amount[0])
        return interrupt("?")

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")
    amount[0] = 2

    with pytest.raises(FlowChangedError, match="first place that differs is charge#1"):
        thread.resume(1)


def test_a_step_that_was_put_in_between_is_named_before_it_runs(saver):
    is_new, runs = [False], []

    @step
    def charge() -> int:
        return 1

    @step
    def notify() -> None:
        runs.append(1)

    @workflow(checkpointer=saver)
    def flow(name: str):
        if is_new[0]:
            notify()
        charge()
        return interrupt("?")

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")
    is_new[0] = True

    with pytest.raises(
        FlowChangedError, match=r"first place that differs is charge#0.*notify#0 instead"
    ):
        thread.resume(1)
    assert not runs


def test_a_step_that_was_taken_out_is_named(saver):
    is_old = [True]

    @step
    def charge() -> int:
        return 1

    @workflow(checkpointer=saver)
    def flow(name: str):
        if is_old[0]:
            charge()
            return interrupt("?")
        return 1

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")
    is_old[0] = False

    with pytest.raises(FlowChangedError, match="charge#0: the journal has it"):
        thread.resume(1)


def test_a_flow_of_another_version_is_refused_or_branches(saver):
    def body(name: str):
        return [flow_version(), interrupt("?")]

    first = workflow(checkpointer=saver, name="flow", version="1")(body)
    other = workflow(checkpointer=saver, name="flow", version="2")(body)
    second_version = workflow(checkpointer=saver, name="flow", version="2", accepts=["1"])(body)
    with pytest.raises(FlowInterruptedError):
        first.thread("1")("x")

    with pytest.raises(FlowChangedError, match="version '1' of flow, and this is version '2'"):
        other.thread("1").resume("y")
    assert second_version.thread("1").resume("y") == ["1", "y"]


def test_a_hanging_step_ends_by_its_timeout(call, saver):
    @step(timeout=0.05)
    def hang() -> None:
        import time

        time.sleep(0.5)

    @workflow(checkpointer=saver)
    def flow(name: str):
        hang()

    with pytest.raises(StepTimeoutError, match="hang#0 took longer than its timeout of"):
        call.invoke(flow, "x", ONE)


def test_a_step_is_tried_again_with_one_key(call, saver):
    keys = []

    @step(retry=RetryPolicy(initial_interval=0, jitter=False, max_attempts=3))
    def flaky() -> int:
        keys.append(idempotency_key())
        if len(keys) < 3:
            raise ConnectionError
        return 7

    @workflow(checkpointer=saver)
    def flow(name: str):
        return flaky()

    assert call.invoke(flow, "x", ONE) == 7
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_what_was_done_is_undone_when_the_flow_fails(saver):
    undone = []

    @step(on_failure=lambda receipt: undone.append(receipt))
    def charge(n: int) -> str:
        return f"receipt {n}"

    @step
    def ship() -> None:
        raise RuntimeError("no stock")

    @workflow(checkpointer=saver)
    def flow(name: str):
        charge(1)
        charge(2)
        ship()

    thread = flow.thread("1")
    with pytest.raises(RuntimeError, match="no stock"):
        thread("x")

    assert undone == ["receipt 2", "receipt 1"]
    assert thread.state().status == "undone"


def test_branches_have_places_of_their_own(saver):
    calls = []

    @step
    def work(n: int) -> int:
        calls.append(n)
        return n

    @workflow(checkpointer=saver)
    def flow(name: str):
        def branch(n):
            return lambda: work(n) + work(n + 10) + (interrupt("go?") if n == 1 else 0)

        return gather([branch(n) for n in range(3)])

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")

    assert thread.resume(100) == [10, 112, 14]
    assert sorted(calls) == [0, 1, 2, 10, 11, 12]


def test_a_fan_out_of_a_thousand_is_kept(call, saver):
    @step
    def double(n: int) -> int:
        return n * 2

    @workflow(checkpointer=saver)
    def flow(count: int) -> int:
        return sum(gather(double.each(range(count)), limit=8))

    assert call.invoke(flow, 1000, ONE) == 999000


def test_a_flow_inside_a_flow_is_a_step_of_it(saver):
    calls = []

    @step
    def work() -> str:
        calls.append(1)
        return "w"

    @workflow
    def inner(word: str) -> str:
        return word + work() + interrupt("inner?")

    @workflow(checkpointer=saver)
    def outer(word: str) -> str:
        return inner(word) + interrupt("outer?")

    thread = outer.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("a")
    with pytest.raises(FlowInterruptedError) as excinfo:
        thread.resume("b")

    assert excinfo.value.interrupts[0].value == "outer?"
    assert thread.resume("c") == "awbc"
    assert calls == [1]


def test_a_fork_goes_on_from_an_earlier_record(saver):
    calls = []

    @step
    def roll(name: str) -> int:
        calls.append(name)
        return len(calls)

    @workflow(checkpointer=saver)
    def flow(name: str):
        return [roll("a"), roll("b")]

    thread = flow.thread("1")
    assert thread("x") == [1, 2]
    after_a = next(record for record in thread.history() if record.place == "roll#0")

    fork = thread.fork(after_a.id)

    assert fork.carry_on() == [1, 3]
    assert thread.state().value == [1, 2]


def test_progress_is_streamed(call, saver):
    @step
    def work(n: int) -> int:
        write({"at": n})
        return n

    @workflow(checkpointer=saver)
    def flow(count: int):
        return [work(n) for n in range(count)]

    pieces = call.stream(flow, 2, ONE, stream_mode=["custom", "updates"])

    assert pieces == [
        ("custom", {"at": 0}),
        ("updates", {"work": 0}),
        ("custom", {"at": 1}),
        ("updates", {"work": 1}),
        ("updates", {"flow": [0, 1]}),
    ]


def test_steps_inside_a_tool_are_not_repeated_after_a_question(call, saver):
    charges = []

    @step
    def charge(n: int) -> int:
        charges.append(n)
        return n

    def pay(n: int) -> str:
        """Pay."""
        return f"paid {charge(n)}: {interrupt('sure?')}"

    model = ScriptedChatModel(script=[[ToolCall("pay", {"n": 3})], "done"])
    agent = create_agent(model, [pay], checkpointer=saver)
    call.invoke(agent, "pay 3", ONE)
    state = call.invoke(agent, Command(resume="yes"), ONE)

    assert state["messages"][-2].text == "paid 3: yes"
    assert charges == [3]


def test_values_come_back_as_they_were(saver):
    @dataclass
    class Point:
        x: int

    values = [(1, 2), {"a": {3}}, b"x", HumanMessage("hi", id="1"), {1: 2}, {"__foldline__": 1}]

    @step
    def make(n: int):
        return values[n]

    @step
    def point() -> Point:
        return Point(4)

    point.function.__annotations__["return"] = Point

    @workflow(checkpointer=saver)
    def flow(name: str):
        results = [make(n) for n in range(len(values))]
        assert results == values
        assert point() == Point(4)
        return interrupt("?")

    thread = flow.thread("1")
    with pytest.raises(FlowInterruptedError):
        thread("x")
    assert thread.resume(1) == 1


def test_an_object_that_nothing_declares_is_refused_when_it_is_written(saver):
    @step
    def make():
        return Receipt(amount=1)

    @workflow(checkpointer=saver)
    def flow(name: str):
        return make().amount

    with pytest.raises(
        SchemaError, match="make#0 holds a Receipt, and no annotation declares that type: annotate"
    ):
        flow.thread("1")("x")


def test_an_async_step_in_a_blocking_flow_says_what_to_write():
    @step
    async def fetch() -> int:
        return 1

    @workflow
    def flow(name: str):
        return fetch()

    with pytest.raises(UsageError, match="write `async def` there"):
        flow("x")


def test_a_step_outside_a_flow_is_a_function():
    @step
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    assert gather([add.later(1, 2), add.later(3, 4)]) == [3, 7]
