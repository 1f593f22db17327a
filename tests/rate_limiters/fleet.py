"""Eight processes under one limit, and a stub that counts what reaches it.

The stub is a socket of the parent: a model of a process sends it one datagram per request, as a request would go to a
provider, and the parent notes when it came.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import socket
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import redis
from pydantic import Field

from foldline._run import Run
from foldline.language_models import BaseChatModel, ChatRequest
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter
from foldline.rate_limiters import (
    LocalLimit,
    Permit,
    Quota,
    QuotaLimiter,
    RedisRateLimiter,
    SQLiteRateLimiter,
)
from foldline.rate_limiters.quotas import SLOTS
from tests.servers.databases import Server, wait_until

PROCESSES = 8
ASKED_AT: ContextVar[float] = ContextVar("asked_at")
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Plan:
    """Settings of the processes of a fleet: where the limits are stored, which they are, for how long."""

    store: str
    place: str
    quotas: tuple[Quota, ...]
    seconds: float
    tasks: int = 10
    least: int = 50
    most: int = 150
    takes: float = 0.02
    """Seconds that an answer takes."""
    local: LocalLimit | None = None
    """The fallback without Redis; None raises an error."""

    def limiter(self, **options: Any) -> QuotaLimiter:
        if self.store == "redis":
            options |= {
                "on_unreachable": self.local or "fail",
                "timeout": 0.5 if self.local else 2.0,
            }
            return RedisRateLimiter(self.place, key="fleet", quotas=self.quotas, **options)
        return SQLiteRateLimiter(self.place, key="fleet", quotas=self.quotas, **options)


class CountedModel(BaseChatModel):
    """Reports every request to the stub, and uses a random number of tokens."""

    port: int
    plan: Any = Field(exclude=True)
    chance: Any = Field(default_factory=random.Random, exclude=True)

    @property
    def _llm_type(self) -> str:
        return "counted"

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        tokens = self.chance.randint(self.plan.least, self.plan.most)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            data = {"tokens": tokens, "asked_at": ASKED_AT.get()}
            line.sendto(json.dumps(data).encode(), ("127.0.0.1", self.port))
        await run.io.sleep(self.plan.takes)
        writer = EventWriter()
        for event in writer.text("hi"):
            yield event
        usage = {"input_tokens": 0, "output_tokens": tokens, "total_tokens": tokens}
        for event in writer.finish("stop", usage=usage):
            yield event


def work(plan: Plan, port: int, start: Any, end: Any) -> None:
    """Send requests as fast as the limits allow, from several tasks, until the end."""
    limiter = plan.limiter()
    enter = limiter.enter

    async def noted(*args: Any) -> Permit:
        permit = await enter(*args)
        ASKED_AT.set(permit.asked_at)
        return permit

    limiter.enter = noted  # type: ignore[method-assign]
    model = CountedModel(port=port, plan=plan, rate_limiter=limiter)

    async def send() -> None:
        while not end.is_set():
            await model.ainvoke("")

    async def run() -> None:
        tasks = [asyncio.create_task(send()) for _ in range(plan.tasks)]
        while not end.is_set():
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    start.wait()
    asyncio.run(run())


class Stub:
    """Notes when each request came, and its tokens."""

    def __init__(self) -> None:
        self.line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.line.bind(("127.0.0.1", 0))
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        self.port = self.line.getsockname()[1]
        self.arrivals: list[tuple[float, int]] = []
        self.delays: list[float] = []
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        while data := self.line.recv(1000):
            now, record = time.monotonic(), json.loads(data)
            self.arrivals.append((now, record["tokens"]))
            self.delays.append(now - record["asked_at"])

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.sendto(b"", ("127.0.0.1", self.port))
        self.thread.join(10)
        self.line.close()

    def late(self, seconds: float) -> int:
        """Return how many came so late that the machine, not the limiter, put them into another stretch of time."""
        return sum(delay > seconds / SLOTS for delay in self.delays)

    def most(self, seconds: float, *, tokens: bool = False) -> int:
        """Return the most requests, or tokens, in any stretch of so many seconds."""
        highest, first, running = 0, 0, 0
        for at, amount in self.arrivals:
            running += amount if tokens else 1
            while self.arrivals[first][0] <= at - seconds:
                running -= self.arrivals[first][1] if tokens else 1
                first += 1
            highest = max(highest, running)
        return highest


@contextmanager
def running_fleet(plan: Plan, processes: int = PROCESSES) -> Any:
    """Run the processes; gives the stub and the processes once all of them have begun."""
    stub, end = Stub(), SPAWN.Event()
    start = SPAWN.Barrier(processes + 1)
    workers = [
        SPAWN.Process(target=work, args=(plan, stub.port, start, end)) for _ in range(processes)
    ]
    try:
        for worker in workers:
            worker.start()
        start.wait(120)
        yield stub, workers
    finally:
        end.set()
        for worker in workers:
            worker.join(30)
            if worker.is_alive():
                worker.kill()
        stub.close()


def start_again(server: Server) -> None:
    """Start a Redis that was stopped, and wait until it has loaded its data."""
    server.start()
    wait_until(lambda: _is_ready(server.url), "redis")


def _is_ready(url: str) -> bool:
    client = redis.Redis.from_url(url)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
