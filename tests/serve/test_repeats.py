"""A request that is sent again with its `Idempotency-Key` starts nothing: it gets the run of the first one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from foldline.agents.checkpoint import InMemorySaver
from foldline.serve import create_app
from foldline.serve.app import ServeApp
from foldline.testing import ScriptedChatModel
from tests.serve.process import sse
from tests.serve.served import make_agent

MESSAGES = [{"role": "user", "content": "hi"}]
REQUESTS: dict[str, tuple[str, Any]] = {
    "native": ("/runs", {"app": "chat", "input": "hi"}),
    "native wait": ("/runs", {"app": "chat", "input": "hi", "wait": True}),
    "native stream": ("/runs", {"app": "chat", "input": "hi", "stream": True}),
    "chat": ("/v1/chat/completions", {"model": "chat", "messages": MESSAGES}),
    "chat n": ("/v1/chat/completions", {"model": "chat", "messages": MESSAGES, "n": 2}),
    "chat stream": (
        "/v1/chat/completions",
        {"model": "chat", "messages": MESSAGES, "stream": True},
    ),
    "responses": ("/v1/responses", {"model": "chat", "input": "hi"}),
    "responses stream": ("/v1/responses", {"model": "chat", "input": "hi", "stream": True}),
    "messages": ("/v1/messages", {"model": "chat", "max_tokens": 9, "messages": MESSAGES}),
    "messages stream": (
        "/v1/messages",
        {"model": "chat", "max_tokens": 9, "messages": MESSAGES, "stream": True},
    ),
    "langserve": ("/chat/invoke", {"input": "hi"}),
    "langserve batch": ("/chat/batch", {"inputs": ["hi", "ho"]}),
    "langserve stream": ("/chat/stream", {"input": "hi"}),
    "langgraph": ("/runs/wait", {"assistant_id": "chat", "input": "hi"}),
    "mcp": (
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "chat", "arguments": {"message": "hi"}},
        },
    ),
}
KEY = {"idempotency-key": "a key 1"}


class Counted:
    """An app that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.app = create_app({"chat": ScriptedChatModel(script=self._answer)}, studio=False)

    def _answer(self, request: Any) -> Any:
        self.calls += 1
        return [f"answer {self.calls}"]


def converse(app: ServeApp, talk: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            return await talk(client)

    return asyncio.run(main())


@pytest.mark.parametrize("name", REQUESTS)
def test_S5_an_equal_request_with_the_same_key_gets_the_same_run(name: str):
    path, body = REQUESTS[name]
    counted = Counted()

    async def talk(client: httpx.AsyncClient) -> tuple[list[httpx.Response], int]:
        answers = [await client.post(path, json=body, headers=KEY, timeout=60) for _ in range(2)]
        runs = await client.get("/runs")
        return answers, len(runs.json()["runs"])

    (first, second), runs = converse(counted.app, talk)

    assert first.status_code == second.status_code < 300
    count = 2 if name in ("chat n", "langserve batch") else 1
    assert (counted.calls, runs) == (count, count)
    if name == "native":
        assert first.json()["run_id"] == second.json()["run_id"]
    else:
        assert "answer 1" in second.text
    if name == "native stream":
        assert sse(first.text) == sse(second.text)


def test_S5_another_request_with_the_same_key_is_a_conflict():
    counted = Counted()

    async def talk(client: httpx.AsyncClient) -> list[httpx.Response]:
        bodies = [{"app": "chat", "input": "hi"}, {"app": "chat", "input": "ho"}]
        answers = [await client.post("/runs", json=body, headers=KEY) for body in bodies]
        other = {"model": "chat", "messages": MESSAGES}
        answers.append(await client.post("/v1/chat/completions", json=other, headers=KEY))
        return answers

    first, second, third = converse(counted.app, talk)

    assert (first.status_code, second.status_code, third.status_code) == (202, 409, 409)
    assert "idempotency_mismatch" in second.text
    assert "idempotency_mismatch" in third.text
    assert first.json()["run_id"] in second.text
    assert counted.calls == 1


def test_S5_equal_requests_at_once_start_one_run():
    counted = Counted()
    body = {"app": "chat", "input": "hi", "wait": True}

    async def talk(client: httpx.AsyncClient) -> list[httpx.Response]:
        sent = (client.post("/runs", json=body, headers=KEY, timeout=60) for _ in range(20))
        return list(await asyncio.gather(*sent))

    answers = converse(counted.app, talk)

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert counted.calls == 1


@pytest.mark.parametrize("key", ["", "x" * 129, "caf\u00e9"])
def test_S5_a_key_that_is_no_key_is_refused(key: str):
    counted = Counted()

    async def talk(client: httpx.AsyncClient) -> httpx.Response:
        headers = [(b"idempotency-key", key.encode())]
        return await client.post("/runs", json={"app": "chat", "input": "hi"}, headers=headers)

    answer = converse(counted.app, talk)

    assert answer.status_code == 400
    assert "1 to 128 printable characters" in answer.text
    assert counted.calls == 0


def test_S5_owners_have_keys_of_their_own():
    counted = Counted()
    keys = counted.app.server.keys
    owners = [keys.add(name)[0] for name in ("ada", "bob")]

    async def talk(client: httpx.AsyncClient) -> list[str]:
        ids = []
        for owner in owners:
            headers = {**KEY, "authorization": f"Bearer {owner}"}
            body = {"app": "chat", "input": "hi", "wait": True}
            ids.append((await client.post("/runs", json=body, headers=headers)).json()["run_id"])
        return ids

    assert len(set(converse(counted.app, talk))) == 2
    assert counted.calls == 2


def test_S5_an_answer_that_is_sent_again_with_its_key_gets_the_run_it_started():
    app = create_app({"agent": make_agent(InMemorySaver())}, studio=False)

    async def talk(client: httpx.AsyncClient) -> list[Any]:
        body = {"app": "agent", "input": "delete", "thread_id": "t", "wait": True}
        question = (await client.post("/runs", json=body, timeout=60)).json()
        decisions = [{"type": "approve"}, {"type": "approve"}]
        answer = {"answers": {"decisions": decisions}, "wait": True}
        url = f"/runs/{question['run_id']}/resume"
        return [(await client.post(url, json=answer, headers=KEY)).json() for _ in range(2)]

    first, second = converse(app, talk)

    assert first["status"] == second["status"] == "success"
    assert first["run_id"] == second["run_id"]
