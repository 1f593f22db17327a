"""A cancellation at every await of a flow, a graph and an agent: nothing acknowledged is repeated, nothing is left."""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Coroutine, Generator
from typing import Annotated, Any, TypedDict

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import SqliteSaver
from foldline.graph import END, START, StateGraph
from foldline.messages import ToolMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import agather, step, workflow

THREAD = {"configurable": {"thread_id": "1"}}
MOST_AWAITS = 400


class CancelledAt:
    """Awaits a body; its task is cancelled at the await of that number."""

    def __init__(self, body: Coroutine[Any, Any, Any], number: int) -> None:
        self.body = body
        self.number = number
        self.was_reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        body, count = self.body.__await__(), 0
        try:
            future = next(body)
            while True:
                if count == self.number:
                    self.was_reached = True
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                count += 1
                try:
                    value = yield future
                except BaseException as error:  # noqa: BLE001  it is thrown into the body
                    future = body.throw(error)
                else:
                    future = body.send(value)
        except StopIteration as end:
            return end.value

    async def run(self) -> Any:
        return await self


class Program:
    """A program that may be cancelled and resumed; `effects` are its actions, in order."""

    def __init__(self, saver: SqliteSaver) -> None:
        self.effects: list[int] = []
        self.saver = saver

    async def work(self, number: int) -> int:
        await asyncio.sleep(0)
        self.effects.append(number)
        return number


class Flow(Program):
    def __init__(self, saver: SqliteSaver) -> None:
        super().__init__(saver)
        work = step(self.work)

        @workflow(checkpointer=saver)
        async def flow(count: int) -> list[int]:
            first = [await work(0), await work(1)]
            return [*first, *await agather(work.each(range(2, count)))]

        self.thread = flow.thread("1")

    async def run(self) -> Any:
        state = await self.thread.astate()
        return state.value if state.status == "done" else await self.thread(4)

    async def kept(self) -> list[int]:
        return [int(place.rpartition("#")[2]) for place in (await self.thread.astate()).steps]


class State(TypedDict, total=False):
    done: Annotated[list[int], operator.add]


class Graph(Program):
    def __init__(self, saver: SqliteSaver) -> None:
        super().__init__(saver)
        builder = StateGraph(State)
        for number in range(4):

            async def node(state: State, number: int = number) -> State:
                return {"done": [await self.work(number)]}

            builder.add_node(f"n{number}", node)
        builder.add_edge(START, "n0")
        builder.add_edge("n0", "n1")
        builder.add_edge("n0", "n2")
        builder.add_edge(["n1", "n2"], "n3")
        builder.add_edge("n3", END)
        self.graph = builder.compile(checkpointer=saver)

    async def run(self) -> Any:
        state = await self.graph.aget_state(THREAD)
        is_begun = bool(state.next or state.values.get("done"))
        if is_begun and not state.next:
            return state.values["done"]
        return (await self.graph.ainvoke(None if is_begun else {}, THREAD))["done"]

    async def kept(self) -> list[int]:
        state = await self.graph.aget_state(THREAD)
        pending = [task.result for task in state.tasks if task.result]
        return [*state.values.get("done", []), *(name for part in pending for name in part["done"])]


class Agent(Program):
    def __init__(self, saver: SqliteSaver) -> None:
        super().__init__(saver)

        @tool
        async def work(number: int) -> int:
            """Work."""
            return await self.work(number)

        def turn(request: Any) -> Any:
            results = sum(isinstance(message, ToolMessage) for message in request.messages)
            if results >= 4:
                return "Done."
            numbers = [0, 1] if results == 0 else [2, 3]
            return [Call("work", {"number": number}, id=f"c{number}") for number in numbers]

        self.agent = create_agent(ScriptedChatModel(script=turn), [work], checkpointer=saver)

    async def run(self) -> Any:
        state = await self.agent.aget_state(THREAD)
        if not state.values or state.next:
            await self.agent.ainvoke(None if state.next else "work", THREAD)
        return await self.kept()

    async def kept(self) -> list[int]:
        state = await self.agent.aget_state(THREAD)
        messages = state.values.get("messages", [])
        finished_numbers = [
            int(message.text) for message in messages if isinstance(message, ToolMessage)
        ]
        bodies = [json.loads(entry.body) for entry in self.saver.read("1", "")]
        alone = [int(body["call_id"][1:]) for body in bodies if body["kind"] == "tool"]
        return [*finished_numbers, *(number for number in alone if number not in finished_numbers)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Flow, Graph, Agent])
def test_a_cancellation_at_every_await_repeats_nothing_that_was_kept(tmp_path, no_leaks, kind):
    async def once(number: int) -> bool:
        saver = SqliteSaver(tmp_path / f"{number}.db")
        program = kind(saver)
        body = CancelledAt(program.run(), number)
        task = asyncio.ensure_future(body.run())
        await asyncio.wait([task])
        if not task.cancelled():
            assert task.exception() is None
        saved, count = await program.kept(), len(program.effects)
        assert sorted(await program.run()) == [0, 1, 2, 3]
        assert not set(saved) & set(program.effects[count:]), "what was kept ran again"
        assert set(program.effects) == {0, 1, 2, 3}
        saver.close()
        return body.was_reached

    numbers = iter(range(MOST_AWAITS))
    while asyncio.run(once(next(numbers))):
        pass
    assert next(numbers) > 5, "the program has several awaits"
