"""Types of composed runnables, as a type checker sees them."""

from collections.abc import Iterator
from typing import Any, assert_type

from foldline.runnables import (
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
    chain,
)


class Prompt(Runnable[dict[str, str], list[str]]):
    pass


class Model(Runnable[list[str], float]):
    pass


class Parser(Runnable[float, str]):
    pass


def shout(text: str) -> bytes:
    return text.encode()


async def ashout(text: str) -> bytes:
    return text.encode()


def pieces(words: Iterator[str]) -> Iterator[int]:
    yield 1


@chain
def double(x: int) -> str:
    return str(x)


def test_a_pipe_knows_its_ends() -> None:
    chain = Prompt() | Model() | Parser()
    assert_type(chain, RunnableSequence[dict[str, str], str])
    assert_type(chain.invoke({}), str)
    assert_type(chain.batch([{}]), list[str])
    assert_type(Prompt().pipe(Model()).invoke({}), float)


async def test_the_twins_know_too() -> None:
    chain = Prompt() | Model() | Parser()
    assert_type(await chain.ainvoke({}), str)
    async for piece in chain.astream({}):
        assert_type(piece, str)


def test_functions_and_dicts_in_a_pipe() -> None:
    assert_type((Parser() | shout).invoke(1.0), bytes)
    assert_type((Parser() | ashout).invoke(1.0), bytes)
    assert_type((Parser() | {"a": shout}).invoke(1.0), dict[str, Any])
    assert_type((Parser() | pieces).invoke(1.0), Any)
    assert_type(({"a": shout} | Model()).invoke({}), float)


def test_what_keeps_its_types() -> None:
    assert_type(Parser().bind(stop=["x"]).invoke(1.0), str)
    assert_type(Parser().with_config(tags=["t"]).invoke(1.0), str)
    assert_type(Parser().map().invoke([1.0]), list[str])
    assert_type(RunnableParallel[float](a=Parser()).invoke(1.0), dict[str, Any])
    assert_type(double, RunnableLambda[int, str])
    assert_type(double.invoke(1), str)
    assert_type(RunnableGenerator[str, int](pieces).invoke("a"), int)
