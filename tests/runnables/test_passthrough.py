"""Passing on, assigning and picking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from foldline.exceptions import BlockingCallError, UsageError
from foldline.runnables import (
    AddableDict,
    RunnableConfig,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
    RunnablePick,
)
from foldline.runnables.passthrough import aidentity, identity


def test_the_input_passes(call):
    assert call.invoke(RunnablePassthrough(), 1) == 1
    assert call.stream(RunnablePassthrough(), 1) == [1]
    assert call.transform(RunnablePassthrough(), [1, 2]) == [1, 2]
    assert identity(1) == asyncio.run(aidentity(1)) == 1


def test_a_function_looks_at_the_whole_of_what_passes(call):
    calls: list[Any] = []

    def look(x: Any, config: RunnableConfig) -> None:
        calls.append((x, config["tags"]))

    passing = RunnablePassthrough(look)
    assert call.invoke(passing, "ab", {"tags": ["t"]}) == "ab"
    assert call.transform(passing, ["a", "b"]) == ["a", "b"]

    assert calls == [("ab", ["t"]), ("ab", [])]


def test_each_mode_has_its_own_function(call):
    modes = []

    async def async_function(x: Any) -> None:
        modes.append("async")

    call.invoke(RunnablePassthrough(lambda x: modes.append("sync"), async_function), 1)
    assert modes == [call.mode]

    with pytest.raises(BlockingCallError, match="use ainvoke"):
        RunnablePassthrough(async_function).invoke(1)


def test_assign_adds_keys(call):
    chain = RunnablePassthrough.assign(
        b=lambda d: d["a"] + 1, c=RunnableLambda(lambda d: d["a"] * 9)
    )

    assert call.invoke(chain, {"a": 1}) == {"a": 1, "b": 2, "c": 9}
    assert call.invoke(RunnableLambda(lambda x: {"a": x}).assign(b=lambda d: d["a"] + 1), 1) == {
        "a": 1,
        "b": 2,
    }


def test_assign_overwrites_a_key(call):
    chain = RunnablePassthrough.assign(a=lambda d: d["a"] + 1)

    assert call.invoke(chain, {"a": 1}) == {"a": 2}
    assert call.stream(chain, {"a": 1}) == [{"a": 2}]


def test_assign_streams_the_keys_that_were_there_at_once(call):
    def letters(values: Iterator[dict[str, str]]) -> Iterator[str]:
        for value in values:
            yield from value.get("word", "")

    chain = RunnablePassthrough.assign(letters=RunnableGenerator(letters))

    assert call.stream(chain, {"word": "ab"}) == [
        {"word": "ab"},
        {"letters": "a"},
        {"letters": "b"},
    ]
    pieces = call.transform(chain, [AddableDict(word="a"), AddableDict(word="b", n=1)])
    assert pieces[:2] == [{"word": "a"}, {"word": "b", "n": 1}]
    assert sum(pieces, AddableDict()) == {"word": "ab", "n": 1, "letters": "ab"}


def test_pick_gives_a_value_or_a_smaller_dict(call):
    values = {"a": 1, "b": 2, "c": 3}

    assert call.invoke(RunnablePick("a"), values) == 1
    assert call.invoke(RunnablePick(["a", "b", "z"]), values) == {"a": 1, "b": 2}
    assert call.invoke(RunnablePick("z"), values) is None
    assert call.stream(RunnablePick("z"), values) == []
    assert call.invoke(RunnableLambda(lambda x: {"n": x}).pick("n"), 5) == 5
    assert call.transform(RunnablePick("a"), [{"a": 1}, {"b": 2}, {"a": 3}]) == [1, 3]


@pytest.mark.parametrize("runnable", [RunnablePick("a"), RunnablePassthrough.assign(a=len)])
def test_what_is_no_dict_is_refused(call, runnable):
    for do in (call.invoke, call.stream):
        with pytest.raises(UsageError, match="must be a dict, not int: 3"):
            do(runnable, 3)
    with pytest.raises(ValueError, match="must be a dict"):
        call.transform(runnable, [3])


def test_names():
    assert RunnablePick(["a", "b"]).get_name() == "RunnablePick<a,b>"
    assert RunnablePassthrough.assign(x=len).get_name() == "RunnableAssign<x>"
