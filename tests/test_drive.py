"""Bodies run to their end without a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from foldline._io.drive import GeneratorStream, drive, drive_each
from foldline.exceptions import BlockingCallError


def test_a_body_that_never_suspends_gives_its_value():
    async def inner() -> int:
        return 1

    async def body() -> int:
        return await inner() + 1

    assert drive(body()) == 2


def test_a_body_that_suspends_is_refused_and_closed():
    closings = []

    async def body() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closings.append(True)

    with pytest.raises(BlockingCallError, match="use the async method"):
        drive(body())
    assert closings == [True]


def test_an_error_passes_with_the_users_frames():
    async def body() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as excinfo:
        drive(body())
    here = "test_an_error_passes_with_the_users_frames"
    assert [entry.name for entry in excinfo.traceback][-2:] == [here, "body"]


async def numbers(closings: list[Any]) -> AsyncGenerator[int, None]:
    try:
        yield 1
        yield 2
    finally:
        closings.append(True)


def test_a_stream_is_iterated_and_closed():
    closings: list[Any] = []
    assert list(drive_each(numbers(closings))) == [1, 2]
    assert closings == [True]


def test_closing_early_runs_the_finally():
    closings: list[Any] = []
    stream = drive_each(numbers(closings))
    assert next(stream) == 1
    stream.close()
    assert closings == [True]


def test_a_stream_that_suspends_is_refused():
    async def waits() -> AsyncGenerator[int, None]:
        await asyncio.sleep(0)
        yield 1

    with pytest.raises(BlockingCallError):
        list(drive_each(waits()))


def test_a_blocking_generator_in_the_shape_of_a_stream_is_taken_out_again():
    def count() -> Any:
        yield 1
        yield 2

    assert list(drive_each(GeneratorStream(count()))) == [1, 2]

    async def read() -> list[int]:
        return [item async for item in GeneratorStream(count())]

    assert drive(read()) == [1, 2]
    assert asyncio.run(read()) == [1, 2]


def test_an_iterated_stream_can_be_closed_and_thrown_into():
    closings = []

    def count() -> Any:
        try:
            yield 1
        except ValueError:
            yield 2
        finally:
            closings.append(True)

    async def body() -> tuple[int, int]:
        stream = GeneratorStream(count())
        first = await anext(stream)
        second = await stream.athrow(ValueError("x"))
        await stream.aclose()
        return first, second

    assert drive(body()) == (1, 2)
    assert closings == [True]


def test_closing_an_iterated_stream_closes_what_it_reads_from_even_if_one_fails_to():
    closings = []

    def numbers(name: str, source: Any = (1, 2), *, fail: bool = False) -> Any:
        try:
            yield from source
        finally:
            closings.append(name)
            if fail:
                raise ValueError(name)

    first = numbers("first")
    second = numbers("second", first, fail=True)
    stream = drive_each(GeneratorStream(second, (first,)))
    assert next(stream) == 1
    with pytest.raises(ValueError, match="second"):
        stream.close()
    assert sorted(closings) == ["first", "second"]
