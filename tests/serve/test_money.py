"""Budgets and tokens per minute hold for all kinds of apps and all workers, by the count of the provider itself."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline._storage.open_database import open_database
from foldline.serve.keys import ApiKey, KeyStore
from foldline.serve.log.schema import SCHEMA
from foldline.serve.quotas import Quotas
from tests.serve.money_apps import KINDS, WORDS, input_of
from tests.serve.process import ServeProcess, sse
from tests.serve.stub_provider import INPUT, StubProvider, stub_provider
from tests.servers.databases import new_database, postgres_server

__all__ = ["postgres_server"]

APPS = [
    f"{name}=tests.serve.money_apps:{name}"
    for name in (*KINDS, "long", "unknown", "unknown_agent", "open_ended", "vectors")
]
DOLLARS = 0.001
"""The price of a token."""
CALL = (INPUT + WORDS) * DOLLARS
"""What an answer of full length costs."""


class Shop:
    """Two workers on one log, a provider, and keys."""

    def __init__(self, folder: Path, log: str, provider: StubProvider) -> None:
        self.folder, self.log, self.provider = folder, log, provider
        self.database = open_database(log, SCHEMA)
        self.keys = KeyStore(self.database)
        self.keys.add("first")  # so that the servers know from the start that there are keys
        self.workers = [self.start(number) for number in range(2)]

    def start(self, number: int) -> ServeProcess:
        folder = self.folder / f"worker-{number}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        worker = ServeProcess(folder, apps=APPS, log=self.log)
        worker.environment["STUB_URL"] = self.provider.url
        return worker.start()

    def close(self) -> None:
        for worker in self.workers:
            worker.stop(signal.SIGKILL)
        self.database.close()

    def key(self, name: str, **limits: Any) -> tuple[dict[str, str], ApiKey]:
        text, key = self.keys.add(f"{name}-{time.monotonic_ns()}", **limits)
        return {"authorization": f"Bearer {text}"}, key

    def run(self, worker: int, key: dict[str, str], app: str, text: str, *, streams: bool) -> int:
        """Run an app to its end; return its status, 200 if it was answered."""
        body = {"app": app, "input": input_of(app, text), ("stream" if streams else "wait"): True}
        url = f"{self.workers[worker].url}/runs"
        answer = httpx.post(url, json=body, headers=key, timeout=120)
        if not streams or answer.status_code != 200:
            return answer.status_code
        ends = [data["params"]["data"] for name, data in sse(answer.text) if name == "run"]
        error = ends[-1].get("error")
        kinds = {"budget": 402, "rate_limit": 429}
        return 200 if ends[-1]["event"] == "success" else kinds.get(error["kind"], 500)

    def many(self, key: dict[str, str], apps: list[str], text: str) -> Counter[int]:
        """Run apps in parallel, by turns on each worker, streamed or not."""

        def one(place: tuple[int, str]) -> int:
            number, app = place
            return self.run(number % 2, key, app, text, streams=number % 4 < 2)

        with ThreadPoolExecutor(len(apps)) as pool:
            return Counter(pool.map(one, enumerate(apps)))

    def spent(self, key: ApiKey) -> float:
        return Quotas(self.database).spent_today(key)

    def holds(self, key: ApiKey) -> int:
        rows = self.database.rows("SELECT COUNT(*) FROM serve_holds WHERE owner = ?", (key.id,))
        return int(rows[0][0])

    def tokens(self, key: ApiKey) -> float:
        statement = "SELECT COALESCE(SUM(amount), 0) FROM serve_spending WHERE owner = ? AND kind = 'tokens'"
        return float(self.database.rows(statement, (key.id,))[0][0])


@pytest.fixture(scope="module", params=["file", "postgres"])
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    log = str(folder / "runs.db")
    if request.param == "postgres":
        log = new_database(request.getfixturevalue("postgres_server"))
    with stub_provider() as provider:
        shop = Shop(folder, log, provider)
        try:
            yield shop
        finally:
            shop.close()


@pytest.mark.parametrize("kind", KINDS)
def test_S10_S11_a_budget_holds_for_every_kind_of_app_on_two_workers(shop: Shop, kind: str) -> None:
    key, record = shop.key(kind, budget=4 * CALL)

    statuses = shop.many(key, [kind] * 12, f"label-{kind}budget words-{WORDS} pace-3")

    count = shop.provider.counts[f"{kind}budget"]
    assert set(statuses) == {200, 402}
    assert count.tokens * DOLLARS <= 4 * CALL
    assert shop.spent(record) == pytest.approx(count.tokens * DOLLARS)
    assert shop.holds(record) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_S10_S11_tokens_per_minute_hold_for_every_kind_of_app(shop: Shop, kind: str) -> None:
    limit = 4 * (INPUT + WORDS)
    key, record = shop.key(kind, tpm=limit)

    statuses = shop.many(key, [kind] * 12, f"label-{kind}tokens words-{WORDS} pace-3")

    count = shop.provider.counts[f"{kind}tokens"]
    assert set(statuses) == {200, 429}
    assert count.tokens <= limit
    assert shop.tokens(record) == count.tokens
    assert shop.holds(record) == 0
