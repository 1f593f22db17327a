"""Embeddings in usage scopes: their requests are held in ledgers and settled there, and count for nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.embeddings import CacheBackedEmbeddings
from foldline.exceptions import BudgetExceeded, ModelError
from foldline.language_models import Limits, usage_scope
from foldline.prices import register_prices
from foldline.providers.openai import OpenAIEmbeddings
from foldline.rate_limiters import InMemoryRateLimiter
from foldline.stores import InMemoryByteStore
from tests.servers import Answer, FaultServer, json_answer
from tests.servers.script import STALL

PATH = "/v1/embeddings"
COUNTED = 7
"""The tokens that the provider counts; the estimate of a text of forty characters is ten."""
TEXT = "x" * 40
DOLLARS = 0.001
register_prices("openai", {"priced-vectors": {"input": DOLLARS * 1_000_000}})


class Account:
    """A ledger in memory."""

    def __init__(self, tokens: int = 1_000) -> None:
        self.left = tokens
        self.reserved: list[tuple[int, float | None]] = []
        self.settled: list[tuple[int | None, float | None]] = []

    def reserve(self, tokens: int, cost: float | None) -> int:
        if tokens > self.left:
            raise BudgetExceeded("too little is left", used=tokens, limit=self.left)
        self.left -= tokens
        self.reserved.append((tokens, cost))
        return tokens

    def settle(self, hold: int, tokens: int | None, cost: float | None) -> None:
        self.left += hold - (hold if tokens is None else tokens)
        self.settled.append((tokens, cost))


def answer(count: int = 1, tokens: int | None = COUNTED) -> Any:
    rows = [{"index": place, "embedding": [0.5, 0.25]} for place in range(count)]
    return json_answer(
        {"data": rows, **({} if tokens is None else {"usage": {"total_tokens": tokens}})}
    )


def make(server: FaultServer, *answers: Any, **options: Any) -> OpenAIEmbeddings:
    server.script(PATH, *(answers or (answer(),)))
    settings = {"model": "priced-vectors", "max_retries": 0, **options}
    return OpenAIEmbeddings(base_url=f"{server.url}/v1", api_key="k", **settings)


def count_requests(server: FaultServer) -> int:
    return len(server.requests(PATH))


def test_S10_a_request_is_held_at_its_estimate_and_settled_at_its_usage(
    call: Any, fault_server: FaultServer
) -> None:
    account, model = Account(), make(fault_server)
    with usage_scope(ledger=account):
        call.run(model, "embed_query", TEXT)
        call.run(model, "embed_documents", [TEXT])

    assert account.reserved == [(10, pytest.approx(0.01))] * 2
    assert account.settled == [(COUNTED, pytest.approx(0.007))] * 2


def test_S10_every_request_of_a_call_is_held(call: Any, fault_server: FaultServer) -> None:
    account = Account()
    model = make(fault_server, chunk_size=1, max_concurrency=3)
    with usage_scope(ledger=account):
        call.run(model, "embed_documents", [TEXT] * 5)

    assert len(account.reserved) == len(account.settled) == 5
    assert account.left == 1_000 - 5 * COUNTED


def test_S10_a_request_that_does_not_fit_is_not_sent(call: Any, fault_server: FaultServer) -> None:
    account, model = Account(tokens=9), make(fault_server)
    with usage_scope(ledger=account), pytest.raises(BudgetExceeded, match="too little is left"):
        call.run(model, "embed_query", TEXT)

    assert count_requests(fault_server) == 0
    assert (account.left, account.settled) == (9, [])


def test_S10_texts_from_a_cache_are_not_charged_again(call: Any, fault_server: FaultServer) -> None:
    account, model = Account(), make(fault_server)
    cached = CacheBackedEmbeddings.from_bytes_store(
        model, InMemoryByteStore(), namespace="v", query_embedding_cache=True
    )
    with usage_scope(ledger=account):
        for _ in range(3):
            call.run(cached, "embed_documents", [TEXT])
            call.run(cached, "embed_query", TEXT)

    assert count_requests(fault_server) == 1
    assert account.settled == [(COUNTED, pytest.approx(0.007))]


def test_S17_without_usage_the_counted_input_is_charged(
    call: Any, fault_server: FaultServer
) -> None:
    account, model = Account(), make(fault_server, answer(tokens=None))
    with usage_scope(ledger=account):
        call.run(model, "embed_query", TEXT)

    assert account.settled == [(10, pytest.approx(0.01))]


@pytest.mark.parametrize("tokens", [-5, True, "7", 1.5])
def test_a_count_that_is_no_number_of_tokens_is_unknown(
    call: Any, fault_server: FaultServer, tokens: Any
) -> None:
    account, model = Account(), make(fault_server, answer(tokens=tokens))
    with usage_scope(ledger=account):
        call.run(model, "embed_query", TEXT)

    assert account.settled == [(10, pytest.approx(0.01))]


def test_S17_a_request_that_failed_is_charged_at_its_input(
    call: Any, fault_server: FaultServer
) -> None:
    broken = json_answer({"error": {"message": "broken"}}, status=500)
    account, model = Account(), make(fault_server, broken)
    with usage_scope(ledger=account), pytest.raises(ModelError, match="broken"):
        call.run(model, "embed_query", TEXT)

    assert account.settled == [(10, pytest.approx(0.01))]


def test_S17_a_request_that_was_not_sent_costs_nothing(call: Any) -> None:
    account = Account()
    model = OpenAIEmbeddings(
        model="priced-vectors", base_url="http://127.0.0.1:1/v1", api_key="k", max_retries=0
    )
    with usage_scope(ledger=account), pytest.raises(ModelError):
        call.run(model, "embed_query", TEXT)

    assert account.settled == [(0, 0.0)]
    assert account.left == 1_000


def test_S17_a_key_that_cannot_be_read_costs_nothing(call: Any, fault_server: FaultServer) -> None:
    def read_key() -> str:
        raise RuntimeError("the vault is closed")

    account, model = Account(), make(fault_server)
    model.api_key = read_key
    with usage_scope(ledger=account), pytest.raises(Exception, match="vault"):
        call.run(model, "embed_query", TEXT)

    assert (account.settled, account.left) == ([(0, 0.0)], 1_000)


def test_a_rate_limit_that_refuses_releases_the_hold(call: Any, fault_server: FaultServer) -> None:
    account = Account()
    model = make(fault_server, rate_limiter=InMemoryRateLimiter(tokens_per_minute=5))
    with usage_scope(ledger=account), pytest.raises(Exception, match="never fits"):
        call.run(model, "embed_query", TEXT)

    assert (account.settled, account.left) == ([(0, 0.0)], 1_000)


def test_a_call_that_is_cancelled_is_settled_at_the_end_of_the_scope(
    fault_server: FaultServer,
) -> None:
    account = Account()
    model = make(fault_server, Answer(before=[(STALL, None)]))

    async def main() -> None:
        with usage_scope(ledger=account):
            task = asyncio.ensure_future(model.aembed_query(TEXT))
            while not count_requests(fault_server):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert account.settled == [(10, pytest.approx(0.01))]


def test_S15_a_ledger_sees_that_the_price_of_embeddings_is_unknown(
    call: Any, fault_server: FaultServer
) -> None:
    account, model = Account(), make(fault_server, model="unpriced-vectors")
    with usage_scope(ledger=account):
        call.run(model, "embed_query", TEXT)

    assert account.reserved == [(10, None)]
    assert account.settled == [(COUNTED, None)]


# -- without a ledger


def test_embeddings_count_for_no_limit_and_no_sum_of_a_scope(
    call: Any, fault_server: FaultServer
) -> None:
    model = make(fault_server, model="unpriced-vectors")
    with usage_scope(Limits(model_calls=0, total_tokens=1, cost=0.001)) as usage:
        call.run(model, "embed_query", TEXT)

    assert (usage.model_calls, usage.total_tokens, usage.cost) == (0, 0, 0.0)
