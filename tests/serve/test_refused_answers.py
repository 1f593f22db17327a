"""Answers that an app refuses, on every wire: the question stays open, and the next answer is used."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from typing_extensions import TypedDict

from foldline.checkpoint.sqlite import SqliteSaver
from foldline.graph import START, StateGraph, entrypoint, interrupt
from foldline.serve import create_app
from foldline.serve._log.answers import CONTINUED, Claim
from foldline.serve._log.records import RunRecord
from foldline.serve._log.run_log import ServerLog
from foldline.workflows import workflow
from tests.serve.test_answers import APPROVE, WIRES, Shop, ask, dead_run, ended_runs


class State(TypedDict):
    answers: Annotated[list[Any], operator.add]


def first(state: State) -> dict[str, Any]:
    return {"answers": [interrupt("how many?", response_schema=int)]}


def second(state: State) -> dict[str, Any]:
    return {"answers": [interrupt("which?")]}


@asynccontextmanager
async def serve_graph(folder: Path, *nodes: Any) -> AsyncGenerator[httpx.AsyncClient, None]:
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    graph = builder.compile(checkpointer=SqliteSaver(str(folder / "threads.db")))
    app = create_app({"agent": graph}, log=str(folder / "runs.db"), studio=False, traces=None)
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30) as client,
    ):
        yield client


async def ask_graph(client: httpx.AsyncClient) -> Any:
    await client.post("/threads", json={"thread_id": "t1"})
    body = {"app": "agent", "input": {"answers": []}, "thread_id": "t1", "wait": True}
    run = (await client.post("/runs", json=body)).json()
    assert run["status"] == "waiting", run
    return run


async def state_of(client: httpx.AsyncClient) -> Any:
    await ended_runs(client)
    return (await client.get("/threads/t1/state")).json()["values"]["answers"]


@pytest.mark.parametrize("wire", WIRES)
def test_S6_a_question_is_open_on_every_wire_after_an_answer_that_does_not_fit(
    tmp_path: Path, wire: str
) -> None:
    shop = Shop(tmp_path, str(tmp_path / "runs.db"), seconds=0)

    async def main() -> tuple[list[Any], httpx.Response, list[Any]]:
        async with shop.workers(1) as (client,):
            run = await ask(client)
            await WIRES[wire](client, run, {"decisions": [{"type": "approve"}] * 2})
            refused = await ended_runs(client)
            good = await WIRES[wire](client, run, APPROVE)
            return refused, good, await ended_runs(client)

    refused, good, runs = asyncio.run(main())

    assert refused[1]["error"]["code"] == "invalid_answer"
    assert good.status_code == 200, good.text
    assert shop.payments == [5]
    assert runs[2]["resumes"] == runs[0]["run_id"]


@pytest.mark.parametrize("wire", WIRES)
def test_S6_an_answer_that_does_not_fit_the_schema_leaves_the_question_open(
    tmp_path: Path, wire: str
) -> None:
    async def main() -> tuple[httpx.Response, httpx.Response, list[Any], list[Any]]:
        async with serve_graph(tmp_path, first) as client:
            run = await ask_graph(client)
            bad = await WIRES[wire](client, run, "many")
            await ended_runs(client)
            good = await WIRES[wire](client, run, 7)
            return bad, good, await ended_runs(client), await state_of(client)

    bad, good, runs, answers = asyncio.run(main())

    if wire in ("runs", "vercel", "agui"):
        assert bad.status_code == 422
    assert wire.startswith("thread") or '"invalid_answer"' in bad.text
    assert runs[1]["error"]["kind"] == "unprocessable"
    assert runs[1]["error"]["code"] == "invalid_answer"
    assert good.status_code == 200, good.text
    assert runs[2]["resumes"] == runs[0]["run_id"]
    assert answers == [7]


@pytest.mark.parametrize("wire", ["runs", "langgraph", "agui"])
def test_S6_an_answer_that_fits_is_used_beside_one_that_does_not(tmp_path: Path, wire: str) -> None:
    async def send(client: httpx.AsyncClient, run: Any, answers: Any) -> httpx.Response:
        if wire != "agui":
            return await WIRES[wire](client, run, answers)
        entries = [
            {"interruptId": id, "status": "resolved", "payload": answer}
            for id, answer in answers.items()
        ]
        body = {"threadId": "t1", "runId": "r1", "messages": [], "resume": entries}
        return await client.post("/agui/agent", json=body)

    async def main() -> tuple[httpx.Response, list[Any], list[Any]]:
        async with serve_graph(tmp_path, first, second) as client:
            run = await ask_graph(client)
            ids = {item["payload"]: item["interrupt_id"] for item in run["interrupts"]}
            await send(client, run, {ids["how many?"]: "many", ids["which?"]: "red"})
            last = (await ended_runs(client))[-1]
            good = await send(client, last, {ids["how many?"]: 7})
            return good, await ended_runs(client), await state_of(client)

    good, runs, answers = asyncio.run(main())

    assert good.status_code == 200, good.text
    assert [item["payload"] for item in runs[1]["interrupts"]] == ["how many?"]
    assert [run["status"] for run in runs] == ["waiting", "error", "success"]
    assert sorted(answers, key=str) == [7, "red"]


@pytest.mark.parametrize("wire", ["thread", "vercel", "agui"])
def test_S6_a_question_is_open_after_another_run_of_the_thread_has_failed(
    tmp_path: Path, wire: str
) -> None:
    async def main() -> tuple[httpx.Response, list[Any]]:
        async with serve_graph(tmp_path, first) as client:
            run = await ask_graph(client)
            body = {"app": "agent", "input": 5, "thread_id": "t1", "wait": True}
            assert (await client.post("/runs", json=body)).status_code >= 400
            return await WIRES[wire](client, run, 7), await state_of(client)

    good, answers = asyncio.run(main())

    assert good.status_code == 200, good.text
    assert answers == [7]


def test_S6_an_answer_by_id_that_is_sent_again_gets_its_run_when_the_thread_asks_on(
    tmp_path: Path,
) -> None:
    async def main() -> tuple[list[httpx.Response], list[Any]]:
        async with serve_graph(tmp_path, first, second) as client:
            run = await ask_graph(client)
            ids = {item["payload"]: item["interrupt_id"] for item in run["interrupts"]}
            answer = {ids["which?"]: "red"}
            clicks = [await WIRES["langgraph"](client, run, answer) for _ in range(2)]
            return clicks, await ended_runs(client)

    clicks, runs = asyncio.run(main())

    assert [response.status_code for response in clicks] == [200, 200]
    assert clicks[0].json() == clicks[1].json()
    assert len(runs) == 2


def test_an_answer_to_one_of_two_questions_is_a_bad_request_of_a_chat_page(tmp_path: Path) -> None:
    async def main() -> httpx.Response:
        async with serve_graph(tmp_path, first, second) as client:
            return await WIRES["vercel"](client, await ask_graph(client), 7)

    response = asyncio.run(main())

    assert response.status_code == 400
    assert "not every question has an answer" in response.text


def test_S8_an_answer_is_not_asked_again_after_two_workers_were_killed(tmp_path: Path) -> None:
    shop = Shop(tmp_path, str(tmp_path / "runs.db"), seconds=0)

    def second_dead_run(asked: Any) -> None:
        """Write what a worker leaves that was killed when it went on with the stored answer."""
        log = ServerLog(shop.log)
        info = log.run("dead-run")
        assert info is not None
        run = RunRecord(
            "dead-2", info.owner, info.app, "runs", info.thread, "running", time.time(), "gone/2/x", None,
            resumes=info.id, first=info.root,
        )  # fmt: skip
        id, answer = asked["interrupts"][0]["interrupt_id"], log.answers(info.id)[0].answer
        assert log.begin(run, [Claim(CONTINUED, f'{{"{id}":{answer}}}')]) is None
        log.close()

    async def main() -> httpx.Response:
        async with shop.workers(1) as (client,):
            asked = await ask(client)
            await asyncio.to_thread(dead_run, shop.log, asked, APPROVE)
            await asyncio.to_thread(second_dead_run, asked)
            return await client.post("/runs/dead-2/resume", json={"wait": True})

    resumed = asyncio.run(main())

    assert resumed.json()["status"] == "success", resumed.text
    assert shop.payments == [5]


@pytest.mark.parametrize("is_written", [True, False])
def test_a_run_that_is_stopped_at_its_claim_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    shop = Shop(tmp_path, str(tmp_path / "runs.db"), seconds=0)
    begin = ServerLog.begin
    is_reached = threading.Event()

    def slow_begin(log: ServerLog, run: RunRecord, claims: list[Claim]) -> Any:
        refusal = begin(log, run, claims) if is_written else None
        is_reached.set()
        time.sleep(0.3)
        return refusal if is_written else begin(log, run, claims)

    async def main() -> tuple[httpx.Response, httpx.Response, list[Any]]:
        async with shop.workers(1) as (client,):
            asked = await ask(client)
            monkeypatch.setattr(ServerLog, "begin", slow_begin)
            answer = asyncio.create_task(WIRES["runs"](client, asked, APPROVE))
            await asyncio.to_thread(is_reached.wait)
            body = {
                "assistant_id": "agent",
                "input": {"messages": [{"role": "user", "content": "hi"}]},
            }
            body["multitask_strategy"] = "interrupt"
            other = client.post("/threads/t1/runs/wait", json=body)
            responses = await asyncio.wait_for(asyncio.gather(answer, other), 10)
            return *responses, await ended_runs(client)

    answered, other, runs = asyncio.run(main())

    assert answered.json()["status"] == "stopped", answered.text
    assert other.status_code == 200
    assert [run["status"] for run in runs][:2] == ["waiting", "stopped"]
    assert shop.payments == []


def test_a_claim_that_fails_in_any_way_is_an_error_and_leaves_the_question_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, str(tmp_path / "runs.db"), seconds=0)

    def broken(*values: Any) -> Any:
        raise RuntimeError("the driver of the database has a defect")

    async def main() -> tuple[httpx.Response, httpx.Response]:
        async with shop.workers(1) as (client,):
            asked = await ask(client)
            with monkeypatch.context() as patch:
                patch.setattr(ServerLog, "begin", broken)
                failed = await asyncio.wait_for(WIRES["runs"](client, asked, APPROVE), 10)
            return failed, await WIRES["runs"](client, asked, APPROVE)

    failed, good = asyncio.run(main())

    assert (failed.status_code, good.status_code) == (503, 200)
    assert shop.payments == [5]


def test_a_claim_whose_reply_was_lost_is_made_once_when_it_is_repeated(tmp_path: Path) -> None:
    log = ServerLog(str(tmp_path / "runs.db"))
    run = RunRecord(
        "second", "", "agent", "runs", "t1", "running", time.time(), log.worker, None,
        resumes="first", first="first",
    )  # fmt: skip
    claims = [Claim("a", "1"), Claim("b", "2")]

    refusals = [log.begin(run, claims), log.begin(run, claims)]

    assert refusals == [None, None]
    assert [answer.question for answer in log.answers("second")] == ["a", "b"]
    other = RunRecord(
        "third", "", "agent", "runs", "t1", "running", time.time(), log.worker, None,
        resumes="first", first="first",
    )  # fmt: skip
    refusal = log.begin(other, claims)
    assert refusal is not None
    assert {answer.run for answer in refusal.answers} == {"second"}
    log.close()


@pytest.mark.parametrize("wire", ["runs", "langgraph", "thread", "agui"])
@pytest.mark.parametrize("kind", [workflow, entrypoint])
def test_S6_the_question_of_a_served_flow_is_answered_once(
    tmp_path: Path, wire: str, kind: Any
) -> None:
    used: list[Any] = []

    @kind(checkpointer=SqliteSaver(str(tmp_path / "threads.db")))
    def flow(value: str) -> Any:
        answer = interrupt("which?")
        used.append(answer)
        return answer

    async def main() -> list[httpx.Response]:
        app = create_app({"agent": flow}, log=str(tmp_path / "runs.db"), studio=False, traces=None)
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            run = await ask(client, "x")
            clicks = [await WIRES[wire](client, run, "red") for _ in range(2)]
            await ended_runs(client)
            return [*clicks, await WIRES[wire](client, run, "blue")]

    responses = asyncio.run(main())

    assert [response.status_code for response in responses] == [200, 200, 409]
    assert used == ["red"]
