"""Runs that wait their turn (`queued`), and runs that take too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.agents import create_agent
from foldline.agents.checkpoint import InMemorySaver
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.exceptions import UsageError
from foldline.serve import ServeApp, ServedApp, create_app
from foldline.serve._admission import Admission
from foldline.serve._keys import KeyStore
from foldline.serve._load_apps import make_apps, read_config
from foldline.serve._log.run_log import ServerLog
from foldline.serve.errors import ServeError
from foldline.testing import Call, ScriptedChatModel, Stall

# -- tickets


def test_S20_runs_beyond_the_line_are_refused() -> None:
    admission = Admission(max_runs=1, max_queued=1, queue_seconds=5)
    first, second = admission.enter("a", None), admission.enter("a", None)
    assert (first.is_admitted, second.is_admitted) == (True, False)
    with pytest.raises(ServeError, match="the server has too many runs"):
        admission.enter("a", None)

    admission.leave(first)
    assert (second.is_admitted, admission.queued) == (True, 0)


def test_S20_without_queue_seconds_nobody_waits() -> None:
    admission = Admission(max_runs=1, max_queued=9, queue_seconds=0)
    admission.enter("a", None)
    with pytest.raises(ServeError) as caught:
        admission.enter("a", None)
    assert (caught.value.status, caught.value.retry_after) == (503, 1.0)


def test_S20_who_waits_for_its_own_app_or_key_keeps_no_other_from_running() -> None:
    admission = Admission(max_runs=3, max_queued=9, queue_seconds=5)
    first = admission.enter("a", 1, "k", 2)
    waiting_for_app = admission.enter("a", 1, "j", 2)
    other = admission.enter("b", None, "k", 2)
    waiting_for_key = admission.enter("b", None, "k", 2)
    free = admission.enter("b", None, "j", 2)
    tickets = [first, waiting_for_app, other, waiting_for_key, free]
    assert [each.is_admitted for each in tickets] == [True, False, True, False, True]

    admission.leave(other)
    assert waiting_for_key.is_admitted
    admission.leave(first)
    assert waiting_for_app.is_admitted


def test_S20_a_refusal_names_what_is_full() -> None:
    admission = Admission(max_runs=9, max_queued=0, queue_seconds=0)
    admission.enter("a", 1, "k", 2)
    with pytest.raises(ServeError, match="the app has"):
        admission.enter("a", 1, "k", 2)
    admission.enter("b", None, "k", 2)
    with pytest.raises(ServeError, match="this key has"):
        admission.enter("b", None, "k", 2)


# -- in a server


class Gate:
    """A model that answers when it is let go on."""

    def __init__(self) -> None:
        self.is_open = False
        self.started = 0
        self.model = ScriptedChatModel(script=self._answer)

    def _answer(self, _: Any) -> Any:
        self.started += 1
        while not self.is_open:
            yield Stall(0.005)
        yield "done"

    async def wait_for(self, count: int) -> None:
        while self.started < count:
            await asyncio.sleep(0.005)


@asynccontextmanager
async def client_of(app: ServeApp, key: str = "") -> AsyncGenerator[httpx.AsyncClient, None]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=30
        ) as client,
    ):
        yield client


def serve(tmp_path: Path, apps: Any, **options: Any) -> ServeApp:
    return create_app(apps, log=str(tmp_path / "runs.db"), studio=False, **options)


def run(
    tmp_path: Path, gate: Gate, body: Callable[[httpx.AsyncClient], Awaitable[None]], **options: Any
) -> None:
    options = {"max_runs": 1, "max_queued": 2, "queue_seconds": 20, **options}
    app = serve(tmp_path, {"app": gate.model}, **options)

    async def main() -> None:
        async with client_of(app) as client:
            await body(client)

    asyncio.run(main())


async def start(client: httpx.AsyncClient) -> Any:
    answer = await client.post("/runs", json={"app": "app", "input": "hi"})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def status(client: httpx.AsyncClient, id: str) -> str:
    return str((await client.get(f"/runs/{id}")).json()["status"])


async def wait_for_status(client: httpx.AsyncClient, id: str, wanted: str) -> None:
    while await status(client, id) != wanted:
        await asyncio.sleep(0.01)


def test_S4_S20_a_run_without_room_is_queued_and_runs_when_another_ends(tmp_path: Path) -> None:
    gate = Gate()

    async def body(client: httpx.AsyncClient) -> None:
        first, second, third = [await start(client) for _ in range(3)]
        assert [each["status"] for each in (first, second, third)] == [
            "running",
            "queued",
            "queued",
        ]
        refused = await client.post("/runs", json={"app": "app", "input": "hi"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        other = ServerLog(str(tmp_path / "runs.db"))  # as another worker sees it
        assert [other.run(each["run_id"]).status for each in (first, second)] == [
            "running",
            "queued",
        ]  # type: ignore[union-attr]
        other.close()
        assert gate.started == 1
        gate.is_open = True
        for each in (first, second, third):
            await wait_for_status(client, each["run_id"], "success")
        events = await client.get(f"/runs/{third['run_id']}/events")
        assert '"event":"started"' in events.text.replace(" ", "")

    run(tmp_path, gate, body)


def test_S4_wires_show_a_queued_run_as_their_own(tmp_path: Path) -> None:
    gate = Gate()

    async def body(client: httpx.AsyncClient) -> None:
        await start(client)
        asked = asyncio.ensure_future(
            client.post("/v1/responses", json={"model": "app", "input": "hi", "store": True})
        )
        queued: list[Any] = []
        while not queued:
            await asyncio.sleep(0.01)
            queued = (await client.get("/runs?status=queued")).json()["runs"]
        path = f"/v1/responses/resp_{queued[0]['run_id']}"
        assert (await client.get(path)).json()["status"] == "queued"
        await client.post("/threads", json={"thread_id": "t1"})
        graph = await client.post(
            "/threads/t1/runs",
            json={
                "assistant_id": "app",
                "input": {"messages": [{"role": "user", "content": "hi"}]},
            },
        )
        assert graph.json()["status"] == "pending"
        assert (await client.get("/threads/t1")).json()["status"] == "busy"
        gate.is_open = True
        await wait_for_status(client, graph.json()["run_id"], "success")
        assert (await asked).json()["status"] == "completed"
        assert (await client.get(path)).json()["status"] == "completed"

    run(tmp_path, gate, body)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("streams", [True, False])
def test_S20_a_run_whose_turn_does_not_come_ends_with_503(
    tmp_path: Path, path: str, streams: bool
) -> None:
    gate = Gate()

    async def body(client: httpx.AsyncClient) -> None:
        first = await start(client)
        ask = {"model": "app", "stream": streams, "max_tokens": 9,
               "messages": [{"role": "user", "content": "hi"}]}  # fmt: skip
        answer = await client.post(path, json=ask)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert gate.started == 1
        gate.is_open = True
        await wait_for_status(client, first["run_id"], "success")
        assert (await client.post(path, json=ask)).status_code == 200

    run(tmp_path, gate, body, queue_seconds=0.2)


def test_S20_a_queued_run_is_stopped_before_it_starts(tmp_path: Path) -> None:
    gate = Gate()

    async def body(client: httpx.AsyncClient) -> None:
        await start(client)
        second, third = await start(client), await start(client)
        await client.post(f"/runs/{second['run_id']}/stop")
        await wait_for_status(client, second["run_id"], "stopped")
        gate.is_open = True
        await wait_for_status(client, third["run_id"], "success")
        assert gate.started == 2

    run(tmp_path, gate, body)


def test_S20_a_server_that_closes_leaves_queued_runs_interrupted(tmp_path: Path) -> None:
    gate, ids = Gate(), []

    async def body(client: httpx.AsyncClient) -> None:
        ids.extend([(await start(client))["run_id"] for _ in range(2)])

    run(tmp_path, gate, body, drain_seconds=0)
    log = ServerLog(str(tmp_path / "runs.db"))
    assert [log.run(id).status for id in ids] == ["interrupted", "interrupted"]  # type: ignore[union-attr]
    log.close()


def test_S20_apps_and_keys_have_their_own_number_of_runs(tmp_path: Path) -> None:
    gate = Gate()
    apps = {"few": ServedApp("few", gate.model, max_runs=1), "many": gate.model}
    app = serve(tmp_path, apps)
    text, _ = app.server.keys.add("me", max_runs=2)

    async def main() -> None:
        async with client_of(app, text) as client:

            async def start(name: str) -> tuple[int, str]:
                answer = await client.post("/runs", json={"app": name, "input": "hi"})
                return answer.status_code, answer.text

            assert (await start("few"))[0] == 202
            code, refusal = await start("few")
            assert (code, "the app has too many runs" in refusal) == (503, True)
            assert (await start("many"))[0] == 202
            code, refusal = await start("many")
            assert (code, "this key has too many runs" in refusal) == (503, True)
            gate.is_open = True

    asyncio.run(main())


def test_S20_a_refused_request_gives_its_place_back(tmp_path: Path) -> None:
    gate = Gate()
    gate.is_open = True
    app = serve(tmp_path, {"app": gate.model}, max_runs=1)
    text, _ = app.server.keys.add("me", rpm=2)

    async def main() -> list[int]:
        async with client_of(app, text) as client:
            ask = {"app": "app", "input": "hi", "wait": True}
            return [(await client.post("/runs", json=ask)).status_code for _ in range(4)]

    assert asyncio.run(main()) == [200, 200, 429, 429]
    assert not app.server.host.admission._counts


def test_S20_an_answer_whose_turn_does_not_come_may_be_sent_again(tmp_path: Path) -> None:
    def act() -> str:
        """Act."""
        return "acted"

    gate = Gate()
    model = ScriptedChatModel(script=[[Call("act", {})], "done"])
    agent = create_agent(
        model, [act], middleware=[HumanInTheLoopMiddleware({"act": True})],
        checkpointer=InMemorySaver(), name="agent",
    )  # fmt: skip
    app = serve(
        tmp_path, {"agent": agent, "app": gate.model}, max_runs=1, max_queued=1, queue_seconds=0.2
    )

    async def main() -> None:
        async with client_of(app) as client:
            ask = {"app": "agent", "input": {"messages": "hi"}, "wait": True}
            asked = (await client.post("/runs", json=ask)).json()
            assert asked["status"] == "waiting"
            busy = await start(client)
            answer = {"answers": {"decisions": [{"type": "approve"}]}, "wait": True}
            late = await client.post(f"/runs/{asked['run_id']}/resume", json=answer)
            assert late.status_code == 503
            gate.is_open = True
            await wait_for_status(client, busy["run_id"], "success")
            again = await client.post(f"/runs/{asked['run_id']}/resume", json=answer)
            assert (again.status_code, again.json()["status"]) == (200, "success"), again.text

    asyncio.run(main())


def test_S43_a_key_without_the_new_limit_is_stored_as_before(tmp_path: Path) -> None:
    app = serve(tmp_path, {"app": ScriptedChatModel(script=["x"])})
    keys: KeyStore = app.server.keys
    keys.add("old", rpm=3)
    text, key = keys.add("new", max_runs=3)
    rows = app.server.host.log.database.rows("SELECT name, settings FROM serve_keys")
    assert {name: "max_runs" in settings for name, settings in rows} == {"old": False, "new": True}
    assert keys.find(text) == key
    app.server.host.log.close()


# -- run_timeout


def stalling() -> ScriptedChatModel:
    return ScriptedChatModel(script=lambda _: [Stall(30), "late"])


async def wait_in_tool() -> str:
    """Wait."""
    await asyncio.sleep(30)
    return "late"


TOO_SLOW: dict[str, Callable[[], Any]] = {
    "model": stalling,
    "agent": lambda: create_agent(stalling(), [], name="app"),
    "tool": lambda: create_agent(
        ScriptedChatModel(script=[[Call("wait_in_tool", {})], "x"]), [wait_in_tool], name="app"
    ),
}


@pytest.mark.parametrize("kind", TOO_SLOW)
def test_S21_a_run_that_takes_too_long_ends_with_504(tmp_path: Path, kind: str) -> None:
    app = serve(tmp_path, {"app": TOO_SLOW[kind]()}, run_timeout=0.3)

    async def main() -> tuple[httpx.Response, Any]:
        async with client_of(app) as client:
            value: Any = "hi" if kind == "model" else {"messages": "hi"}
            ask = {"app": "app", "input": value, "wait": True}
            answer = await client.post("/runs", json=ask)
            (info,) = (await client.get("/runs")).json()["runs"]
            return answer, info

    answer, info = asyncio.run(main())
    assert answer.status_code == 504
    assert (info["status"], info["error"]["kind"]) == ("error", "timeout")
    assert "0.3 s" in info["error"]["message"]


def test_S21_an_app_has_a_time_of_its_own(tmp_path: Path) -> None:
    slow = ScriptedChatModel(script=lambda _: [Stall(0.5), "done"])
    apps = {"app": ServedApp("app", slow, run_timeout=30), "other": ServedApp("other", slow)}
    app = serve(tmp_path, apps, run_timeout=0.1)

    async def main() -> list[int]:
        async with client_of(app) as client:
            asks = [{"app": name, "input": "hi", "wait": True} for name in apps]
            return [(await client.post("/runs", json=ask)).status_code for ask in asks]

    assert asyncio.run(main()) == [200, 504]


def test_S21_after_content_the_stream_ends_with_the_error(tmp_path: Path) -> None:
    slow = ScriptedChatModel(script=lambda _: ["some ", Stall(30), "late"])
    app = serve(tmp_path, {"app": slow}, run_timeout=0.5)

    async def main() -> httpx.Response:
        async with client_of(app) as client:
            ask = {"model": "app", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
            return await client.post("/v1/chat/completions", json=ask)

    answer = asyncio.run(main())
    assert answer.status_code == 200
    assert "some" in answer.text
    assert "longer than the 0.5 s" in answer.text


def test_S21_the_time_in_line_does_not_count(tmp_path: Path) -> None:
    gate = Gate()

    async def body(client: httpx.AsyncClient) -> None:
        first = await start(client)
        second = await start(client)
        await wait_for_status(client, first["run_id"], "error")
        gate.is_open = True
        await wait_for_status(client, second["run_id"], "success")

    run(tmp_path, gate, body, run_timeout=0.4)


def test_S20_S21_limits_of_apps_are_read_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(
        '[apps]\nplain = "tests.serve.served:chat"\n'
        'slow = { use = "tests.serve.served:chat", max_runs = 4, run_timeout = 600 }\n'
    )
    apps = make_apps([], [], read_config(file))
    assert (apps["plain"].max_runs, apps["plain"].run_timeout) == (None, None)
    assert (apps["slow"].max_runs, apps["slow"].run_timeout) == (4, 600)
    file.write_text("[apps]\nslow = { max_runs = 4 }\n")
    with pytest.raises(UsageError, match=r"\[apps\] slow: use ="):
        make_apps([], [], read_config(file))
    file.write_text('[apps]\nslow = { use = "a:b", max_rums = 4 }\n')
    with pytest.raises(UsageError, match="did you mean 'max_runs'"):
        make_apps([], [], read_config(file))
