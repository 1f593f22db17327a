"""F-C03: a call cancelled at its n-th await, for every n, by every way to ask.

The n-th await is counted inside the task itself, so each cut falls on the very suspension it names and not on
whatever the scheduler made of a sleep. Ways to ask that start tasks of their own are also cancelled from outside,
after n turns of the loop, so that the tasks inside are met wherever they are.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any

from foldline.agents import create_agent
from foldline.language_models import BaseChatModel
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.transports import NativeTransport
from tests.faults.matrix import EVERY_WIRE
from tests.faults.probe import sockets
from tests.faults.wires import Wire
from tests.servers import Answer, FaultServer

HOWS = ("await", "twice", "outside")
"""At the n-th await; there and again at the next one; from another task after n turns of the loop."""
Ask = Callable[[BaseChatModel], Awaitable[Any]]


@dataclass
class Cancels:
    """Counts of what happened to the cancelled calls."""

    points: int = 0
    lost: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Calls after a cancelled one that did not give their answer."""

    @property
    def faults(self) -> list[str]:
        return [*self.lost, *self.leaked, *self.broken]


async def _all(stream: Any) -> list[Any]:
    return [item async for item in stream]


async def _stream_v2(model: BaseChatModel) -> Any:
    stream = await model.astream_v2("Hi")
    texts = [piece async for piece in stream.text]
    return texts, await stream


async def _chain(model: BaseChatModel) -> Any:
    chain = ChatPromptTemplate.from_messages([("human", "{x}")]) | model | StrOutputParser()
    return [piece async for piece in chain.astream({"x": "Hi"})]


ASKS: dict[str, Ask] = {
    "ainvoke": lambda model: model.ainvoke("Hi"),
    "astream": lambda model: _all(model.astream("Hi")),
    "astream_v2": _stream_v2,
    "abatch": lambda model: model.abatch(["Hi", "Hi"]),
    "abatch_as_completed": lambda model: _all(model.abatch_as_completed(["Hi", "Hi"])),
    "agenerate": lambda model: model.agenerate([[("human", "Hi")]]),
    "astream_events": lambda model: _all(model.astream_events("Hi", version="v2")),
    "chain": _chain,
    "with_retry": lambda model: model.with_retry(stop_after_attempt=2).ainvoke("Hi"),
    "with_fallbacks": lambda model: model.with_fallbacks([model]).ainvoke("Hi"),
    "agent": lambda model: create_agent(model, []).ainvoke({"messages": [("human", "Hi")]}),
}


class Stepped:
    """A body that cancels its own task at the n-th await, and optionally again at the next one."""

    def __init__(self, body: Coroutine[Any, Any, Any], at: int, *, twice: bool) -> None:
        self._body = body
        self._cuts = {at, at + 1} if twice else {at}
        self.steps = 0
        self.is_cut = False

    @types.coroutine
    def run(self) -> Generator[Any, Any, Any]:
        send, value = self._body.send, None
        while True:
            try:
                waiting = send(value)
            except StopIteration as stop:
                return stop.value
            self.steps += 1
            if self.steps in self._cuts:
                self.is_cut = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                value, send = (yield waiting), self._body.send
            except BaseException as error:  # noqa: BLE001  what the loop threw in is thrown further in
                value, send = error, self._body.throw  # type: ignore[assignment]


class Canceller:
    """Cancels calls to one server, one point after another."""

    def __init__(self, server: FaultServer, cancels: Cancels) -> None:
        self.server = server
        self.cancels = cancels

    def sweep(self, wire: Wire, name: str, how: str = "await", pause: float = 0.0) -> None:
        """Cancel one way to ask at its first await, its second, and so on, until it gets through."""
        headers = {"content-type": wire.content_type}
        answer = Answer(wire.pieces(), headers=headers, framing="chunked", pause=pause)
        self.server.script_all(list(wire.paths), answer)
        asyncio.run(self._sweep(wire, name, how))
        if self.server.wait_for_open(0):
            self.cancels.leaked.append(f"{wire.name} {name}: connections are open after the loop")

    async def _sweep(self, wire: Wire, name: str, how: str) -> None:
        transport = NativeTransport()
        model = wire.model(self.server.url, transport=transport)
        truth = await model.ainvoke("Hi")
        before = sockets()
        at = 1
        while await self._point(model, name, at, how):
            at += 1
            await asyncio.sleep(0)
            self._check(f"{wire.name} {name} {how} {at}", before)
            if at % 7 == 1 and (answer := await model.ainvoke("Hi")).text != truth.text:
                self.cancels.broken.append(f"{wire.name} {name} {how}: {answer!r}")
        await transport.aclose()

    async def _point(self, model: BaseChatModel, name: str, at: int, how: str) -> bool:
        """Cancel once; False when the call got through before that."""
        body = _coroutine(ASKS[name](model))
        step_body = Stepped(body, 0 if how == "outside" else at, twice=how == "twice")
        task = asyncio.ensure_future(_hosted(step_body))
        if how == "outside":
            for _ in range(at):
                await asyncio.sleep(0)
            step_body.is_cut = not task.done() and task.cancel()
        finished, _ = await asyncio.wait([task], timeout=5)
        if not step_body.is_cut:
            task.result()
            return False
        self.cancels.points += 1
        if not finished or not task.cancelled():
            ending = task.exception() or "an answer" if finished else "nothing"
            self.cancels.lost.append(f"{model._provider} {name} {how} {at}: {ending!r}")
            task.cancel()
        return True

    def _check(self, place: str, before: int) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            self.cancels.leaked.append(f"{place}: {others}")
        if sockets() > before + 1:  # one idle connection may wait in the pool
            self.cancels.leaked.append(f"{place}: {sockets() - before} sockets more")


async def _hosted(step_body: Stepped) -> Any:
    return await step_body.run()


async def _coroutine(waiting: Awaitable[Any]) -> Any:
    return await waiting


def cancel_everywhere(server: FaultServer, points: int) -> Cancels:
    """Go round the wires and the ways to ask, cancelling in turn in each way, until this many points were cut."""
    cancels = Cancels()
    canceller = Canceller(server, cancels)
    for turn in count():
        for place, (wire, name) in enumerate(product(EVERY_WIRE.values(), ASKS)):
            how = HOWS[(turn + place) % len(HOWS)]
            # From outside a pause is only more turns in which nothing happens.
            canceller.sweep(wire, name, how, 0.001 if turn % 2 and how != "outside" else 0.0)
        if cancels.points >= points or cancels.faults:
            break
    return cancels
