"""Small things: what adds up, what waits, what functions ask for and read."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    HumanMessage,
    filter_messages,
    merge_message_runs,
    trim_messages,
)
from foldline.runnables import RunnableLambda
from foldline.runnables.utils import (
    AddableDict,
    ConfigurableField,
    ConfigurableFieldMultiOption,
    ConfigurableFieldSingleOption,
    ConfigurableFieldSpec,
    aadd,
    accepts_config,
    accepts_context,
    accepts_run_manager,
    add,
    asyncio_accepts_context,
    coro_with_context,
    gated_coro,
    gather_with_concurrency,
    get_function_first_arg_dict_keys,
    get_function_nonlocals,
    get_lambda_source,
    get_unique_config_specs,
    indent_lines_after_first,
    is_async_callable,
    is_async_generator,
)


def test_dicts_add_up_key_by_key():
    total = AddableDict(text="a", n=1) + AddableDict(text="b", m=None) + {"n": None, "m": 2}

    assert total == {"text": "ab", "n": 1, "m": 2}
    assert {"text": "a"} + AddableDict(text="b") == {"text": "ab"}
    assert AddableDict(x={"no": "plus"}) + {"x": "newer"} == {"x": "newer"}


def test_items_add_up():
    async def letters() -> AsyncIterator[str]:
        for letter in "abc":
            yield letter

    async def nothing() -> AsyncIterator[str]:
        return
        yield

    assert add(["a", "b"]) == "ab"
    assert add([]) is None
    assert asyncio.run(aadd(letters())) == "abc"
    assert asyncio.run(aadd(nothing())) is None


def test_awaited_together_but_not_too_many_at_once():
    running, highest = 0, 0

    async def work(number: int) -> int:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        await asyncio.sleep(0.005)
        running -= 1
        return number

    assert asyncio.run(gather_with_concurrency(2, *(work(n) for n in range(6)))) == list(range(6))
    assert highest == 2
    assert asyncio.run(gather_with_concurrency(None)) == []


def test_the_first_error_cancels_the_others_and_leaves_no_coroutine_unawaited():
    cancelled: list[bool] = []

    async def fail() -> None:
        raise ValueError("first")

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        with pytest.raises(ValueError, match="first"):
            await gather_with_concurrency(2, wait(), fail(), wait())

    asyncio.run(main())
    assert cancelled == [True]


def test_coroutines_behind_a_gate_and_in_a_context():
    name = contextvars.ContextVar("name", default="nobody")
    context = contextvars.copy_context()
    context.run(name.set, "ann")

    async def who() -> str:
        return name.get()

    async def main() -> list[str]:
        gate = asyncio.Semaphore(1)
        return [
            await gated_coro(gate, who()),
            await coro_with_context(who(), context, create_task=True),
        ]

    assert asyncio.run(main()) == ["nobody", "ann"]
    assert asyncio_accepts_context()


def test_what_a_function_is_and_takes():
    async def coroutine(x: Any, config: Any) -> None: ...

    async def generator(x: Any, run_manager: Any) -> AsyncIterator[int]:
        yield 1

    class CallableObject:
        async def __call__(self, x: Any, context: Any) -> None: ...

    assert is_async_callable(coroutine)
    assert is_async_callable(CallableObject())
    assert not is_async_callable(len)
    assert is_async_generator(generator)
    assert not is_async_generator(coroutine)
    assert accepts_config(coroutine)
    assert accepts_run_manager(generator)
    assert accepts_context(CallableObject())
    assert not accepts_config(len)
    assert not accepts_config(dict)


def test_specs_come_once_and_in_order():
    a, b = ConfigurableFieldSpec("a", str), ConfigurableFieldSpec("b", str)

    assert get_unique_config_specs([b, a, b]) == [a, b]
    with pytest.raises(UsageError, match="two configurable fields share the id 'a'"):
        get_unique_config_specs([a, ConfigurableFieldSpec("a", int)])


def test_fields_can_be_keys():
    fields = {
        ConfigurableField(id="a"),
        ConfigurableFieldSingleOption(id="b", options={"x": []}, default="x"),
        ConfigurableFieldMultiOption(id="c", options={"x": []}, default=["x"]),
    }

    assert {field.id for field in fields} == {"a", "b", "c"}


def test_lines_after_the_first_are_indented():
    assert indent_lines_after_first("a\nb\nc", "| ") == "a\n  b\n  c"


def test_what_a_function_reads_from_its_source():
    chain = RunnableLambda(lambda x: x)

    def outer(values: Any) -> Any:
        local = values["question"] or values.get("input")
        return chain.invoke(local)

    assert get_function_first_arg_dict_keys(outer) == ["input", "question"]
    assert chain in get_function_nonlocals(outer)
    assert get_function_nonlocals(len) == []
    assert get_function_first_arg_dict_keys(len) is None
    double = lambda x: x * 2  # noqa: E731
    assert get_lambda_source(double) == "lambda x: x * 2"
    assert get_lambda_source(outer) == "outer"


def test_verbs_of_messages_are_steps_of_a_chain(call):
    messages = [HumanMessage("a"), HumanMessage("b"), AIMessage("c")]
    chain = filter_messages(include_types=["human"]) | merge_message_runs()

    assert [m.text for m in call.invoke(chain, messages)] == ["a\nb"]
    trimmed = trim_messages(max_tokens=1, token_counter=len, strategy="last")
    assert [m.text for m in call.invoke(trimmed, messages)] == ["c"]
    assert trimmed.get_name() == "trim_messages"
