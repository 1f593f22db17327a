"""`/agui` with the unmodified `@ag-ui/client`."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from tests.serve import node
from tests.serve.process import ServeProcess
from tests.serve.served import SECRET

pytestmark = pytest.mark.slow


def run(server: ServeProcess, content: Any, app: str = "chat", **more: Any) -> Any:
    return node.run("agui.mjs", url=server.url, app=app, content=content, **more)


def kinds(events: list[Any]) -> list[str]:
    return [event["type"] for event in events]


def test_text_comes_with_usage(server: ServeProcess) -> None:
    result = run(server, "hi")
    assert result["problem"] is None
    assert result["messages"][-1]["content"] == "Hello there, my friend."
    last = result["events"][-1]
    assert last["outcome"] == {"type": "success"}
    assert last["usage"][0]["totalTokens"] == 18


def test_reasoning_comes_before_the_text(server: ServeProcess) -> None:
    result = run(server, "reason, please")
    assert result["problem"] is None
    assert "REASONING_MESSAGE_CONTENT" in kinds(result["events"])
    assert [message["role"] for message in result["messages"]] == [
        "user",
        "reasoning",
        "assistant",
    ]


def test_an_agents_parallel_tools_and_their_results(server: ServeProcess) -> None:
    result = run(server, "parallel tools please", app="agent")
    assert result["problem"] is None
    first = result["messages"][1]
    assert first["content"] == "Looking. "
    assert [call["function"]["arguments"] for call in first["toolCalls"]] == [
        '{"city": "Oslo"}',
        '{"city": "Rome"}',
    ]
    tools = [message["content"] for message in result["messages"] if message["role"] == "tool"]
    assert tools == ["Oslo is sunny", "Rome is sunny"]
    assert result["messages"][-1]["content"].startswith("The tools said")


def test_a_model_calls_the_clients_tools(server: ServeProcess) -> None:
    tools = [{"name": "weather", "description": "x", "parameters": {"type": "object"}}]
    result = run(server, "parallel tools please", tools=tools)
    assert result["problem"] is None
    assert len(result["messages"][-1]["toolCalls"]) == 2


def test_a_picture_reaches_the_model(server: ServeProcess) -> None:
    content = [
        {"type": "text", "text": "picture"},
        {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
    ]
    result = run(server, content)
    assert result["messages"][-1]["content"] == "I see image:image/png."


def test_a_broken_stream_is_a_run_error(server: ServeProcess) -> None:
    result = run(server, "break")
    assert result["events"][-1]["type"] == "RUN_ERROR"
    assert "ModelError" in result["events"][-1]["message"]
    assert "RUN_FINISHED" not in kinds(result["events"])
    assert SECRET not in str(result)


def test_a_rate_limit_is_an_error_of_http(server: ServeProcess) -> None:
    assert "429" in run(server, "rate limit")["problem"]


def test_an_agent_asks_and_is_answered_by_resume(server: ServeProcess) -> None:
    decisions = {"decisions": [{"type": "approve"}, {"type": "reject", "message": "no"}]}
    result = run(server, "delete them", app="agent", resume=decisions)
    assert result["problem"] is None
    second = result["second"]
    assert second[-1]["outcome"] == {"type": "success"}
    results = {
        event["toolCallId"]: event["content"]
        for event in second
        if event["type"] == "TOOL_CALL_RESULT"
    }
    assert sorted(results.values()) == ["/tmp/a is gone", "no"]


def test_who_aborts_leaves_the_run_going(server: ServeProcess) -> None:
    run(server, "slow agui-abort", action="abort")
    server.wait_for_mark("end-agui-abort")


def test_asking_again_replaces_the_answer(server: ServeProcess) -> None:
    result = run(server, "remember one", app="agent", action="regenerate")
    assert result["problem"] is None
    assert result["messages"][-1]["content"] == "remember one | remember"


def test_a_stopped_run_ends_as_cancelled(server: ServeProcess) -> None:
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(run(server, "slow agui-stop", threadId="agui-stop"))
    )
    thread.start()
    server.wait_for_mark("begin-agui-stop", 30)
    url = f"{server.url}/runs"
    runs = httpx.get(url, params={"thread_id": "agui-stop"}).json()["runs"]
    httpx.post(f"{url}/{runs[0]['run_id']}/stop").raise_for_status()
    thread.join(30)
    assert results[0]["events"][-1]["outcome"] == {"type": "cancelled"}
    assert "cut-agui-stop" in server.marks()


def test_S54_a_run_is_stopped_by_the_names_of_its_client(server: ServeProcess) -> None:
    names = {"threadId": "agui-stop", "runId": "mine"}
    body = {**names, "messages": [{"id": "1", "role": "user", "content": "slow minute agui-stop"}]}
    with httpx.stream("POST", f"{server.url}/agui/agent", json=body, timeout=30) as stream:
        server.wait_for_mark("begin-agui-stop")
        wrong = httpx.post(f"{server.url}/agui/stop", json={**names, "runId": "other"})
        assert wrong.status_code == 404
        assert httpx.post(f"{server.url}/agui/stop", json=names).json() == names
        text = "".join(stream.iter_text())
    server.wait_for_mark("cut-agui-stop")
    assert "RUN_ERROR" in text or "RUN_FINISHED" in text
