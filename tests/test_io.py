"""The two ways to wait: threads and tasks, merging, closing, contexts."""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from foldline._io import ASYNC, BLOCKING, IO, stopped_by, waiting
from foldline._io.drive import drive
from foldline._io.waiting import THREADS, LoopIterator
from foldline.exceptions import BlockingCallError
from foldline.utils._signals import SIGNALS

pytestmark = pytest.mark.timing

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


@pytest.fixture(params=[BLOCKING, ASYNC], ids=["blocking", "async"])
def io(request: pytest.FixtureRequest) -> IO:
    return request.param


def finish(io: IO, body: Coroutine[Any, Any, Any]) -> Any:
    return drive(body) if io.blocking else asyncio.run(body)


async def collect(stream: AsyncGenerator[Any, None]) -> list[Any]:
    async with aclosing(stream):
        return [item async for item in stream]


# -- calling


def test_a_blocking_function_is_called(io):
    assert finish(io, io.call(lambda x, y: x + y, 1, y=2)) == 3


def test_an_async_function_is_awaited_on_a_loop_and_refused_without():
    async def async_function(x: int) -> int:
        return x

    assert asyncio.run(ASYNC.call(async_function, 1)) == 1
    assert asyncio.run(ASYNC.call(lambda: async_function(1))) == 1
    with pytest.raises(BlockingCallError, match="async_function is async"):
        drive(BLOCKING.call(async_function, 1))


def test_a_blocking_function_does_not_block_the_loop(no_blocking):
    async def main() -> list[str]:
        order = []

        async def tick() -> None:
            await asyncio.sleep(0.01)
            order.append("tick")

        def work() -> None:
            time.sleep(0.1)
            order.append("work")

        await asyncio.gather(ASYNC.call(work), tick())
        return order

    assert asyncio.run(main()) == ["tick", "work"]


def test_an_awaitable_of_somebody_else_is_settled(io):
    async def body() -> Any:
        async def foreign_awaitable() -> str:
            await asyncio.sleep(0)
            return COLOUR.get()

        return await io.settle(foreign_awaitable())

    token = COLOUR.set("red")
    try:
        assert finish(io, body()) == "red"
    finally:
        COLOUR.reset(token)


def test_many_threads_are_made_when_many_are_needed():
    meeting = threading.Barrier(40, timeout=10)

    async def body(_: int) -> int:
        return meeting.wait()

    async def main() -> int:
        return len(await collect(BLOCKING.as_completed(body, range(40), limit=40)))

    assert drive(main()) == 40


def test_threads_leave_when_idle(no_leaks):
    done = threading.Event()
    THREADS.submit(done.set)
    assert done.wait(5)


def test_the_pool_survives_a_fork():
    done = threading.Event()
    THREADS.submit(done.set)
    done.wait(5)
    program = (
        "import os, sys\n"
        "from foldline.runnables import RunnableLambda\n"
        "add = RunnableLambda(lambda x: x + 1)\n"
        "add.batch([1, 2, 3])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if add.batch([1, 2, 3]) == [2, 3, 4] else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0


# -- several bodies


def test_outcomes_say_their_place_their_value_or_their_error(io):
    async def body(x: int) -> int:
        if x == 1:
            raise ValueError("one")
        return x * 10

    outcomes = finish(io, collect(io.as_completed(body, [0, 1, 2], limit=None)))
    assert sorted((o.place, o.value, repr(o.error)) for o in outcomes) == [
        (0, 0, "None"),
        (1, None, "ValueError('one')"),
        (2, 20, "None"),
    ]


@pytest.mark.parametrize("limit", [1, 3])
def test_items_may_be_any_iterable(io, limit):
    async def body(x: int) -> int:
        return x

    outcomes = finish(io, collect(io.as_completed(body, iter(range(5)), limit=limit)))
    assert sorted(outcome.value for outcome in outcomes) == list(range(5))


def test_bodies_that_were_cancelled_by_somebody_else_are_outcomes():
    async def body(x: int) -> None:
        raise asyncio.CancelledError

    (outcome,) = asyncio.run(collect(ASYNC.as_completed(body, [1], limit=None)))
    assert isinstance(outcome.error, asyncio.CancelledError)


def test_context_variables_are_copied_for_each_body(io):
    async def body(x: int) -> str:
        colour = COLOUR.get()
        COLOUR.set(str(x))
        return colour

    async def main() -> list[Any]:
        COLOUR.set("red")
        outcomes = await collect(io.as_completed(body, [1, 2, 3], limit=2))
        return [COLOUR.get(), *(outcome.value for outcome in outcomes)]

    assert contextvars.copy_context().run(finish, io, main()) == ["red"] * 4


# -- merging


async def count(to: int, closings: list[Any] | None = None) -> AsyncGenerator[int, None]:
    try:
        for n in range(to):
            yield n
    finally:
        if closings is not None:
            closings.append(to)


@pytest.mark.slow
def test_merged_streams_give_all_their_items_in_their_order(io, no_leaks):
    async def main() -> list[Any]:
        return await collect(io.merge({"a": count(50), "b": count(30)}))

    items = finish(io, main())
    assert [n for key, n in items if key == "a"] == list(range(50))
    assert [n for key, n in items if key == "b"] == list(range(30))
    assert finish(io, collect(io.merge({}))) == []


def test_merging_closed_while_producers_wait_closes_every_stream(io, no_leaks):
    closings: list[Any] = []

    async def main() -> None:
        merged_stream = io.merge({key: count(10_000 + key, closings) for key in range(5)})
        async with aclosing(merged_stream):
            async for _ in merged_stream:
                await io.sleep(0.05)  # let the others fill what room there is
                break

    finish(io, main())
    assert sorted(closings) == [10_000, 10_001, 10_002, 10_003, 10_004]


@pytest.mark.slow
def test_an_error_in_one_stream_ends_the_merge_and_closes_the_others(io, no_leaks):
    closings: list[Any] = []

    async def fails() -> AsyncGenerator[int, None]:
        yield 0
        raise ValueError("no")

    async def main() -> None:
        await collect(io.merge({"bad": fails(), "good": count(1_000_000, closings)}))

    with pytest.raises(ValueError, match="no"):
        finish(io, main())
    assert closings == [1_000_000]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_a_stream_that_is_closed_can_ask_which_failure_it_is_closed_for(io, no_leaks, depth):
    reasons: list[BaseException | None] = []

    async def endless() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1  # never waits: it is held up only where its item is handed over
        finally:
            reasons.append(stopped_by())

    async def fails() -> AsyncGenerator[int, None]:
        raise ValueError("no")
        yield 1

    def nested() -> AsyncGenerator[Any, None]:
        stream: AsyncGenerator[Any, None] = endless()
        for _ in range(depth - 1):
            stream = io.merge({"within": stream})
        return stream

    async def leave() -> None:
        merged_stream = io.merge({"endless": nested()})
        async with aclosing(merged_stream):
            await anext(merged_stream)

    with pytest.raises(ValueError, match="no") as excinfo:
        finish(io, collect(io.merge({"endless": nested(), "fails": fails()})))
    finish(io, leave())

    assert reasons == [excinfo.value, None]
    assert stopped_by() is None


def test_a_stream_that_is_cancelled_from_within_does_not_hang_the_merge():
    async def cancelled() -> AsyncGenerator[int, None]:
        yield 1
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await collect(ASYNC.merge({"a": cancelled(), "b": count(3)}))

    asyncio.run(asyncio.wait_for(main(), 5))


def test_FC09_a_slow_reader_of_merged_streams_holds_up_the_producers(io):
    numbers = []

    async def produce() -> AsyncGenerator[int, None]:
        for n in range(10_000):
            numbers.append(n)
            yield n

    async def main() -> None:
        merged_stream = io.merge({"a": produce(), "b": produce()})
        async with aclosing(merged_stream):
            await anext(merged_stream)
            await io.sleep(0.05)

    finish(io, main())
    assert len(numbers) < 100


# -- iterating what users give


def test_each_gives_the_items_of_sync_and_async_iterators(io):
    assert finish(io, collect(io.each([1, 2]))) == [1, 2]
    assert finish(io, collect(io.each(iter([1, 2])))) == [1, 2]
    if io.blocking:
        with pytest.raises(BlockingCallError, match="use astream"):
            finish(io, collect(io.each(count(2))))
    else:
        assert finish(io, collect(io.each(count(2)))) == [0, 1]


def test_each_closes_a_users_generator(io):
    closings = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closings.append(True)

    async def main() -> None:
        async with aclosing(io.each(numbers())) as items:
            assert await anext(items) == 0

    finish(io, main())
    assert closings == [True]


def test_what_is_around_a_step_is_not_around_the_reader(io):
    @contextmanager
    def red() -> Iterator[None]:
        token = COLOUR.set("red")
        try:
            yield
        finally:
            COLOUR.reset(token)

    class Red:
        def __enter__(self) -> None:
            self.inside = red()
            self.inside.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.inside.__exit__(*error)

    def blocking() -> Iterator[str]:
        yield COLOUR.get()
        yield COLOUR.get()

    async def async_items() -> AsyncGenerator[str, None]:
        yield COLOUR.get()
        yield COLOUR.get()

    async def main(items: Any) -> list[Any]:
        async with aclosing(io.each(items, Red())) as pieces:
            return [(piece, COLOUR.get()) async for piece in pieces]

    assert finish(io, main(blocking())) == [("red", "none")] * 2
    if not io.blocking:
        assert finish(io, main(async_items())) == [("red", "none")] * 2


def test_what_a_blocking_generator_sets_it_sees_again(io):
    def numbers() -> Iterator[str]:
        COLOUR.set("mine")
        yield "first"
        yield COLOUR.get()

    async def main() -> list[Any]:
        return await collect(io.each(numbers()))

    assert contextvars.copy_context().run(finish, io, main()) == ["first", "mine"]


def test_a_stream_of_ours_can_be_read_by_blocking_code(io):
    async def main() -> list[int]:
        async with io.iterate(count(3)) as items:
            return await io.call(list, items)

    assert finish(io, main()) == [0, 1, 2]


def test_errors_pass_through_the_bridge_between_sync_and_async(io):
    async def fails() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("mine")

    async def main() -> None:
        async with io.iterate(fails()) as items:
            await io.call(list, items)

    with pytest.raises(ValueError, match="mine"):
        finish(io, main())


def test_an_iterator_whose_stream_was_closed_ends():
    async def main() -> list[int]:
        async with ASYNC.iterate(count(3)) as items:
            pass
        return await ASYNC.call(list, items)

    assert asyncio.run(main()) == []


# -- beside


def test_a_body_started_beside_gives_its_result_or_its_error(io):
    async def good() -> int:
        return 1

    async def bad() -> int:
        raise ValueError("no")

    async def main() -> int:
        good_task, failed = io.start(good()), io.start(bad())
        with pytest.raises(ValueError, match="no"):
            await failed.result()
        return await good_task.result()

    assert finish(io, main()) == 1


def test_a_lock_lets_one_body_in(io):
    inside: list[int] = []

    async def main() -> None:
        lock = io.lock()

        async def body(x: int) -> None:
            async with lock:
                inside.append(x)
                await io.sleep(0.005)
                assert inside.pop() == x

        for outcome in await collect(io.as_completed(body, range(4), limit=4)):
            assert outcome.error is None

    finish(io, main())
    assert inside == []


# -- the end of the program


PROGRAMS: dict[str, str] = {
    "batch": "RunnableLambda(lambda x: time.sleep(30)).batch([1, 2, 3])",
    "parallel": "RunnableParallel(a=lambda x: time.sleep(30), b=lambda x: time.sleep(30)).invoke(1)",
    "streamed parallel": "list(RunnableParallel(a=lambda x: time.sleep(30), b=lambda x: time.sleep(30)).stream(1))",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_FC13_an_interrupt_ends_the_program_at_once(name: str):
    program = (
        "import sys, time\n"
        "from foldline.runnables import RunnableLambda, RunnableParallel\n"
        "print('ready', flush=True)\n"
        f"{PROGRAMS[name]}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        start = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    finally:
        process.kill()
    assert time.monotonic() - start < 5
    assert process.returncode in (130, -signal.SIGINT, 1)
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_hanging_function_does_not_hang_the_interpreter():
    program = (
        "import asyncio, time\n"
        "from foldline.runnables import RunnableLambda\n"
        "async def main():\n"
        "    task = asyncio.ensure_future(RunnableLambda(lambda x: time.sleep(60)).ainvoke(1))\n"
        "    await asyncio.sleep(0.1)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], timeout=20, check=True)


def test_what_was_shielded_is_cancelled_when_its_grace_is_over(monkeypatch):
    monkeypatch.setattr(waiting, "GRACE_SECONDS", 0.05)
    cancellations = []

    async def hang():
        try:
            await asyncio.sleep(60)
        finally:
            cancellations.append(True)

    async def main():
        shielded = asyncio.ensure_future(waiting.shield(hang()))
        await asyncio.sleep(0)
        shielded.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shielded
        await asyncio.sleep(0)
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert asyncio.run(main()) == []
    assert cancellations == [True]


def test_FC03_a_step_asked_of_a_loop_that_has_ended_ends_the_iteration():
    async def letters() -> AsyncIterator[str]:
        yield "a"

    async def begin() -> LoopIterator[str]:
        return LoopIterator(letters())

    iterator = asyncio.run(begin())  # as a user's thread may hold it after its loop is gone
    assert list(iterator) == []  # a coroutine that was never awaited would be an error here


def blocked_signals() -> set[int]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_the_threads_leave_signals_to_the_main_thread_but_not_in_a_users_code():
    masks: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    threads = waiting.Threads()

    threads.submit(lambda: masks.put(blocked_signals()), has_user_code=False)
    own = masks.get(timeout=10)
    threads.submit(lambda: masks.put(blocked_signals()))
    users = masks.get(timeout=10)
    threads.submit(lambda: masks.put(blocked_signals()), has_user_code=False)

    assert {signal.SIGINT, signal.SIGTERM, signal.SIGWINCH} <= own
    assert signal.SIGSEGV not in own
    assert not users & SIGNALS
    assert masks.get(timeout=10) == own
    assert not blocked_signals() & SIGNALS
