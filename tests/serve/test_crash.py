"""Servers that are killed, stopped and restarted; two workers on one PostgreSQL."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.forking import ForkedServer
from tests.serve.process import ServeProcess, sse
from tests.servers.databases import Server, postgres_server, wait_until

__all__ = ["postgres_server"]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServeProcess]:
    process = ServeProcess(tmp_path).start()
    yield process
    process.stop(signal.SIGKILL)


def follow(url: str, events: list[tuple[int, Any]]) -> None:
    """Read events until the connection breaks."""
    try:
        with httpx.stream("GET", url, timeout=20) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    data = json.loads(line[5:])
                    events.append((data.get("seq", -1), data))
    except httpx.HTTPError:
        return


KILLS = 50
"""Moments at which the server is killed; each finds runs of every age, on two wires."""


class RunFollower:
    """Runs of one life of a server, and what their watchers saw of them."""

    def __init__(self, server: ServeProcess, round_: int) -> None:
        self.events: dict[str, list[tuple[int, Any]]] = {}
        self.threads: list[threading.Thread] = []
        for number in range(4):
            body = {"app": "chat", "input": f"slow r{round_}-{number}"}
            id = httpx.post(f"{server.url}/runs", json=body, timeout=20).json()["run_id"]
            self.events[id] = []
            url = f"{server.url}/runs/{id}/events"
            self.threads.append(threading.Thread(target=follow, args=(url, self.events[id])))
        for thread in self.threads:
            thread.start()

    def wait_for(self, events: int) -> None:
        """Wait until one of the watchers has seen so many events."""
        wait_until(lambda: any(len(seen) >= events for seen in self.events.values()), "the events")

    def join(self) -> None:
        for thread in self.threads:
            thread.join(20)

    def check(self, server: ServeProcess) -> int:
        """Compare what was seen with the log of the next life; return how many events were seen."""
        for id, events in self.events.items():
            answer = httpx.get(f"{server.url}/runs/{id}", timeout=20)
            if answer.status_code == 404:
                assert events == []  # no event of it was sent
                continue
            assert answer.json()["status"] == "interrupted"
            second_events: list[tuple[int, Any]] = []
            follow(f"{server.url}/runs/{id}/events", second_events)
            logged_events = [(seq, data) for seq, data in second_events if seq > 0]
            assert [seq for seq, _ in logged_events] == list(range(1, len(logged_events) + 1))
            assert logged_events[: len(events)] == events
            if events:  # a client that comes back after its last event misses nothing and sees nothing twice
                later: list[tuple[int, Any]] = []
                follow(f"{server.url}/runs/{id}/events?after={events[-1][0]}", later)
                assert [*events, *(item for item in later if item[0] > 0)] == logged_events
        return sum(len(events) for events in self.events.values())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kill_9_at_50_random_points_leaves_what_was_seen_without_gap(tmp_path: Path) -> None:
    """The events that a client saw are in the log after the kill, without a gap; the run can be read on."""
    dice = random.Random(29)
    server = ForkedServer(tmp_path, ["chat=tests.serve.served:chat"])
    count = 0
    try:
        server.start()
        for round_ in range(KILLS):
            watched = RunFollower(server, round_)
            if (
                round_ % 2
            ):  # on a busy machine, too, some kills come in the middle of what watchers see
                watched.wait_for(events=dice.randint(1, 12))
            time.sleep(dice.uniform(0.0, 0.6))
            server.kill()
            watched.join()
            server.start()
            count += watched.check(server)
        server.kill()
    finally:
        server.close()
    assert count > KILLS * 4


@pytest.mark.slow
def test_an_agent_is_carried_on_after_kill_9(own_server: ServeProcess) -> None:
    body = {"app": "agent", "input": "slow tool killed", "thread_id": "k"}
    run = httpx.post(f"{own_server.url}/runs", json=body).json()["run_id"]
    own_server.wait_for_mark("tool-killed")
    own_server.stop(signal.SIGKILL)
    own_server.start()
    assert httpx.get(f"{own_server.url}/runs/{run}").json()["status"] == "interrupted"
    last_event = sse(httpx.get(f"{own_server.url}/runs/{run}/events").text)[-1][1]
    assert last_event["params"]["data"]["event"] == "interrupted"
    run_result = httpx.post(
        f"{own_server.url}/runs/{run}/resume", json={"wait": True}, timeout=30
    ).json()
    assert run_result["status"] == "success"
    assert run_result["output"]["messages"][-1]["content"] == "The tools said at last."


@pytest.mark.slow
def test_sigterm_lets_streams_finish(own_server: ServeProcess) -> None:
    body = {"app": "chat", "input": "count 400", "stream": True}
    texts: list[str] = []

    def read() -> None:
        slow = {**body, "input": "slow drained"}
        texts.append(httpx.post(f"{own_server.url}/runs", json=slow, timeout=40).text)

    thread = threading.Thread(target=read)
    thread.start()
    own_server.wait_for_mark("begin-drained")
    assert own_server.process is not None
    own_server.process.send_signal(signal.SIGTERM)
    thread.join(40)
    own_server.process.wait(20)
    assert sse(texts[0])[-1][1]["params"]["data"]["event"] == "success"
    assert "end-drained" in own_server.marks()
    assert own_server.process.returncode in (0, -signal.SIGTERM)


def test_a_full_or_broken_log_ends_runs_with_an_error(tmp_path: Path) -> None:
    from foldline.exceptions import StoreError
    from foldline.serve import create_app
    from tests.serve.in_process import post_in_process

    app = create_app({"chat": _chat()})

    def fail(batches: Any) -> None:
        raise StoreError("the disk is full")

    app.server.host.log.keep = fail  # type: ignore[method-assign]
    answer = post_in_process(app, "/v1/chat/completions", {"model": "chat", "messages": [
        {"role": "user", "content": "hi"}]})  # fmt: skip
    assert answer.status_code == 503


def _chat() -> Any:
    from foldline.testing import ScriptedChatModel

    return ScriptedChatModel(script=["hi"], is_cyclic=True)


@pytest.mark.slow
def test_two_workers_on_one_postgresql(postgres_server: Server, tmp_path: Path) -> None:
    """Quotas hold for both together; a run is watched and stopped from the other worker."""
    first = ServeProcess(tmp_path, log=postgres_server.url)
    second = ServeProcess(tmp_path, log=postgres_server.url)
    key = {"authorization": f"Bearer {first.add_key('shared', '--rpm', '10')}"}
    free = {"authorization": f"Bearer {first.add_key('free')}"}
    first.start()
    second.start()
    try:
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}

        def ask(number: int) -> int:
            url = (first, second)[number % 2].url
            response = httpx.post(f"{url}/v1/chat/completions", json=body, headers=key, timeout=30)
            return response.status_code

        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(ask, range(24)))
        assert statuses.count(200) == 10
        assert statuses.count(429) == 14
        run = httpx.post(
            f"{first.url}/runs", json={"app": "chat", "input": "slow pg-stop"}, headers=free
        ).json()["run_id"]
        first.wait_for_mark("begin-pg-stop")
        events: list[Any] = []
        watcher = threading.Thread(
            target=lambda: events.extend(
                sse(httpx.get(f"{second.url}/runs/{run}/events", headers=free, timeout=30).text)
            )
        )
        watcher.start()
        time.sleep(0.5)
        start = time.time()
        httpx.post(f"{second.url}/runs/{run}/stop", headers=free).raise_for_status()
        assert first.wait_for_mark("cut-pg-stop") - start < 1.2
        watcher.join(20)
        assert [data["seq"] for _, data in events] == list(range(1, len(events) + 1))
        assert events[-1][1]["params"]["data"]["event"] == "stopped"
    finally:
        first.stop(signal.SIGKILL)
        second.stop(signal.SIGKILL)


@pytest.mark.slow
def test_S8_a_server_that_is_killed_in_an_approved_tool_goes_on_without_another_question(
    tmp_path: Path,
) -> None:
    process = ServeProcess(tmp_path, apps=["agent=tests.serve.served:careful"]).start()
    try:
        body = {"app": "agent", "input": "slow tool kill", "thread_id": "t1", "wait": True}
        question = httpx.post(f"{process.url}/runs", json=body, timeout=20).json()
        assert question["status"] == "waiting"
        answers = {"answers": {"decisions": [{"type": "approve"}]}}
        url = f"{process.url}/runs/{question['run_id']}/resume"
        run = httpx.post(url, json=answers, timeout=20).json()
        process.wait_for_mark("tool-kill")
        process.stop(signal.SIGKILL)
        process.start()

        again = httpx.post(url, json=answers, timeout=20).json()
        url = f"{process.url}/runs/{run['run_id']}/resume"
        resumed = httpx.post(url, json={"wait": True}, timeout=20).json()
    finally:
        process.stop(signal.SIGKILL)

    assert (again["run_id"], again["status"]) == (run["run_id"], "interrupted")
    assert (resumed["status"], resumed["resumes"]) == ("success", run["run_id"])
    assert process.count_marks("tool-done-kill") == 1
    assert process.count_marks("tool-kill") == 2  # it was lost in the middle, and may run again
