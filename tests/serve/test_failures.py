"""Errors of an app, as the client gets them."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import httpx
import pytest

from foldline.checkpoint import InMemorySaver
from foldline.checkpoint.base import ThreadConflictError
from foldline.exceptions import ModelAuthenticationError, ModelInvalidRequestError
from foldline.serve import PublicError, create_app
from foldline.serve._keys import Caller
from foldline.serve._live_runs import LiveRun
from foldline.serve._log.run_log import ServerLog
from foldline.serve._metrics import Metrics
from foldline.serve._run_host import RunHost
from foldline.serve.apps import RunRequest, as_apps
from foldline.serve.errors import failure_of
from foldline.serve.settings import ServeSettings
from foldline.testing import ScriptedChatModel
from tests.serve.in_process import post_in_process
from tests.serve.served import make_agent


def test_two_runs_of_one_thread_at_once_are_a_conflict_and_not_a_fault_of_the_server():
    failure = failure_of(ThreadConflictError("the thread was continued at /srv/secret.db"))

    assert (failure.kind, failure.status) == ("conflict", 409)
    assert "run one at a time per thread" in failure.message
    assert "secret" not in failure.message


def test_the_error_of_a_provider_is_in_the_servers_log_and_not_in_the_answer(
    caplog: pytest.LogCaptureFixture,
):
    error = ModelAuthenticationError("account 4711 is closed for sk-abcdefghijklmnop")
    model = ScriptedChatModel(script=[error], retry_on_error=False)
    body = {"messages": [{"role": "user", "content": "hi"}]}

    with caplog.at_level(logging.WARNING, "foldline.serve"):
        answer = post_in_process(create_app({"chat": model}), "/v1/chat/completions", body)

    assert answer.status_code == 502
    assert "4711" not in answer.text
    assert "account 4711 is closed" in caplog.text
    assert "sk-abcdef" not in caplog.text


def test_an_error_of_the_request_is_no_warning_in_the_servers_log(
    caplog: pytest.LogCaptureFixture,
):
    model = ScriptedChatModel(script=[PublicError("too hot")], retry_on_error=False)
    body = {"messages": [{"role": "user", "content": "hi"}]}

    with caplog.at_level(logging.WARNING, "foldline.serve"):
        answer = post_in_process(create_app({"chat": model}), "/v1/chat/completions", body)

    assert answer.status_code == 400
    assert "too hot" in answer.text
    assert caplog.text == ""


def test_S47_what_a_provider_says_about_a_request_is_in_the_servers_log_alone(
    caplog: pytest.LogCaptureFixture,
):
    model = ScriptedChatModel(script=[ModelInvalidRequestError("too hot")], retry_on_error=False)
    body = {"messages": [{"role": "user", "content": "hi"}]}

    with caplog.at_level(logging.WARNING, "foldline.serve"):
        answer = post_in_process(create_app({"chat": model}), "/v1/chat/completions", body)

    assert (answer.status_code, "too hot" in answer.text) == (400, False)
    assert "too hot" in caplog.text


def test_a_strategy_for_a_busy_thread_that_is_not_known_is_refused():
    body = {"assistant_id": "agent", "input": {"messages": "hi"}, "if_not_exists": "create"}

    answer = post_in_process(
        create_app({"agent": make_agent(InMemorySaver())}),
        "/threads/t1/runs/wait",
        {**body, "multitask_strategy": "rollbak"},
    )

    assert answer.status_code == 400
    assert "reject, enqueue, interrupt or rollback" in answer.text


def test_S41_old_runs_are_deleted_while_the_server_runs():
    model = ScriptedChatModel(script=["hello"])
    app = create_app({"chat": model}, keep_days=1e-6, prune_every=0.01)

    async def main() -> list[int]:
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            run = (await client.post("/runs", json={"input": "hi", "wait": True})).json()
            path, statuses = f"/runs/{run['run_id']}", []
            for _ in range(40):
                statuses.append((await client.get(path)).status_code)
                if statuses[-1] == 404:
                    break
                await asyncio.sleep(0.1)
            return statuses

    statuses = asyncio.run(main())

    assert statuses[-1] == 404


def test_a_run_that_has_not_begun_when_the_server_closes_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    apps = as_apps({"chat": ScriptedChatModel(script=["never"])})

    async def main() -> LiveRun:
        host = RunHost(ServerLog(path), ServeSettings(drain_seconds=0.0), Metrics(), [])
        await host.open()
        request = RunRequest("hi")
        starting = asyncio.ensure_future(host.start(Caller(""), apps["chat"], request, wire="runs"))
        while not host.live:
            await asyncio.sleep(0)
        await host.close()
        return await asyncio.wait_for(starting, 10)

    run = asyncio.run(main())

    log = ServerLog(path)
    info = log.run(run.info.id)
    log.close()
    assert info is not None
    assert info.status == "interrupted"
