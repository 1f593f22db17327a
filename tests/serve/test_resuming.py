"""Interrupted runs are continued by the server itself, each once; apps that block the event loop are named."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline._io.serving import TimedSteps
from foldline.agents.checkpoint import InMemorySaver
from foldline.runnables import RunnableLambda
from foldline.serve import create_app
from foldline.serve._keys import Caller
from foldline.serve._log.answers import CONTINUED, Claim
from foldline.serve._log.events import encode_event
from foldline.serve._log.records import EventsToKeep, RunRecord
from foldline.serve._log.run_log import ServerLog
from foldline.serve.app import ServeApp
from foldline.serve.apps import RunRequest
from foldline.testing import ScriptedChatModel
from tests.serve.process import ServeProcess
from tests.serve.served import make_agent

DEAD = "gone/1/2/3"


def dead_run(log: ServerLog, app: str, *, resumes: RunRecord | None = None) -> RunRecord:
    """Write a run of a thread whose worker has left."""
    id = f"run-{time.monotonic_ns()}"
    run = RunRecord(id, "", app, "native", "t", "running", time.time(), DEAD, None)
    if resumes is None:
        log.keep([EventsToKeep(run, 1, [encode_event({"method": "run"})], is_new=True)])
    else:
        run.resumes, run.first = resumes.id, resumes.root
        assert log.begin(run, [Claim(CONTINUED, "null")]) is None
    log.mark_interrupted()
    return run


async def wait_for(check: Any) -> Any:
    deadline = time.monotonic() + 60
    while not (result := check()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return result


def agent_app(log: str, saver: Any, **settings: Any) -> ServeApp:
    apps = {"agent": make_agent(saver), "chat": ScriptedChatModel(script=["hi"], is_cyclic=True)}
    return create_app(apps, studio=False, log=log, **settings)


def start_thread(saver: Any) -> None:
    """Leave a thread that has something to go on with."""
    agent = make_agent(saver)
    config = {"configurable": {"thread_id": "t"}}
    agent.update_state(config, {"messages": [{"role": "user", "content": "hello"}]})


def test_S27_an_interrupted_run_is_continued_once_by_one_of_two_workers(tmp_path: Path):
    path, saver = str(tmp_path / "runs.db"), InMemorySaver()
    start_thread(saver)
    run = dead_run(ServerLog(path), "agent")
    apps = [agent_app(path, saver, auto_resume=True) for _ in range(2)]
    log = ServerLog(path)

    async def main() -> list[RunRecord]:
        async with (
            apps[0].router.lifespan_context(apps[0]),
            apps[1].router.lifespan_context(apps[1]),
        ):
            await wait_for(lambda: any(each.status == "success" for each in log.runs("")))
            return log.runs("")

    runs = asyncio.run(main())

    assert [(each.status, each.resumes) for each in runs] == [
        ("success", run.id),
        ("interrupted", None),
    ]


@pytest.mark.parametrize("auto_resume", [True, False])
def test_S27_runs_without_a_checkpointer_or_without_the_setting_stay(
    tmp_path: Path, auto_resume: bool
):
    path, saver = str(tmp_path / "runs.db"), InMemorySaver()
    start_thread(saver)
    dead_run(ServerLog(path), "chat" if auto_resume else "agent")
    app = agent_app(path, saver, auto_resume=auto_resume)
    looks: list[int] = []
    find = app.server.host.log.interrupted_runs

    def note(*values: Any) -> Any:
        looks.append(1)
        return find(*values)

    app.server.host.log.interrupted_runs = note  # type: ignore[method-assign]

    async def main() -> list[str]:
        async with app.router.lifespan_context(app):
            if auto_resume:
                await wait_for(lambda: looks)
            return [run.status for run in app.server.host.log.runs("")]

    assert asyncio.run(main()) == ["interrupted"]
    assert bool(looks) == auto_resume


def test_S27_a_run_is_continued_at_most_three_times(tmp_path: Path):
    log = ServerLog(str(tmp_path / "runs.db"))
    run = dead_run(log, "agent")
    found = [len(log.interrupted_runs(0.0, 3))]
    for _ in range(3):
        run = dead_run(log, "agent", resumes=run)
        found.append(len(log.interrupted_runs(0.0, 3)))

    assert found == [1, 1, 1, 0]
    assert [each.id for each in log.interrupted_runs(0.0, 4)] == [run.id]


@pytest.mark.slow
def test_S27_an_agent_that_was_killed_in_a_tool_goes_on_by_itself(tmp_path: Path):
    (tmp_path / "serve.toml").write_text("[serve]\nauto_resume = true\nstudio = false\n")
    options = ("--config", str(tmp_path / "serve.toml"), "--no-trace")
    apps = ["agent=tests.serve.served:agent"]
    process = ServeProcess(tmp_path, apps=apps, options=options).start()
    try:
        body = {"app": "agent", "input": "slow tool auto", "thread_id": "t"}
        run = httpx.post(f"{process.url}/runs", json=body, timeout=60).json()["run_id"]
        process.wait_for_mark("tool-auto", 60)
        process.stop(signal.SIGKILL)
        process.start()
        process.wait_for_mark("tool-done-auto", 60)
        deadline = time.monotonic() + 60
        runs: list[Any] = []
        while not any(each["status"] == "success" for each in runs):
            assert time.monotonic() < deadline, runs
            runs = httpx.get(f"{process.url}/runs", timeout=60).json()["runs"]
    finally:
        process.stop(signal.SIGKILL)

    assert [(each["status"], each["resumes"]) for each in runs] == [
        ("success", run),
        ("interrupted", None),
    ]


# -- apps that block


async def block(value: Any) -> Any:
    time.sleep(0.3)  # the mistake
    return value


def sleep(value: Any) -> Any:
    time.sleep(0.3)
    return value


@pytest.mark.parametrize(("function", "warns"), [(block, True), (sleep, False)])
def test_S23_an_app_that_blocks_the_event_loop_is_named_in_the_log(
    function: Any, warns: bool, caplog: pytest.LogCaptureFixture
):
    app = create_app({"culprit": RunnableLambda(function)}, studio=False)
    caplog.set_level(logging.WARNING, "foldline.serve")

    async def main() -> None:
        async with app.router.lifespan_context(app):
            server = app.server
            request = RunRequest("x")
            run = await server.host.start(
                Caller(""), server.apps["culprit"], request, wire="native"
            )
            await run.wait_for_end()

    asyncio.run(main())

    assert ("culprit held up all other runs" in caplog.text) == warns


def test_S23_a_timed_body_gets_cancellations_and_gives_its_result_and_its_error():
    slow: list[float] = []

    async def body(way: str) -> str:
        try:
            await asyncio.sleep(0 if way != "cancel" else 60)
        except asyncio.CancelledError:
            slow.append(-1.0)
            raise
        if way == "fail":
            raise ValueError(way)
        return way

    async def timed(way: str) -> str:
        return await TimedSteps(body(way), 30.0, slow.append)

    async def main() -> tuple[str, bool]:
        result = await timed("pass")
        with pytest.raises(ValueError, match="fail"):
            await timed("fail")
        task = asyncio.ensure_future(timed("cancel"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return result, task.cancelled()

    assert asyncio.run(main()) == ("pass", True)
    assert slow == [-1.0]
