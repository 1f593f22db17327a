"""Budgets and tokens per minute hold for all kinds of apps and all workers, by the count of the provider itself."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline._storage.open_database import open_database
from foldline.serve._keys import ApiKey, KeyStore
from foldline.serve._log.schema import SCHEMA
from foldline.serve._request_quotas import Quotas
from tests.serve.money_apps import KINDS, SEARCHERS, WORDS, input_of
from tests.serve.process import ServeProcess, sse
from tests.serve.stub_provider import INPUT, StubProvider, stub_provider
from tests.servers.databases import new_database, postgres_server, wait_until

__all__ = ["postgres_server"]

APPS = [
    f"{name}=tests.serve.money_apps:{name}"
    for name in (*KINDS, *SEARCHERS, "long", "unknown_search", "open_ended")
]
DOLLARS = 0.001
"""The price of a token."""
CALL = (INPUT + WORDS) * DOLLARS
"""What an answer of full length costs."""
ROOM = {"agent": 6}
"""How many calls' worth a key may spend where that is not four: an agent answers with its second call, for which there
is room even if all twelve have made their first one, which is short."""


class Shop:
    """Two workers on one log, a provider, and keys."""

    def __init__(self, folder: Path, log: str, provider: StubProvider) -> None:
        self.folder, self.log, self.provider = folder, log, provider
        self.database = open_database(log, SCHEMA)
        self.keys = KeyStore(self.database)
        self.keys.add("first")  # so that the servers know from the start that there are keys
        # Each request has a connection of its own. Nothing is verified on loopback: to read the certificates of the
        # machine for every request would take longer than the requests.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self.client = httpx.Client(timeout=120, limits=limits, verify=False)
        self.started: list[ServeProcess] = []
        self.workers = [self.start(number) for number in range(2)]

    def start(self, number: int, *options: str) -> ServeProcess:
        folder = self.folder / f"worker-{number}-{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        worker = ServeProcess(folder, apps=APPS, log=self.log, options=options)
        worker.environment["STUB_URL"] = self.provider.url
        self.started.append(worker)
        return worker.start()

    def close(self) -> None:
        for worker in self.started:
            worker.stop(signal.SIGKILL)
        self.client.close()
        self.database.close()

    def key(self, name: str, **limits: Any) -> tuple[dict[str, str], ApiKey]:
        text, key = self.keys.add(f"{name}-{time.monotonic_ns()}", **limits)
        return {"authorization": f"Bearer {text}"}, key

    def run(self, worker: int, key: dict[str, str], app: str, text: str, *, streams: bool) -> int:
        """Run an app to its end; return its status, 200 if it was answered."""
        body = {"app": app, "input": input_of(app, text), ("stream" if streams else "wait"): True}
        url = f"{self.workers[worker].url}/runs"
        answer = self.client.post(url, json=body, headers=key)
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

    def holders(self, key: ApiKey) -> list[str]:
        """The workers that hold something of a key, once for each hold."""
        rows = self.database.rows("SELECT worker FROM serve_holds WHERE owner = ?", (key.id,))
        return [str(row[0]) for row in rows]

    def words(self, key: ApiKey) -> int:
        """How many words of a key's runs are in the log."""
        rows = self.database.rows(
            "SELECT data FROM serve_events JOIN serve_runs ON serve_runs.id = run WHERE owner = ?",
            (key.id,),
        )
        return sum(str(data).count("abc") for (data,) in rows)

    def tokens(self, key: ApiKey) -> float:
        statement = "SELECT COALESCE(SUM(amount), 0) FROM serve_spending WHERE owner = ? AND kind = 'tokens'"
        return float(self.database.rows(statement, (key.id,))[0][0])


@pytest.fixture(scope="module", params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
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
    limit = ROOM.get(kind, 4) * CALL
    key, record = shop.key(kind, budget=limit)

    statuses = shop.many(key, [kind] * 12, f"label-{kind}budget words-{WORDS} pace-3")

    count = shop.provider.counts[f"{kind}budget"]
    assert set(statuses) == {200, 402}
    assert count.tokens * DOLLARS <= limit
    assert shop.spent(record) == pytest.approx(count.tokens * DOLLARS)
    assert shop.holds(record) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_S10_S11_tokens_per_minute_hold_for_every_kind_of_app(shop: Shop, kind: str) -> None:
    limit = ROOM.get(kind, 4) * (INPUT + WORDS)
    key, record = shop.key(kind, tpm=limit)

    statuses = shop.many(key, [kind] * 12, f"label-{kind}tokens words-{WORDS} pace-3")

    count = shop.provider.counts[f"{kind}tokens"]
    assert set(statuses) == {200, 429}
    assert count.tokens <= limit
    assert shop.tokens(record) == count.tokens
    assert shop.holds(record) == 0


@pytest.mark.parametrize("kind", SEARCHERS)
def test_S10_S17_what_an_app_embeds_counts_for_its_budget_and_its_tokens(
    shop: Shop, kind: str
) -> None:
    run = 2 * INPUT + INPUT + WORDS
    limit = 5 * run
    key, record = shop.key(kind, budget=limit * DOLLARS, tpm=1_000_000)
    label = kind.replace("_", "")

    statuses = shop.many(key, [kind] * 12, f"label-{label} words-{WORDS} pace-3")

    count = shop.provider.counts[label]
    assert set(statuses) <= {200, 402}
    assert statuses[402]
    assert count.requests > count.output / WORDS  # some of them were embeddings
    assert count.tokens <= limit
    assert shop.spent(record) == pytest.approx(count.tokens * DOLLARS)
    assert shop.tokens(record) == count.tokens
    assert shop.holds(record) == 0


def test_S15_an_app_that_embeds_at_an_unknown_price_is_refused_under_a_budget(shop: Shop) -> None:
    limited, _ = shop.key("unpriced", budget=1.0)
    free, record = shop.key("unbudgeted", tpm=1_000)

    assert shop.run(0, limited, "unknown_search", "label-unpriced", streams=False) == 403
    assert shop.provider.counts["unpriced"].requests == 0
    assert shop.run(0, free, "unknown_search", "label-unpriced", streams=False) == 200
    assert shop.tokens(record) == INPUT


# -- estimates that are too low, clients that leave, errors, kills


def test_S12_no_more_is_spent_than_the_limit_and_the_error_of_running_calls(shop: Shop) -> None:
    # Nothing is known of the first answers: 4,096 tokens are held for each, so that two fit; each takes 6,000.
    limit, real = 9_000 * DOLLARS, (INPUT + 6_000) * DOLLARS
    key, record = shop.key("low", budget=limit)

    statuses = shop.many(key, ["open_ended"] * 8, "label-low words-6000 pace-0")

    count = shop.provider.counts["low"]
    error = real - 4_096 * DOLLARS
    assert statuses[402] == 8 - count.requests >= 6
    assert count.tokens * DOLLARS <= limit + count.requests * error
    assert shop.spent(record) == pytest.approx(count.tokens * DOLLARS)


def test_S12_S16_clients_that_leave_at_every_tenth_event_pass_no_limit(shop: Shop) -> None:
    limit = 8 * CALL
    key, record = shop.key("leaver", budget=limit)

    def leave(number: int) -> int:
        body = {"model": "model", "stream": True,
                "messages": [{"role": "user", "content": f"label-leave words-{WORDS} pace-15"}]}  # fmt: skip
        url = f"{shop.workers[number % 2].url}/v1/chat/completions"
        with shop.client.stream("POST", url, json=body, headers=key) as answer:
            for seen, line in enumerate(answer.iter_lines()):
                if line.startswith("data:") and seen >= 10 * (number % 4):
                    break
            return answer.status_code

    with ThreadPoolExecutor(12) as pool:
        statuses = Counter(pool.map(leave, range(36)))

    count = shop.provider.wait_until_quiet("leave")
    wait_until(lambda: shop.holds(record) == 0, "settling")
    spent = shop.spent(record)
    assert set(statuses) == {200, 402}
    assert spent <= limit * 1.000001
    # What was on its way when a client left is charged by the provider, and was never received.
    on_its_way = statuses[200] * 10 * DOLLARS
    assert count.tokens * DOLLARS <= spent + on_its_way
    assert count.output < count.requests * WORDS  # what was left early cost less than an answer


def test_S12_failed_calls_cost_nothing_and_hold_nothing(shop: Shop) -> None:
    key, record = shop.key("failing", budget=4 * CALL)
    statuses = shop.many(key, ["model", "agent", "chain", "graph"] * 3, "label-fail fail-now")

    assert 200 not in statuses
    assert 402 not in statuses or statuses[402] < 12
    assert (shop.spent(record), shop.holds(record)) == (0, 0)


def start(shop: Shop, worker: ServeProcess, key: dict[str, str], text: str) -> str:
    body = {"app": "agent", "input": input_of("agent", text)}
    return str(
        httpx.post(f"{worker.url}/runs", json=body, headers=key, timeout=60).json()["run_id"]
    )


def test_S11_S12_what_a_killed_worker_held_is_settled_at_its_estimate(shop: Shop) -> None:
    limit = 10 * CALL
    key, record = shop.key("killed", budget=limit)
    victim = shop.start(2)
    text = f"label-killed words-{WORDS} stall-{WORDS // 2}"
    runs = [start(shop, victim, key, text) for _ in range(3)]
    count = shop.provider.counts["killed"]
    wait_until(lambda: count.output >= 3 * (1 + WORDS // 2), "the answers to begin")
    held = shop.holds(record)

    victim.stop(signal.SIGKILL)
    answer = httpx.get(f"{shop.workers[0].url}/runs/{runs[0]}", headers=key, timeout=60)

    assert held == 3
    assert answer.json()["status"] == "interrupted"
    assert shop.holds(record) == 0
    assert count.tokens * DOLLARS <= shop.spent(record) <= limit
    shop.many(key, ["model"] * 10, f"label-killed words-{WORDS}")
    assert count.tokens * DOLLARS <= limit
    assert shop.spent(record) <= limit * 1.000001


def test_S11_a_worker_that_starts_settles_what_the_dead_ones_held(shop: Shop) -> None:
    key, record = shop.key("restarted", tpm=10_000, budget=100.0)
    victim = shop.start(3)
    start(shop, victim, key, f"label-restart words-{WORDS} stall-5")
    wait_until(lambda: shop.holds(record) == 2, "the call")  # of tokens, and of money
    victim.stop(signal.SIGKILL)

    shop.start(4).stop()

    assert shop.holds(record) == 0
    assert shop.tokens(record) >= WORDS + INPUT
    assert shop.spent(record) >= CALL


def test_S11_a_worker_that_ends_leaves_no_hold(shop: Shop) -> None:
    key, record = shop.key("drained", budget=100.0)
    leaver = shop.start(5, "--drain", "0.1")
    start(shop, leaver, key, f"label-drain words-{WORDS} stall-5")
    wait_until(lambda: shop.provider.counts["drain"].output >= 6, "the answer to begin")

    leaver.stop()

    assert shop.holds(record) == 0
    assert 0 < shop.spent(record) < 2 * CALL


# -- hang-ups on each wire

LONG, CUT = 5_000, 4_600
GO_ON = frozenset(
    {"runs", "runs_wait", "langgraph", "langgraph_wait", "langgraph_thread", "thread_events", "vercel", "agui"}
)  # fmt: skip
"""There, a run goes on without its reader; elsewhere it ends."""


def long_request(shop: Shop, key: dict[str, str], wire: str, text: str) -> tuple[str, str, Any]:
    """The method, the path and the body of a request for a long answer, on each wire, and what goes before it."""
    messages = [{"role": "user", "content": text}]
    ui = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
    name, _, way = wire.partition("_")
    streams, thread = way != "wait", f"t{time.monotonic_ns()}"
    graph = {"assistant_id": "long", "input": {"messages": messages}, "if_not_exists": "create"}
    modes = {"stream_mode": "messages-tuple"} if streams else {}

    def prepare(path: str, body: Any) -> Any:
        answer = httpx.post(shop.workers[0].url + path, json=body, headers=key, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()

    if wire == "thread_events":
        start = {"id": 1, "method": "run.start", "params": graph}
        prepare(f"/threads/{thread}/commands", start)
        return "POST", f"/threads/{thread}/stream/events", {"channels": ["messages", "lifecycle"]}
    if wire == "langgraph_join":
        run = prepare(f"/threads/{thread}/runs", graph)["run_id"]
        path = (
            f"/threads/{thread}/runs/{run}/stream?cancel_on_disconnect=1&stream_mode=messages-tuple"
        )
        return "GET", path, None
    if name == "langgraph":
        head = f"/threads/{thread}" if way == "thread" else ""
        cancel = {"on_disconnect": "cancel"} if "cancel" in way else {}
        streams = way not in ("wait", "wait_cancel")
        body = {**graph, **(modes if streams else {}), **cancel}
        return "POST", f"{head}/runs/{'stream' if streams else 'wait'}", body
    both = {"model": "long", "stream": streams}
    tool = {"name": "long", "arguments": {"message": text}}
    path, body = {
        "chat": ("/v1/chat/completions", {**both, "messages": messages}),
        "completions": ("/v1/completions", {**both, "prompt": text, "max_tokens": LONG}),
        "responses": ("/v1/responses", {**both, "input": text}),
        "messages": ("/v1/messages", {**both, "max_tokens": LONG, "messages": messages}),
        "runs": ("/runs", {"app": "long", "stream": streams, "wait": True, "input": text}),
        "langserve": (
            {"wait": "/long/invoke", "batch": "/long/batch", "log": "/long/stream_log"}.get(way, "/long/stream"),
            {"inputs": [text]} if way == "batch" else {"input": text},
        ),
        "vercel": ("/api/chat/long", {"id": f"c{time.monotonic_ns()}", "messages": [ui]}),
        "agui": (
            "/agui/long",
            {"threadId": thread, "runId": "r", "state": {}, "tools": [], "context": [],
             "forwardedProps": {}, "messages": [{"id": "1", "role": "user", "content": text}]},
        ),
        "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}),
    }[name]  # fmt: skip
    return "POST", path, body


STREAMED = (
    "chat", "completions", "responses", "messages", "runs", "langserve", "langserve_log", "langgraph",
    "langgraph_cancel", "langgraph_thread", "langgraph_join", "thread_events", "vercel", "agui",
)  # fmt: skip
IN_ONE_PIECE = (
    "mcp", "chat_wait", "completions_wait", "responses_wait", "messages_wait", "runs_wait", "langserve_wait",
    "langserve_batch", "langgraph_wait", "langgraph_wait_cancel",
)  # fmt: skip
both_databases = pytest.mark.parametrize(
    "shop",
    ["file", pytest.param("postgres", marks=pytest.mark.slow)],
    indirect=True,
    scope="module",
)


def check_charge(shop: Shop, record: ApiKey, wire: str, label: str) -> None:
    """Who has left is charged what was sent, and in full where the run went on."""
    wait_until(lambda: shop.holds(record) == 0, "settling")
    full = LONG + INPUT
    share = 1.0 if wire in GO_ON else 0.85
    sent = shop.provider.wait_until_quiet(label).tokens
    assert shop.tokens(record) >= share * full
    assert shop.spent(record) >= share * full * DOLLARS * 0.999
    assert shop.spent(record) >= sent * DOLLARS * 0.999
    assert sent == full if wire in GO_ON else sent < full


@both_databases
@pytest.mark.parametrize("wire", STREAMED)
def test_S16_who_hangs_up_pays_for_what_was_sent(shop: Shop, wire: str) -> None:
    key, record = shop.key(wire, budget=1_000.0, tpm=1_000_000)
    label = f"hang{wire.replace('_', '')}"
    text = f"label-{label} words-{LONG} stall-{CUT}"
    method, path, body = long_request(shop, key, wire, text)
    seen, tail = 0, ""
    with httpx.stream(
        method, shop.workers[0].url + path, json=body, headers=key, timeout=60
    ) as answer:
        assert answer.status_code == 200, answer.read()
        for chunk in answer.iter_text():
            text = tail + chunk  # a word may be cut between two chunks
            seen, tail = seen + text.count("abc"), text[-2:]
            if seen >= CUT:
                break
    if wire in GO_ON:
        shop.provider.counts[label].go_on.set()

    check_charge(shop, record, wire, label)


@both_databases
@pytest.mark.parametrize("wire", IN_ONE_PIECE)
def test_S16_who_leaves_before_an_answer_in_one_piece_pays_for_what_was_sent(
    shop: Shop, wire: str
) -> None:
    key, record = shop.key(wire, budget=1_000.0, tpm=1_000_000)
    label = f"leave{wire.replace('_', '')}"
    text = f"label-{label} words-{LONG} stall-{CUT}"
    method, path, body = long_request(shop, key, wire, text)
    connection = HTTPConnection("127.0.0.1", shop.workers[0].port)
    headers = {**key, "content-type": "application/json"}
    connection.request(method, path, json.dumps(body), headers)
    wait_until(lambda: shop.words(record) >= CUT, "the words", 60)

    connection.close()
    if wire in GO_ON:
        shop.provider.counts[label].go_on.set()

    check_charge(shop, record, wire, label)


def test_S16_nothing_more_of_a_batch_is_begun_when_the_client_has_left(shop: Shop) -> None:
    key, record = shop.key("tools", budget=1_000.0)
    _, path, call = long_request(shop, key, "mcp", "label-tools words-9 stall-5")
    body = json.dumps([{**call, "id": number} for number in range(5)])
    connection = HTTPConnection("127.0.0.1", shop.workers[0].port)
    connection.request("POST", path, body, {**key, "content-type": "application/json"})
    wait_until(lambda: shop.words(record) >= 5, "the words")

    connection.close()

    wait_until(lambda: shop.holds(record) == 0, "settling")
    url = f"{shop.workers[0].url}/runs"
    runs = httpx.get(url, headers=key, timeout=60).json()["runs"]
    assert [run["status"] for run in runs] == ["stopped"]
    assert shop.provider.wait_until_quiet("tools").requests == 1


# -- everything at once


class Crowd:
    """Many clients at once: some wait, some stream, some leave at a tenth event, some ask for a failure."""

    def __init__(self, shop: Shop, size: int, label: str, key: dict[str, str]) -> None:
        self.shop, self.size, self.label, self.key = shop, size, label, key
        self.left = 0

    def call(self, number: int) -> int | None:
        """Return the status; None if the worker died meanwhile."""
        kind = KINDS[number % len(KINDS)]
        fails = " fail-now" if number % 17 == 16 else ""
        text = f"label-{self.label} words-{WORDS} pace-4{fails}"
        worker = number % len(self.shop.workers)
        try:
            if number % 3 == 2:
                return self.leave(worker, text, 10 * (number % 4))
            return self.shop.run(worker, self.key, kind, text, streams=number % 3 == 1)
        except httpx.HTTPError:
            return None

    def leave(self, worker: int, text: str, events: int) -> int:
        messages = [{"role": "user", "content": text}]
        body = {"model": "model", "stream": True, "messages": messages}
        url = f"{self.shop.workers[worker].url}/v1/chat/completions"
        with self.shop.client.stream("POST", url, json=body, headers=self.key) as answer:
            for seen, line in enumerate(answer.iter_lines()):
                if line.startswith("data:") and seen >= events:
                    self.left += 1
                    break
            return answer.status_code

    def run(self, during: Any = None) -> Counter[int | None]:
        with ThreadPoolExecutor(self.size) as pool:
            statuses = pool.map(self.call, range(self.size))
            if during is not None:
                during()
            return Counter(statuses)


@pytest.mark.parametrize("size", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_S12_a_crowd_of_clients_and_a_kill_pass_no_limit(shop: Shop, size: int) -> None:
    # So many fit at once that some of them are at the worker that stays, however a busy machine shares them out:
    # what the killed one holds is charged, and those calls are answered by nobody.
    limit = size * 3 / 4 * CALL
    key, record = shop.key("crowd", budget=limit, tpm=1_000_000)
    crowd = Crowd(shop, size, f"crowd{size}", key)
    count = shop.provider.counts[crowd.label]

    def kill() -> None:
        wait_until(lambda: count.requests >= size // 8, "the calls")
        victim = shop.workers[1]
        victim.stop(signal.SIGKILL)
        shop.workers[1] = shop.start(1)

    first = crowd.run(kill)
    second = crowd.run()

    shop.provider.wait_until_quiet(crowd.label)
    wait_until(lambda: shop.holds(record) == 0, "settling")
    on_its_way = crowd.left * 10 * DOLLARS
    spent = shop.spent(record)
    assert first[200]
    assert second[402]
    assert None not in second
    assert spent <= limit * 1.000001
    assert count.tokens * DOLLARS <= spent + on_its_way
    assert shop.tokens(record) >= count.tokens - crowd.left * 10


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="workers share a socket")
def test_S12_a_budget_holds_with_four_workers_of_one_server_one_of_which_is_killed(
    shop: Shop,
) -> None:
    size, label = 10, "four"
    limit = 3 * size * CALL
    key, record = shop.key(label, budget=limit)
    server = shop.start(6, "--workers", "4")
    count = shop.provider.counts[label]

    def call(text: str) -> int | None:
        body = {"app": "graph", "input": input_of("graph", f"label-{label} {text}"), "wait": True}
        try:
            return shop.client.post(f"{server.url}/runs", json=body, headers=key).status_code
        except httpx.HTTPError:
            return None

    # Texts of such a length that no input is estimated too low: the provider charges `INPUT` for each.
    quick = f"words-{WORDS} pace-1 and nothing else, please"
    stalled = f"{quick} stall-{WORDS // 2}"
    with ThreadPoolExecutor(size) as pool:
        first = [pool.submit(call, stalled) for _ in range(size)]
        wait_until(lambda: count.output >= size * (WORDS // 2), "the answers to begin", 60)
        with ThreadPoolExecutor(size) as other_pool:
            before = Counter(other_pool.map(call, [quick] * size))
        holders = Counter(shop.holders(record))
        (victim, held), *_ = holders.most_common(1)
        os.kill(int(victim.split("/")[1]), signal.SIGKILL)
        wait_until(lambda: victim not in shop.holders(record), "the notice of its death", 60)
        count.go_on.set()
        statuses = Counter(future.result() for future in first)
        after = Counter(pool.map(call, [quick] * 3 * size))

    wait_until(lambda: shop.holds(record) == 0, "settling")
    shop.provider.wait_until_quiet(label)
    assert sum(holders.values()) == size
    assert before == {200: size}
    assert statuses == Counter({None: held, 200: size - held})
    assert set(after) <= {200, 402}
    assert after[402]
    assert count.tokens * DOLLARS <= shop.spent(record) <= limit * 1.000001
