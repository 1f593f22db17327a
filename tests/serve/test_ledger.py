"""The ledger of keys in the run log: holds, limits and what is settled, on both databases and in one server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline import tracing
from foldline._storage import forget
from foldline.agents import create_agent
from foldline.embeddings import Embeddings
from foldline.exceptions import ModelConnectionError, ModelRateLimitError, UsageError
from foldline.output_parsers import StrOutputParser
from foldline.prices import register_prices
from foldline.serve import ServeApp, _ledger as ledger_module, create_app
from foldline.serve._keys import ApiKey
from foldline.serve._ledger import KeyLedger
from foldline.serve._log.events import method_of
from foldline.serve._log.holds import DAY, Hold
from foldline.serve._log.records import EventsToKeep, RunRecord
from foldline.serve._log.run_log import ServerLog
from foldline.serve._metrics import render
from foldline.serve._request_quotas import Quotas
from foldline.serve.errors import KeyLimitError
from foldline.testing import Call, Finish, ScriptedChatModel, Stall
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

PRICES: Any = {"prices": {"input": 1000.0, "output": 1000.0}}


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "runs.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def log(place: str) -> Iterator[ServerLog]:
    log = ServerLog(place)
    yield log
    log.close()


def account(log: ServerLog, *, run: str = "run", patience: float = 0.0, **limits: Any) -> KeyLedger:
    key = ApiKey("owner", "me", **limits)
    return KeyLedger(log, key, app="app", run=run, queue_seconds=patience)


def held(log: ServerLog) -> list[tuple[str, float]]:
    rows = log.database.rows("SELECT kind, amount FROM serve_holds ORDER BY kind, amount")
    return [(str(kind), float(amount)) for kind, amount in rows]


def settled(log: ServerLog) -> dict[str, float]:
    rows = log.database.rows("SELECT kind, SUM(amount) FROM serve_spending GROUP BY kind")
    return {str(kind): float(amount) for kind, amount in rows}


# -- holds


def test_S11_a_call_is_held_and_then_replaced_by_what_it_took(log: ServerLog) -> None:
    ledger = account(log, budget=1.0, tpm=100)
    hold = ledger.reserve(50, 0.5)
    assert held(log) == [("cost", 0.5), ("tokens", 50.0)]

    ledger.settle(hold, 20, 0.2)
    assert (held(log), settled(log)) == ([], {"cost": 0.2, "tokens": 20.0})


def test_S11_what_is_unknown_counts_as_estimated(log: ServerLog) -> None:
    ledger = account(log, budget=1.0, tpm=100)
    ledger.settle(ledger.reserve(50, 0.5), None, None)
    assert (held(log), settled(log)) == ([], {"cost": 0.5, "tokens": 50.0})


def test_S11_a_hold_that_is_settled_twice_counts_once(log: ServerLog) -> None:
    ledger = account(log, budget=1.0)
    hold = ledger.reserve(50, 0.5)
    for _ in range(2):
        ledger.settle(hold, 20, 0.2)
    assert settled(log) == {"cost": 0.2}


def test_S11_a_transaction_whose_reply_was_lost_is_repeated_without_effect(log: ServerLog) -> None:
    ledger = account(log, budget=0.9)
    hold = Hold("h", None, 0.5)
    for _ in range(2):  # the hold fits beside itself: it is the same
        assert log.database.write(lambda connection: ledger._try_hold(hold, connection)) is None
    assert held(log) == [("cost", 0.5)]

    poor = account(log, budget=0.4)
    assert log.database.write(lambda connection: poor._try_hold(hold, connection)) is not None
    assert (held(log), settled(log)) == ([], {})


def test_S11_parallel_calls_of_several_logs_never_hold_more_than_the_limit(place: str) -> None:
    logs = [ServerLog(place) for _ in range(3)]
    barrier = threading.Barrier(12)

    def spend(number: int) -> float:
        ledger, spent = account(logs[number % 3], budget=1.0, tpm=1_000), 0.0
        barrier.wait()
        for _ in range(8):
            try:
                hold = ledger.reserve(30, 0.03)
            except KeyLimitError:
                continue
            ledger.settle(hold, 20, 0.02)
            spent += 0.02
        return spent

    with ThreadPoolExecutor(12) as pool:
        spent = sum(pool.map(spend, range(12)))

    assert settled(logs[0])["cost"] == pytest.approx(spent)
    assert 0.9 <= spent <= 1.0  # a last hold of 0.03 has no room from 0.98 on
    assert held(logs[0]) == []
    for log in logs:
        log.close()


def test_S11_each_key_has_its_own_account(log: ServerLog) -> None:
    account(log, budget=1.0).reserve(1, 1.0)
    other = KeyLedger(
        log, ApiKey("other", "you", budget=1.0), app="app", run="r", queue_seconds=0.0
    )
    other.reserve(1, 1.0)
    with pytest.raises(KeyLimitError, match="no room"):
        other.reserve(1, 0.1)


class Dead(ServerLog):
    """The log of a worker whose process is gone."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.worker = self.worker.replace(f"/{self.worker.split('/')[1]}/", "/999999999/", 1)


def leave_a_call(place: str) -> None:
    dead = Dead(place)
    run = RunRecord("run", "owner", "app", "runs", None, "running", time.time(), dead.worker, None)
    dead.keep([EventsToKeep(run, 1, [], is_new=True)])
    account(dead, budget=1.0, tpm=100).reserve(50, 0.5)
    dead.close()


@pytest.mark.parametrize("finds", ["marking", "reading"])
def test_S11_who_marks_the_runs_of_a_dead_worker_settles_its_holds(
    place: str, log: ServerLog, finds: str
) -> None:
    leave_a_call(place)
    account(log, budget=1.0).reserve(1, 0.1)  # a hold of a living one

    if finds == "marking":
        log.mark_interrupted()
    else:
        log.run("run")

    assert (held(log), settled(log)) == ([("cost", 0.1)], {"cost": 0.5, "tokens": 50.0})


def test_S11_holds_of_a_dead_worker_are_found_without_a_run(place: str, log: ServerLog) -> None:
    dead = Dead(place)
    account(dead, budget=1.0, run="").reserve(1, 0.5)  # of embeddings
    dead.close()
    log.mark_interrupted()
    assert (held(log), settled(log)) == ([], {"cost": 0.5})


def test_S11_a_worker_that_leaves_settles_what_it_still_holds(log: ServerLog) -> None:
    account(log, budget=1.0).reserve(1, 0.5)
    log.leave()
    assert (held(log), settled(log)) == ([], {"cost": 0.5})


def test_S11_a_call_counts_for_the_day_on_which_it_began(
    log: ServerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    midnight = (int(time.time()) // DAY + 1) * DAY
    ledger = account(log, budget=1.0)
    monkeypatch.setattr(ledger_module.time, "time", lambda: midnight - 5.0)
    hold = ledger.reserve(1, 0.8)
    monkeypatch.setattr(ledger_module.time, "time", lambda: midnight + 5.0)
    ledger.settle(ledger.reserve(1, 0.9), 1, 0.9)
    ledger.settle(hold, 1, 0.8)

    with pytest.raises(KeyLimitError, match=r"0\.9000 spent, 0\.0000 held"):
        ledger.reserve(1, 0.2)
    monkeypatch.setattr(ledger_module.time, "time", lambda: midnight + DAY)
    ledger.reserve(1, 1.0)


def test_S11_tokens_count_while_a_call_runs_and_for_a_minute_after_it(
    log: ServerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, clock = time.time(), [0.0]
    monkeypatch.setattr(ledger_module.time, "time", lambda: start + clock[0])
    ledger = account(log, tpm=100)
    hold = ledger.reserve(60, None)
    clock[0] = 300.0
    with pytest.raises(KeyLimitError):
        ledger.reserve(60, None)
    ledger.settle(hold, 60, None)
    clock[0] = 340.0
    with pytest.raises(KeyLimitError) as caught:
        ledger.reserve(60, None)
    assert 19 <= (caught.value.failure.retry_after or 0) <= 21
    clock[0] = 361.0
    ledger.reserve(60, None)


def test_S41_forget_reaches_holds(place: str, log: ServerLog) -> None:
    run = RunRecord("run", "owner", "app", "runs", None, "running", time.time(), log.worker, None)
    log.keep([EventsToKeep(run, 1, [], is_new=True)])
    account(log, budget=1.0).reserve(1, 0.1)
    account(log, budget=1.0, run="other").reserve(1, 0.2)

    assert forget.delete_served_runs(place, ["run"], []) == 1

    assert held(log) == [("cost", 0.2)]
    assert callable(tracing.forget)


# -- refusals


def test_S14_a_call_that_other_calls_leave_no_room_for_may_wait(log: ServerLog) -> None:
    ledger = account(log, budget=1.0, patience=7.0)
    ledger.reserve(1, 0.6)
    with pytest.raises(KeyLimitError) as caught:
        ledger.reserve(1, 0.6)
    failure = caught.value.failure
    assert (failure.status, failure.code, caught.value.patience) == (402, "budget_exceeded", 7.0)


def test_S14_a_call_for_which_the_day_has_no_money_left_does_not_wait(log: ServerLog) -> None:
    ledger = account(log, budget=1.0, patience=7.0)
    ledger.settle(ledger.reserve(1, 0.6), 1, 0.6)
    with pytest.raises(KeyLimitError) as caught:
        ledger.reserve(1, 0.6)
    assert (caught.value.failure.status, caught.value.patience) == (402, 0.0)


def test_S14_tokens_per_minute_are_refused_with_the_time_to_wait(log: ServerLog) -> None:
    ledger = account(log, tpm=100, patience=7.0)
    ledger.settle(ledger.reserve(80, None), 80, None)
    with pytest.raises(KeyLimitError) as caught:
        ledger.reserve(80, None)
    failure = caught.value.failure
    assert (failure.status, caught.value.patience) == (429, 7.0)
    assert 55 <= (failure.retry_after or 0) <= 60


def test_S14_tokens_that_never_fit_are_an_error_of_the_request(log: ServerLog) -> None:
    with pytest.raises(KeyLimitError, match="never fit this key's 100 tokens") as caught:
        account(log, tpm=100, patience=7.0).reserve(101, None)
    assert (caught.value.failure.status, caught.value.patience) == (400, 0.0)


# -- in a server


class Session:
    """Requests to an app in this process, with one key."""

    def __init__(self, app: ServeApp, **limits: Any) -> None:
        self.app = app
        text, self.key = app.server.keys.add("me", **limits)
        self.headers = {"authorization": f"Bearer {text}"}

    def post(self, *requests: tuple[str, Any]) -> list[httpx.Response]:
        """Send requests at once."""

        async def main() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app=self.app)
            async with (
                self.app.router.lifespan_context(self.app),
                httpx.AsyncClient(
                    transport=transport, base_url="http://x", headers=self.headers, timeout=60
                ) as client,
            ):
                return await asyncio.gather(
                    *(client.post(path, json=body) for path, body in requests)
                )

        return asyncio.run(main())

    def log(self) -> ServerLog:
        return ServerLog(self.app.server.settings.log)


def serve(tmp_path: Path, apps: dict[str, Any], **options: Any) -> ServeApp:
    return create_app(apps, log=str(tmp_path / "runs.db"), studio=False, **options)


def talker(tokens: int = 100, seconds: float = 0.0, **options: Any) -> ScriptedChatModel:
    usage = {"input_tokens": 1, "output_tokens": tokens, "total_tokens": tokens + 1}
    options = {"profile": PRICES, **options}
    return ScriptedChatModel(
        script=lambda _: [Stall(seconds), "hello", Finish("stop", usage=usage)], **options
    )


def asking(app: str, **more: Any) -> tuple[str, Any]:
    body = {"model": app, "messages": [{"role": "user", "content": "hi"}], **more}
    return "/v1/chat/completions", body


def test_S13_the_first_calls_of_a_key_run_at_the_same_time(tmp_path: Path) -> None:
    most, running = [0], [0]

    def script(_: Any) -> Any:
        running[0] += 1
        most[0] = max(most[0], running[0])
        yield Stall(0.3)
        running[0] -= 1
        yield "hello"

    model = ScriptedChatModel(script=script, profile=PRICES)
    session = Session(serve(tmp_path, {"model": model}), budget=20.0)
    answers = session.post(*[asking("model")] * 4)
    assert [answer.status_code for answer in answers] == [200] * 4
    assert most == [4]


def test_S13_twice_the_longest_answer_of_that_key_and_app_is_held(tmp_path: Path) -> None:
    app = serve(tmp_path, {"short": talker(10), "wordy": talker(900)})
    session = Session(app, budget=100.0)
    sizes: list[float] = []
    ledgers = app.server.host.ledgers
    make = ledgers.ledger

    def watch(*values: Any) -> Any:
        ledger = make(*values)
        reserve = ledger.reserve

        def note(tokens: int, cost: float | None) -> Hold:
            sizes.append(tokens)
            return reserve(tokens, cost)

        ledger.reserve = note
        return ledger

    ledgers.ledger = watch  # type: ignore[method-assign]

    async def main() -> None:
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=transport, base_url="http://x", headers=session.headers
            ) as client,
        ):
            for name in ("wordy", "wordy", "short", "short"):
                path, body = asking(name)
                assert (await client.post(path, json=body)).status_code == 200

    asyncio.run(main())
    first_wordy, wordy, first_short, short = sizes
    assert first_wordy == first_short > 4_096
    assert wordy - 1_800 == short - 20 == first_wordy - 4_096


@pytest.mark.parametrize("kind", ["model", "agent"])
def test_S14_calls_wait_for_each_other_for_queue_seconds(tmp_path: Path, kind: str) -> None:
    model = talker(100, 0.05, profile={**PRICES, "max_output_tokens": 120})
    apps = {"model": model, "agent": create_agent(model, [], name="agent")}
    session = Session(serve(tmp_path, apps, queue_seconds=30), budget=0.6)
    answers = session.post(*[asking(kind)] * 4)
    assert [answer.status_code for answer in answers] == [200] * 4  # one or two have room at a time


def test_S14_a_step_that_is_refused_ends_its_run_and_earlier_ones_stay(tmp_path: Path) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    usage = {"input_tokens": 1, "output_tokens": 90, "total_tokens": 91}
    model = ScriptedChatModel(
        script=[[Call("look", {}), Finish("tool_calls", usage=usage)], "never"],
        profile={**PRICES, "max_output_tokens": 90},
    )  # fmt: skip
    agent = create_agent(model, [look], name="agent")
    session = Session(serve(tmp_path, {"agent": agent}), budget=0.2)
    (answer,) = session.post(("/agent/invoke", {"input": {"messages": "hi"}}))
    assert answer.status_code == 402
    assert len(model.requests) == 1

    log = session.log()
    (run,) = log.runs(session.key.id)
    methods = [method_of(event) for _, event in log.events(run.id, 0)]
    assert run.status == "error"
    assert b"tools" in methods
    assert settled(log)["cost"] == pytest.approx(0.091)
    log.close()


def unpriced() -> ScriptedChatModel:
    return ScriptedChatModel(script=["never"])


UNPRICED: dict[str, Any] = {
    "model": lambda: unpriced(),
    "chain": lambda: unpriced() | StrOutputParser(),
    "agent": lambda: create_agent(unpriced(), [], name="app"),
}


@pytest.mark.parametrize("kind", UNPRICED)
@pytest.mark.parametrize("path", ["invoke", "stream"])
def test_S15_a_budget_needs_prices_of_every_kind_of_app(
    tmp_path: Path, kind: str, path: str
) -> None:
    session = Session(serve(tmp_path, {"my-app": UNPRICED[kind]()}), budget=1.0)
    value: Any = {"messages": "hi"} if kind == "agent" else "hi"
    (answer,) = session.post((f"/my-app/{path}", {"input": value}))
    assert "'my-app'" in answer.text
    assert "prices" in answer.text
    assert "profile" not in answer.text
    assert "never" not in answer.text
    if answer.status_code == 200:  # LangServe's stream has its errors inside
        assert '"status_code": 403' in answer.text or '"status_code":403' in answer.text
    else:
        assert answer.status_code == 403


def test_S15_without_a_budget_prices_are_not_needed(tmp_path: Path) -> None:
    session = Session(serve(tmp_path, {"model": unpriced()}), tpm=100_000)
    (answer,) = session.post(asking("model"))
    assert answer.status_code == 200


# -- embeddings


class Vectors(Embeddings):
    """Embeddings that fail as they are told to."""

    _provider, _model_name = "stub-vectors", "v1"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.error is not None:
            raise self.error
        return [[0.5] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class UnknownVectors(Vectors):
    """Embeddings without a price."""

    _provider = "nobody-knows"


register_prices("stub-vectors", {"v1": {"input": 1000.0, "output": 0.0}})
EMBED = ("/v1/embeddings", {"model": "v", "input": ["abcd" * 10, "abcd" * 10]})
"""Twenty tokens."""


def test_S10_embeddings_count_for_the_budget_and_for_tokens(tmp_path: Path) -> None:
    session = Session(serve(tmp_path, {"v": Vectors()}), budget=0.05, tpm=1_000)
    answers = session.post(*[EMBED] * 5)
    log = session.log()
    assert sorted(answer.status_code for answer in answers) == [200, 200, 402, 402, 402]
    assert settled(log) == {"cost": pytest.approx(0.04), "tokens": 40.0}
    assert held(log) == []
    log.close()


def test_S15_embeddings_without_prices_are_refused_under_a_budget(tmp_path: Path) -> None:
    session = Session(serve(tmp_path, {"v": UnknownVectors()}), budget=1.0)
    (answer,) = session.post(EMBED)
    assert (answer.status_code, "'v'" in answer.text) == (403, True)


@pytest.mark.parametrize(
    ("error", "tokens"),
    [
        (ModelConnectionError("not reached"), 0),
        (UsageError("nothing was sent"), 0),
        (ModelRateLimitError("busy", status=429), 20),
        (RuntimeError("a bug"), 20),
    ],
)
def test_S17_a_failed_embedding_counts_its_input_if_it_was_sent_and_has_ended(
    tmp_path: Path, error: Exception, tokens: int
) -> None:
    app = serve(tmp_path, {"v": Vectors(error)})
    session = Session(app, budget=1.0, tpm=1_000)
    (answer,) = session.post(EMBED)
    log = session.log()
    assert answer.status_code >= 400
    assert (held(log), settled(log).get("tokens", 0)) == ([], tokens)
    assert settled(log).get("cost", 0) == pytest.approx(tokens * 0.001)
    page = render(app.server.host.metrics.series(), has_keys=False)
    assert 'foldline_embeddings_total{app="v",status="error"} 1' in page
    log.close()


def test_S10_requests_per_minute_count_requests_not_model_calls(tmp_path: Path) -> None:
    session = Session(serve(tmp_path, {"model": talker()}), rpm=2)
    answers = session.post(*[asking("model")] * 3)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429]


# -- the log cannot be written


def test_S10_what_could_not_be_settled_at_the_end_of_a_run_is_settled_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures, settle = [2], KeyLedger.settle

    def fail(self: KeyLedger, *values: Any) -> None:
        if failures[0]:
            failures[0] -= 1
            raise OSError("the disk is full")
        settle(self, *values)

    monkeypatch.setattr(KeyLedger, "settle", fail)
    session = Session(serve(tmp_path, {"model": talker(10)}), budget=10.0)
    (answer,) = session.post(asking("model"))
    log = session.log()
    assert answer.status_code == 200
    assert "will be later" in caplog.text
    assert (held(log), Quotas(log.database).spent_today(session.key)) == ([], pytest.approx(0.011))
    log.close()
