"""Answers to the questions of runs: each is used once, on every wire and by every worker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline._storage.forget import delete_served_runs
from foldline.agents import create_agent
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.checkpoint.sqlite import SqliteSaver
from foldline.exceptions import ThreadBusyError, ThreadConflictError
from foldline.serve import create_app
from foldline.serve._log.answers import Claim
from foldline.serve._log.records import RunRecord
from foldline.serve._log.run_log import ServerLog
from foldline.serve.errors import failure_of
from foldline.testing import Call, ScriptedChatModel
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

APPROVE = {"decisions": [{"type": "approve"}]}
REJECT = {"decisions": [{"type": "reject"}]}


class Shop:
    """Two workers on one log, with an agent that asks before it pays."""

    def __init__(self, folder: Path, log: str, seconds: float = 0.2) -> None:
        self.payments: list[int] = []
        self.seconds = seconds
        self.threads = str(folder / "threads.db")
        self.log = log

    def make_worker(self) -> Any:
        async def pay(amount: int) -> str:
            """Pay."""
            self.payments.append(amount)
            await asyncio.sleep(self.seconds)
            return f"paid {amount}"

        def script(request: Any) -> Any:
            done = [message for message in request.messages if message.type == "tool"]
            asks = request.messages[0].text.count("pay")
            return (
                [Call("pay", {"amount": 5 + len(done)}, id=f"c{len(done)}")]
                if len(done) < asks
                else "done"
            )

        agent = create_agent(
            ScriptedChatModel(script=script),
            [pay],
            middleware=[HumanInTheLoopMiddleware({"pay": True})],
            checkpointer=SqliteSaver(self.threads),
            name="agent",
        )
        return create_app({"agent": agent}, log=self.log, studio=False, traces=None)

    @asynccontextmanager
    async def workers(self, count: int = 2) -> AsyncGenerator[list[httpx.AsyncClient], None]:
        async with AsyncExitStack() as stack:
            clients = []
            for _ in range(count):
                app = self.make_worker()
                await stack.enter_async_context(app.router.lifespan_context(app))
                transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
                client = httpx.AsyncClient(
                    transport=transport, base_url="http://localhost", timeout=30
                )
                clients.append(await stack.enter_async_context(client))
            yield clients


@pytest.fixture(params=["file", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    is_file = request.param == "file"
    log = str(tmp_path / "runs.db") if is_file else request.getfixturevalue("postgres_url")
    return Shop(tmp_path, log)


async def ask(client: httpx.AsyncClient, text: str = "pay", thread: str = "t1") -> Any:
    """Start a run that ends with a question; return it."""
    await client.post("/threads", json={"thread_id": thread, "if_exists": "do_nothing"})
    body = {"app": "agent", "input": text, "thread_id": thread, "wait": True}
    response = await client.post("/runs", json=body)
    assert response.status_code == 200, response.text
    run = response.json()
    assert run["status"] == "waiting", run
    return run


# -- one function per wire that answers the question of a run, with a decision


async def answer_runs(client: httpx.AsyncClient, run: Any, answer: Any) -> httpx.Response:
    return await client.post(
        f"/runs/{run['run_id']}/resume", json={"answers": answer, "wait": True}
    )


async def answer_langgraph(client: httpx.AsyncClient, run: Any, answer: Any) -> httpx.Response:
    body = {"assistant_id": "agent", "command": {"resume": answer}}
    return await client.post(f"/threads/{run['thread_id']}/runs/wait", json=body)


async def answer_langgraph_stream(
    client: httpx.AsyncClient, run: Any, answer: Any
) -> httpx.Response:
    body = {"assistant_id": "agent", "command": {"resume": answer}, "stream_mode": "values"}
    return await client.post(f"/threads/{run['thread_id']}/runs/stream", json=body)


async def answer_thread(client: httpx.AsyncClient, run: Any, answer: Any) -> httpx.Response:
    params = {"interrupt_id": run["interrupts"][0]["interrupt_id"], "response": answer}
    body = {"id": 1, "method": "input.respond", "params": params}
    return await client.post(f"/threads/{run['thread_id']}/commands", json=body)


async def answer_thread_start(client: httpx.AsyncClient, run: Any, answer: Any) -> httpx.Response:
    params = {"assistant_id": "agent", "command": {"resume": answer}}
    body = {"id": 1, "method": "run.start", "params": params}
    return await client.post(f"/threads/{run['thread_id']}/commands", json=body)


async def answer_vercel(client: httpx.AsyncClient, run: Any, answer: Any) -> httpx.Response:
    body = {
        "id": run["thread_id"],
        "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "pay"}]}],
        "resume": {run["interrupts"][0]["interrupt_id"]: answer},
    }
    return await client.post("/api/chat/agent", json=body)


async def answer_agui(client: httpx.AsyncClient, run: Any, answer: Any) -> httpx.Response:
    entry = {
        "interruptId": run["interrupts"][0]["interrupt_id"],
        "status": "resolved",
        "payload": answer,
    }
    body = {"threadId": run["thread_id"], "runId": "r1", "messages": [], "resume": [entry]}
    return await client.post("/agui/agent", json=body)


Answer = Callable[[httpx.AsyncClient, Any, Any], Awaitable[httpx.Response]]
WIRES: dict[str, Answer] = {
    "runs": answer_runs,
    "langgraph": answer_langgraph,
    "langgraph stream": answer_langgraph_stream,
    "thread": answer_thread,
    "thread start": answer_thread_start,
    "vercel": answer_vercel,
    "agui": answer_agui,
}


async def ended_runs(client: httpx.AsyncClient, thread: str = "t1") -> list[Any]:
    """Return the runs of a thread, the oldest first, when all have ended."""
    while True:
        response = await client.get("/runs", params={"thread_id": thread})
        runs = response.json()["runs"][::-1]
        if all(run["status"] != "running" for run in runs):
            return runs
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("wire", WIRES)
def test_S6_equal_answers_at_once_start_one_run(shop: Shop, wire: str) -> None:
    async def main() -> tuple[list[httpx.Response], list[Any]]:
        async with shop.workers() as workers:
            run = await ask(workers[0])
            clicks = (WIRES[wire](workers[place % 2], run, APPROVE) for place in range(4))
            return await asyncio.gather(*clicks), await ended_runs(workers[1])

    responses, runs = asyncio.run(main())

    assert shop.payments == [5]
    assert [response.status_code for response in responses] == [200] * 4
    assert [run["status"] for run in runs] == ["waiting", "success"]
    assert runs[1]["resumes"] == runs[1]["root"] == runs[0]["run_id"] == runs[0]["root"]
    if wire == "runs":
        assert {response.json()["run_id"] for response in responses} == {runs[1]["run_id"]}
        outputs = [response.json()["output"]["messages"][-1]["content"] for response in responses]
        assert outputs == ["done"] * 4
    if wire == "langgraph":
        assert {response.json()["messages"][-1]["content"] for response in responses} == {"done"}
    if wire in ("vercel", "agui", "langgraph stream"):
        assert all("paid 5" in response.text for response in responses)


@pytest.mark.parametrize("wire", WIRES)
def test_S6_an_answer_that_is_sent_again_later_starts_nothing(shop: Shop, wire: str) -> None:
    async def main() -> tuple[list[httpx.Response], list[Any]]:
        async with shop.workers() as workers:
            run = await ask(workers[0])
            first = await WIRES[wire](workers[0], run, APPROVE)
            await ended_runs(workers[0])
            second = await WIRES[wire](workers[1], run, APPROVE)
            return [first, second], await ended_runs(workers[1])

    responses, runs = asyncio.run(main())

    assert shop.payments == [5]
    assert [response.status_code for response in responses] == [200, 200]
    assert len(runs) == 2


@pytest.mark.parametrize("wire", WIRES)
def test_S6_another_answer_is_refused(shop: Shop, wire: str) -> None:
    async def main() -> tuple[httpx.Response, httpx.Response]:
        async with shop.workers() as workers:
            run = await ask(workers[0])
            first = await WIRES[wire](workers[0], run, APPROVE)
            return first, await WIRES[wire](workers[1], run, REJECT)

    first, second = asyncio.run(main())

    assert (first.status_code, second.status_code) == (200, 409), second.text
    assert "answered before" in second.text
    assert shop.payments == [5]


@pytest.mark.parametrize("wire", ["runs", "thread", "vercel", "agui"])
def test_S6_an_old_answer_is_not_taken_for_the_next_question(shop: Shop, wire: str) -> None:
    async def main() -> tuple[httpx.Response, list[Any]]:
        async with shop.workers() as workers:
            run = await ask(workers[0], "pay and pay")
            await WIRES[wire](workers[0], run, APPROVE)
            await ended_runs(workers[0])
            again = await WIRES[wire](workers[1], run, APPROVE)
            return again, await ended_runs(workers[1])

    again, runs = asyncio.run(main())

    assert again.status_code == 200, again.text
    assert shop.payments == [5]
    assert [run["status"] for run in runs] == ["waiting", "waiting"]


def test_S6_an_answer_that_does_not_fit_leaves_the_question_open(shop: Shop) -> None:
    async def main() -> tuple[httpx.Response, httpx.Response]:
        async with shop.workers() as workers:
            run = await ask(workers[0])
            bad = {"decisions": [{"type": "approve"}] * 2}
            refused = await answer_runs(workers[0], run, bad)
            return refused, await answer_runs(workers[1], run, APPROVE)

    refused, good = asyncio.run(main())

    assert (refused.status_code, good.status_code) == (422, 200)
    assert refused.json()["error"]["code"] == "invalid_answer"
    assert shop.payments == [5]
    assert good.json()["status"] == "success"


def test_S9_a_run_that_was_continued_names_the_last_of_its_chain(shop: Shop) -> None:
    async def main() -> tuple[httpx.Response, list[Any]]:
        async with shop.workers() as workers:
            run = await ask(workers[0], "pay and pay")
            await answer_runs(workers[0], run, APPROVE)
            runs = await ended_runs(workers[0])
            await answer_runs(workers[0], runs[1], APPROVE)
            other = {"0" * 32: APPROVE}
            await answer_runs(workers[1], run, other)
            return await answer_runs(workers[1], run, REJECT), await ended_runs(workers[0])

    response, runs = asyncio.run(main())

    assert len(runs) == 3
    assert response.status_code == 409
    assert runs[2]["run_id"] in response.json()["error"]["message"]
    assert [run["root"] for run in runs] == [runs[0]["run_id"]] * 3
    assert [run["resumes"] for run in runs] == [None, runs[0]["run_id"], runs[1]["run_id"]]


def test_S1_a_run_is_visible_to_every_worker_when_its_id_is_known(shop: Shop) -> None:
    async def main() -> list[int]:
        async with shop.workers() as workers:
            body = {"app": "agent", "input": "hello"}
            statuses = []
            for _ in range(20):
                run = (await workers[0].post("/runs", json=body)).json()
                response = await workers[1].get(f"/runs/{run['run_id']}")
                statuses.append(response.status_code)
            return statuses

    assert asyncio.run(main()) == [200] * 20


@pytest.mark.parametrize(
    ("wire", "answer", "status", "code"),
    [
        ("runs", {"0" * 32: True}, 422, "unknown_question"),
        ("runs", {}, 422, "unknown_question"),
        ("runs", {"decisions": []}, 422, "invalid_answer"),
        ("langgraph", {"0" * 32: True}, 422, "unknown_question"),
        ("langgraph stream", {}, 422, "unknown_question"),
        ("thread start", {"0" * 32: True}, 422, "unknown_question"),
    ],
)
def test_S47a_an_answer_for_no_open_question_is_of_its_kind(
    tmp_path: Path, wire: str, answer: Any, status: int, code: str
) -> None:
    shop = Shop(tmp_path, str(tmp_path / "runs.db"))

    async def main() -> tuple[httpx.Response, httpx.Response]:
        async with shop.workers(1) as workers:
            run = await ask(workers[0])
            bad = await WIRES[wire](workers[0], run, answer)
            return bad, await WIRES[wire](workers[0], run, APPROVE)

    bad, good = asyncio.run(main())

    assert (bad.status_code, good.status_code) == (status, 200), bad.text
    assert code in bad.text
    assert shop.payments == [5]


def test_S47a_an_answer_without_a_question_is_a_conflict_on_langgraphs_wire(tmp_path: Path) -> None:
    shop = Shop(tmp_path, str(tmp_path / "runs.db"))

    async def main() -> httpx.Response:
        async with shop.workers(1) as workers:
            await workers[0].post("/threads", json={"thread_id": "t1"})
            body = {"app": "agent", "input": "hello", "thread_id": "t1", "wait": True}
            assert (await workers[0].post("/runs", json=body)).status_code == 200
            run = {"thread_id": "t1", "run_id": "x", "interrupts": []}
            return await answer_langgraph_stream(workers[0], run, APPROVE)

    assert "there is nothing to answer" in asyncio.run(main()).text


def test_S47a_a_busy_thread_says_when_to_try_again() -> None:
    busy, changed = failure_of(ThreadBusyError("x")), failure_of(ThreadConflictError("x"))

    assert (busy.status, busy.code, busy.headers) == (409, "thread_busy", {"retry-after": "1"})
    assert (changed.status, changed.code, changed.headers) == (409, "thread_conflict", {})


def dead_run(log: str, asked: Any, answer: Any) -> str:
    """Write what a worker leaves that was killed after it claimed an answer, before anything ran."""
    run_log = ServerLog(log)
    try:
        info = run_log.run(asked["run_id"])
        assert info is not None
        question = asked["interrupts"][0]["interrupt_id"]
        run = RunRecord(
            "dead-run", info.owner, info.app, "runs", info.thread, "running", time.time(), "gone/1/x", None,
            resumes=info.id, first=info.root,
        )  # fmt: skip
        assert run_log.begin(run, [Claim(question, json.dumps(answer))]) is None
        return run.id
    finally:
        run_log.close()


def test_S8_an_answer_whose_worker_was_killed_before_it_was_used_is_not_asked_again(shop: Shop):
    async def main() -> tuple[httpx.Response, httpx.Response, list[Any]]:
        async with shop.workers() as workers:
            asked = await ask(workers[0])
            dead = await asyncio.to_thread(dead_run, shop.log, asked, APPROVE)
            shown = await workers[1].get(f"/runs/{dead}")
            clicks = [
                workers[place].post(f"/runs/{dead}/resume", json={"wait": True}) for place in (0, 1)
            ]
            first, second = await asyncio.gather(*clicks)
            assert first.json()["run_id"] == second.json()["run_id"]
            return shown, first, await ended_runs(workers[1])

    shown, resumed, runs = asyncio.run(main())

    assert shown.json()["status"] == "interrupted"
    assert (resumed.status_code, resumed.json()["status"]) == (200, "success")
    assert shop.payments == [5]
    assert [run["root"] for run in runs] == [runs[0]["run_id"]] * 3


def test_S8_an_answer_that_was_stored_before_its_worker_was_killed_is_used_once(tmp_path: Path):
    shop = Shop(tmp_path, str(tmp_path / "runs.db"), seconds=30)

    async def main() -> tuple[httpx.Response, httpx.Response]:
        async with shop.workers(1) as workers:
            asked = await ask(workers[0])
            body = {"answers": APPROVE}
            running = (await workers[0].post(f"/runs/{asked['run_id']}/resume", json=body)).json()
            while not shop.payments:
                await asyncio.sleep(0.01)
            await workers[0].post(f"/runs/{running['run_id']}/stop")
            await ended_runs(workers[0])
            shop.seconds = 0
            again = await answer_runs(workers[0], asked, APPROVE)
            resumed = await workers[0].post(
                f"/runs/{running['run_id']}/resume", json={"wait": True}
            )
            return again, resumed

    again, resumed = asyncio.run(main())

    assert again.json()["status"] == "stopped"
    assert resumed.json()["status"] == "success", resumed.text
    assert shop.payments == [5, 5]  # the tool may run again, as the agent says nothing else


def test_answers_are_deleted_with_their_run(shop: Shop) -> None:
    async def main() -> None:
        async with shop.workers(1) as workers:
            asked = await ask(workers[0])
            await answer_runs(workers[0], asked, APPROVE)
            for run in await ended_runs(workers[0]):
                assert (await workers[0].delete(f"/runs/{run['run_id']}")).status_code == 204

    asyncio.run(main())

    log = ServerLog(shop.log)
    for table in ("serve_answers", "serve_chains", "serve_events", "serve_runs"):
        assert log.database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    log.close()


def test_forget_deletes_the_answers_of_a_thread(shop: Shop) -> None:
    async def main() -> None:
        async with shop.workers(1) as workers:
            asked = await ask(workers[0])
            await answer_runs(workers[0], asked, APPROVE)

    asyncio.run(main())
    assert delete_served_runs(shop.log, [], ["t1"]) == 2

    log = ServerLog(shop.log)
    for table in ("serve_answers", "serve_chains", "serve_events", "serve_runs"):
        assert log.database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    log.close()
