"""Our own wire: `/runs`, raw and with `RemoteRunnable`."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from foldline.exceptions import ModelAPIError, ModelError, ModelRateLimitError
from foldline.messages import AIMessageChunk, HumanMessage
from foldline.serve import RemoteRunnable
from foldline.workflows.interrupts import Command
from tests.conftest import AsyncCalls, SyncCalls
from tests.serve.process import ServeProcess, sse
from tests.serve.served import SECRET

Call = SyncCalls | AsyncCalls


def start(server: ServeProcess, text: Any, app: str = "chat", **more: Any) -> Any:
    answer = httpx.post(f"{server.url}/runs", json={"app": app, "input": text, **more}, timeout=30)
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


def read(server: ServeProcess, id: str, after: int = 0) -> list[tuple[int, Any]]:
    headers = {"last-event-id": str(after)} if after else {}
    text = httpx.get(f"{server.url}/runs/{id}/events", headers=headers, timeout=30).text
    return [(data.get("seq", -1), data) for _, data in sse(text)]


def test_a_run_is_started_followed_and_read_again(server: ServeProcess) -> None:
    run = start(server, "hi")
    events = read(server, run["run_id"])
    assert [seq for seq, _ in events] == list(range(1, len(events) + 1))
    assert events[0][1]["params"]["data"]["event"] == "started"
    assert events[-1][1]["params"]["data"]["event"] == "success"
    assert read(server, run["run_id"]) == events
    assert read(server, run["run_id"], after=4) == events[4:]
    info = httpx.get(f"{server.url}/runs/{run['run_id']}").json()
    assert info["status"] == "success"
    assert info["usage"]["total_tokens"] == 18
    assert info["output"]["kwargs"]["content"][0]["text"] == "Hello there, my friend."


@pytest.mark.slow
def test_who_leaves_may_come_back_without_gap(server: ServeProcess) -> None:
    run = start(server, "slow runs-back")
    numbers: list[int] = []
    url = f"{server.url}/runs/{run['run_id']}/events"
    with httpx.stream("GET", url) as response:
        for line in response.iter_lines():
            if line.startswith("id:"):
                numbers.append(int(line[3:]))
            if len(numbers) == 20:
                break
    remaining = [seq for seq, _ in read(server, run["run_id"], after=numbers[-1])]
    assert numbers + remaining == list(range(1, len(numbers) + len(remaining) + 1))
    assert len(numbers) + len(remaining) > 100


def test_stop_ends_a_run_within_a_second(server: ServeProcess) -> None:
    run = start(server, "slow runs-stop")
    server.wait_for_mark("begin-runs-stop")
    start_time = time.time()
    httpx.post(f"{server.url}/runs/{run['run_id']}/stop").raise_for_status()
    assert server.wait_for_mark("cut-runs-stop") - start_time < 1.0
    assert read(server, run["run_id"])[-1][1]["params"]["data"]["event"] == "stopped"
    assert httpx.get(f"{server.url}/runs/{run['run_id']}").json()["status"] == "stopped"


def test_an_agent_asks_and_is_answered(server: ServeProcess) -> None:
    run = start(server, "delete them", app="agent", wait=True)
    assert run["status"] == "waiting"
    assert len(run["interrupts"][0]["payload"]["action_requests"]) == 2
    url = f"{server.url}/runs/{run['run_id']}/resume"
    answers = {"decisions": [{"type": "approve"}, {"type": "approve"}]}
    run_result = httpx.post(url, json={"answers": answers, "wait": True}, timeout=30).json()
    assert run_result["status"] == "success"
    assert run_result["output"]["messages"][-1]["content"].startswith(
        "The tools said /tmp/a is gone"
    )
    assert httpx.post(url.replace(run["run_id"], run_result["run_id"]), json={}).status_code == 409


def test_runs_are_listed_and_deleted(server: ServeProcess) -> None:
    first_run = start(server, "hi", wait=True)
    runs = httpx.get(f"{server.url}/runs", params={"limit": 5}).json()["runs"]
    assert first_run["run_id"] in [run["run_id"] for run in runs]
    assert httpx.delete(f"{server.url}/runs/{first_run['run_id']}").status_code == 204
    assert httpx.get(f"{server.url}/runs/{first_run['run_id']}").status_code == 404


# -- RemoteRunnable


PICTURE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


def test_reasoning_and_a_picture_go_over_the_wire(server: ServeProcess, call: Call) -> None:
    remote = RemoteRunnable(server.url, app="chat")
    blocks = call.invoke(remote, "reason").content_blocks
    assert [block["reasoning"] for block in blocks if block["type"] == "reasoning"] == [
        "First I think. Then I know."
    ]
    picture = HumanMessage([{"type": "text", "text": "picture"}, PICTURE])
    assert call.invoke(remote, [picture]).text == "I see image:image/png."
    events = [data for _, data in read(server, start(server, "reason")["run_id"])]
    deltas = [
        event["params"]["data"]["delta"]
        for event in events
        if event["method"] == "messages"
        and event["params"]["data"]["event"] == "content-block-delta"
    ]
    assert any(delta["type"] == "reasoning-delta" for delta in deltas)


def test_a_remote_model_is_a_runnable(server: ServeProcess, call: Call) -> None:
    remote = RemoteRunnable(server.url, app="chat")
    assert call.invoke(remote, "hi").text == "Hello there, my friend."
    chunks = call.stream(remote, [HumanMessage("hi")])
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == "Hello there, my friend."
    assert [answer.text for answer in call.batch(remote, ["hi", "hi"])] == [
        "Hello there, my friend."
    ] * 2


def test_a_remote_chain_and_function(server: ServeProcess, call: Call) -> None:
    chain = RemoteRunnable(server.url, app="chain")
    assert call.stream(chain, {"topic": "Mars"}) == ["Hello", " there,", " my", " friend.", ""]
    assert call.invoke(chain, {"topic": "Mars"}) == "Hello there, my friend."
    assert call.invoke(RemoteRunnable(server.url, app="double"), 21) == 42


def test_a_remote_agent_with_its_tools(server: ServeProcess, call: Call) -> None:
    agent = RemoteRunnable(server.url, app="agent")
    state = call.invoke(agent, {"messages": [HumanMessage("parallel tools")]})
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    updates = call.stream(agent, {"messages": "parallel tools"})
    assert next(iter(updates[0])) == "model"


def test_errors_of_a_remote_are_errors_here(server: ServeProcess, call: Call) -> None:
    remote = RemoteRunnable(server.url, app="chat")
    with pytest.raises(ModelRateLimitError) as excinfo:
        call.invoke(remote, "rate limit")
    assert excinfo.value.retry_after == 7
    with pytest.raises(ModelAPIError) as broken:
        call.stream(remote, "break")
    assert SECRET not in str(broken.value)
    with pytest.raises(ModelError):
        call.invoke(RemoteRunnable(server.url, app="nobody"), "hi")


def test_a_remote_question_is_answered_in_its_run(server: ServeProcess, call: Call) -> None:
    run = start(server, "delete them", app="agent", wait=True)
    config = {"configurable": {"run_id": run["run_id"]}}
    answer = Command(resume={"decisions": [{"type": "approve"}] * 2})
    state = call.invoke(RemoteRunnable(server.url, app="agent"), answer, config)
    assert state["messages"][-1].text.startswith("The tools said /tmp/a is gone")


@pytest.mark.slow
def test_a_broken_connection_is_picked_up_where_it_was(server: ServeProcess) -> None:
    """A proxy between the two cuts every connection after some bytes."""
    from tests.serve.cutting import CuttingProxy

    with CuttingProxy(server.port, after=4_000, cuts=3) as proxy:
        remote = RemoteRunnable(proxy.url, app="chat")
        text = "".join(chunk.text for chunk in remote.stream("slow remote-cut"))
    assert text == "".join(f"{number} " for number in range(100))
    assert proxy.cut == 3
