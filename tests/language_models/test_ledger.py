"""A ledger of a usage scope: every request is held before it is sent, and settled however it ends."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest

from foldline._storage.open_database import open_database
from foldline._storage.schema import Schema
from foldline.agents import create_agent
from foldline.exceptions import (
    BudgetExceeded,
    ModelConnectionError,
    ModelError,
    ModelRateLimitError,
    ModelTimeoutError,
    StreamTruncatedError,
)
from foldline.language_models import FakeListLLM, RetryPolicy, usage_scope
from foldline.messages import AIMessage
from foldline.testing import Call, Fail, Finish, Reason, ScriptedChatModel, Stall

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class Account:
    """A ledger in memory that keeps what it was told."""

    def __init__(self, tokens: int = 1_000_000) -> None:
        self.left = tokens
        self.open: dict[int, int] = {}
        self.calls: list[tuple[Any, ...]] = []

    def reserve(self, tokens: int, cost: float) -> int:
        self.calls.append(("reserve",))
        if tokens > self.left:
            raise BudgetExceeded("too little is left", used=tokens, limit=self.left)
        self.left -= tokens
        self.open[len(self.calls)] = tokens
        return len(self.calls)

    def settle(self, hold: int, tokens: int | None, cost: float | None) -> None:
        held = self.open.pop(hold)
        self.calls.append(("settle", tokens, cost))
        self.left += held - (held if tokens is None else tokens)


def model(*turns: Any, **options: Any) -> ScriptedChatModel:
    return ScriptedChatModel(script=list(turns), usage=USAGE, **options)


def test_an_answer_is_settled_at_its_usage(call):
    account = Account(10_000)
    with usage_scope(ledger=account):
        call.invoke(model("hello"), "hi")

    assert account.calls == [("reserve",), ("settle", 15, None)]
    assert (account.left, account.open) == (10_000 - 15, {})


def test_a_stream_is_settled_at_its_usage(call):
    account = Account(10_000)
    with usage_scope(ledger=account):
        call.stream(model("hello there"), "hi")
        call.stream_v2(model("hello there"), "hi")

    assert (account.left, account.open) == (10_000 - 30, {})


def test_a_request_that_does_not_fit_is_not_sent(call):
    asked = model("hello")
    with usage_scope(ledger=Account(20)), pytest.raises(BudgetExceeded, match="too little is left"):
        call.invoke(asked, "hi")

    assert asked.requests == []


def test_a_refusal_of_an_outer_ledger_releases_the_hold_of_the_inner_one(call):
    inner, outer = Account(), Account(20)
    with usage_scope(ledger=outer), usage_scope(ledger=inner), pytest.raises(BudgetExceeded):
        call.invoke(model("hello"), "hi")

    assert (inner.left, inner.open, outer.open) == (1_000_000, {}, {})


def test_every_attempt_is_held_and_one_that_was_not_answered_costs_nothing(call):
    account = Account()
    retrying = model(
        ModelError("busy", is_retryable=True),
        "hello",
        retry_on_error=RetryPolicy(1, initial=0.0, jitter=False),
    )
    with usage_scope(ledger=account):
        call.invoke(retrying, "hi")

    assert account.calls == [("reserve",), ("settle", 0, 0.0), ("reserve",), ("settle", 15, None)]


def counted_input(text: str) -> int:
    """What a call reserves beside its `max_tokens`."""
    account, sizes = Account(), list[int]()
    reserve = account.reserve
    account.reserve = lambda tokens, cost: sizes.append(tokens) or reserve(tokens, cost)  # type: ignore[method-assign, func-returns-value]
    with usage_scope(ledger=account):
        model("x").invoke(text, max_tokens=1)
    return sizes[0] - 1


def test_S16_an_answer_that_broke_off_counts_its_input_and_what_was_received(call):
    account = Account(10_000)
    broken = ScriptedChatModel(script=[["some words " * 10, Fail(ModelError("gone"))]])
    with usage_scope(ledger=account), pytest.raises(ModelError):
        call.stream(broken, "hi")

    assert account.calls[-1] == ("settle", counted_input("hi") + 28, None)
    assert account.open == {}


def test_S16_partial_usage_is_raised_to_what_was_received(call):
    account = Account(10_000)
    usage = {"input_tokens": 50, "output_tokens": 1, "total_tokens": 51}
    error = ModelError("gone", partial=AIMessage("", usage_metadata=usage))
    broken = ScriptedChatModel(script=[["x" * 400, Fail(error)]])
    with usage_scope(ledger=account), pytest.raises(ModelError):
        call.stream(broken, "hi")

    assert account.calls[-1] == ("settle", 150, None)


def test_S16_calls_and_thoughts_count_as_output(call):
    account = Account(10_000)
    parts = [Reason("t" * 100), Call("look", {"where": "y" * 100}), Fail(ModelError("gone"))]
    with usage_scope(ledger=account), pytest.raises(ModelError):
        call.stream(ScriptedChatModel(script=[parts]), "hi")

    assert account.calls[-1][1] >= counted_input("hi") + 50


def not_connected() -> ModelTimeoutError:
    error = ModelTimeoutError("no connection in time")
    error.phase = "connect"
    return error


@pytest.mark.parametrize(
    ("error", "is_charged"),
    [
        (ModelTimeoutError("no answer in time"), True),
        (not_connected(), False),
        (StreamTruncatedError("nothing came", is_retryable=False), True),
        (ModelRateLimitError("busy", status=429), False),
        (ModelConnectionError("not reached", is_retryable=False), False),
        (ModelError("refused", status=500, is_retryable=False), False),
    ],
)
def test_S16_without_an_answer_the_input_counts_if_the_provider_has_got_it(call, error, is_charged):
    account = Account(10_000)
    with usage_scope(ledger=account), pytest.raises(ModelError):
        call.invoke(ScriptedChatModel(script=[error], retry_on_error=False), "hi")

    assert account.calls[-1][1] == (counted_input("hi") if is_charged else 0)
    assert account.open == {}


def test_S16_a_call_that_is_cancelled_before_its_answer_counts_its_input():
    async def main() -> None:
        account = Account(10_000)
        with usage_scope(ledger=account):
            waiting = model([Stall(60), "late"])
            task = asyncio.ensure_future(waiting.ainvoke("hi"))
            while not account.open:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        assert account.calls[-1] == ("settle", counted_input("hi"), None)

    asyncio.run(main())


def test_S10_a_hold_that_comes_after_its_call_was_cancelled_is_given_back():
    async def main() -> None:
        class Slow(Account):
            begun, go_on = threading.Event(), threading.Event()

            def reserve(self, tokens: int, cost: float | None) -> int:
                self.begun.set()
                assert self.go_on.wait(10)
                return super().reserve(tokens, cost)

        account = Slow(10_000)
        with usage_scope(ledger=account):
            task = asyncio.ensure_future(model("hello").ainvoke("hi"))
            await asyncio.to_thread(account.begun.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            account.go_on.set()
            while account.calls[-1:] != [("settle", 0, 0.0)]:
                await asyncio.sleep(0.001)

        assert (account.left, account.open) == (10_000, {})

    asyncio.run(main())


class Crowded(Account):
    """A ledger that has room only at the third try."""

    def __init__(self, patience: float) -> None:
        super().__init__()
        self.tries, self.patience = 0, patience

    def reserve(self, tokens: int, cost: float | None) -> int:
        self.tries += 1
        if self.tries < 3:
            raise BudgetExceeded("no room beside others", patience=self.patience)
        return super().reserve(tokens, cost)


def test_S14_a_call_waits_while_its_ledger_has_patience(call):
    account = Crowded(patience=30)
    with usage_scope(ledger=account):
        assert call.invoke(model("hello"), "hi").text == "hello"

    assert account.tries == 3


def test_S14_without_patience_a_refusal_is_raised_at_once(call):
    account = Crowded(patience=0)
    with usage_scope(ledger=account), pytest.raises(BudgetExceeded, match="no room"):
        call.invoke(model("hello"), "hi")

    assert account.tries == 1


def test_S14_the_wait_for_a_ledger_ends_with_the_time_of_the_scope(call):
    account = Crowded(patience=30)
    account.tries = -1_000
    with usage_scope(timeout=0.3, ledger=account), pytest.raises(BudgetExceeded, match=r"0\.3 s"):
        call.invoke(model("hello"), "hi")


def test_S13_a_hold_is_the_input_and_the_likely_output_also_under_a_limit_of_cost(call):
    sizes: list[int] = []

    class Sized(Account):
        def reserve(self, tokens: int, cost: float | None) -> int:
            sizes.append(tokens)
            return super().reserve(tokens, cost)

    profile: Any = {"prices": {"input": 1.0, "output": 1.0}}
    usage = {"input_tokens": 1, "output_tokens": 5, "total_tokens": 6}
    with usage_scope(ledger=Sized()), usage_scope(cost=1_000.0):
        for options in ({}, {}, {"max_tokens": 99}):
            priced = ScriptedChatModel(script=["x"], usage=usage, profile=profile)
            call.invoke(priced, "hi", **options)

    size = counted_input("hi")
    assert [each - size for each in sizes] == [4096, 10, 99]


def test_S15_a_ledger_sees_that_a_price_is_unknown(call):
    costs: list[float | None] = []

    class Priced(Account):
        def reserve(self, tokens: int, cost: float | None) -> int:
            costs.append(cost)
            return super().reserve(tokens, cost)

    profile: Any = {"prices": {"input": 0.0, "output": 0.0}}
    with usage_scope(ledger=Priced()):
        call.invoke(model("x"), "hi")
        call.invoke(model("x", profile=profile), "hi")

    assert costs == [None, 0.0]


def test_a_stream_that_its_reader_left_is_settled_at_the_end_of_the_scope():
    account = Account()
    with usage_scope(ledger=account):
        stream = model(["a ", "b ", "c ", Finish("stop", USAGE)]).stream("hi")
        next(stream)
        stream.close()

    assert [each[0] for each in account.calls] == ["reserve", "settle"]
    assert account.open == {}


def test_a_stream_that_its_reader_leaves_after_the_scope_is_settled_too():
    account = Account()
    with usage_scope(ledger=account):
        stream = model(["a ", "b ", "c ", Finish("stop", USAGE)]).stream("hi")
        next(stream)
    stream.close()

    assert [each[0] for each in account.calls] == ["reserve", "settle"]
    assert account.open == {}


class Unreachable(Account):
    """A ledger that cannot be reached for some calls of `settle`."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def settle(self, hold: int, tokens: int | None, cost: float | None) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the ledger is not reachable")
        super().settle(hold, tokens, cost)


def test_an_answer_is_kept_if_its_ledger_is_out_of_reach_and_settled_with_the_next_call(
    call, caplog
):
    account = Unreachable(failures=1)
    with usage_scope(ledger=account):
        assert call.invoke(model("hello"), "hi").text == "hello"
        assert len(account.open) == 1
        call.invoke(model("hello"), "hi")

    assert "a ledger could not be settled, and will be later" in caplog.text
    assert account.open == {}
    assert account.left == 1_000_000 - 30


def leave_two_streams(account: Unreachable, error: Exception | None) -> None:
    with usage_scope(ledger=account):
        for _ in range(2):
            stream = model(["a ", "b ", Finish("stop", USAGE)]).stream("hi")
            next(stream)
            stream.close()
        account.failures = 1
        if error is not None:
            raise error


def test_at_the_end_of_a_scope_one_hold_that_fails_keeps_no_other_from_being_settled():
    account = Unreachable(failures=0)

    with pytest.raises(ConnectionError, match="not reachable"):
        leave_two_streams(account, None)

    assert len(account.open) == 1


def test_an_error_inside_a_scope_is_not_replaced_by_one_of_its_ledger():
    with pytest.raises(KeyError) as caught:
        leave_two_streams(Unreachable(failures=0), KeyError("of the program"))

    assert "a ledger could not be settled: ConnectionError" in caught.value.__notes__[0]


def test_the_first_answer_of_unknown_length_leaves_room_for_others(call):
    account = Account(10_000)
    seen: list[int] = []

    def look(_: Any) -> str:
        seen.append(account.left)
        return "hello"

    with usage_scope(ledger=account):
        call.invoke(ScriptedChatModel(script=look), "hi")

    assert seen[0] > 5000


def test_requests_of_an_agent_and_of_text_models_are_held_too(call):
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    account = Account()
    agent = create_agent(model([Call("add", {"a": 1, "b": 2})], "three"), [add])
    with usage_scope(ledger=account):
        call.invoke(agent, {"messages": "1 + 2?"})
        call.invoke(FakeListLLM(responses=["x"]), "hi")

    assert [each[0] for each in account.calls] == ["reserve", "settle"] * 3
    assert account.open == {}


# -- one account of several processes

SCHEMA = Schema(
    kind="account",
    tables=("foldline_account",),
    create="CREATE TABLE foldline_account (id {number}, tokens {big} NOT NULL, is_open INTEGER NOT NULL)",
)


class StoredAccount:
    """A ledger in a file: the sum of holds and of what was settled stays within a limit."""

    def __init__(self, path: Path, limit: int) -> None:
        self._database = open_database(path, SCHEMA)
        self._limit = limit

    def reserve(self, tokens: int, cost: float) -> Any:
        def hold(connection: Any) -> Any:
            used = connection.row("SELECT COALESCE(SUM(tokens), 0) FROM foldline_account")[0]
            if used + tokens > self._limit:
                raise BudgetExceeded("the account is empty", used=used + tokens, limit=self._limit)
            statement = "INSERT INTO foldline_account (tokens, is_open) VALUES (?, 1) RETURNING id"
            return connection.row(statement, (tokens,))[0]

        return self._database.write(hold)

    def settle(self, hold: Any, tokens: int | None, cost: float | None) -> None:
        self._database.write(
            lambda connection: connection.run(
                "UPDATE foldline_account SET is_open = 0, tokens = COALESCE(?, tokens) WHERE id = ?",
                (tokens, hold),
            )
        )

    def rows(self) -> list[Any]:
        return self._database.rows("SELECT tokens, is_open FROM foldline_account")


def spend(path: Path, limit: int) -> int:
    answered = 0
    with usage_scope(ledger=StoredAccount(path, limit)):
        for _ in range(40):
            try:
                model("hello", is_cyclic=True).invoke("hi", max_tokens=5)
                answered += 1
            except BudgetExceeded:
                break
    return answered


def test_two_processes_spend_no_more_together_than_their_account_has(tmp_path):
    path, limit = tmp_path / "account.db", 600
    StoredAccount(path, limit)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        answered = pool.starmap(spend, [(path, limit)] * 2)

    rows = StoredAccount(path, limit).rows()
    assert sum(tokens for tokens, _ in rows) <= limit
    assert sum(answered) * 15 == sum(tokens for tokens, _ in rows)
    assert [is_open for _, is_open in rows] == [0] * len(rows)
    assert sum(answered) >= 30
