"""`/api/chat` with the unmodified `ai` package: its transport, and its chat on top."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve import node
from tests.serve.process import ServeProcess
from tests.serve.served import SECRET

pytestmark = pytest.mark.slow


def chat(server: ServeProcess, action: str, text: Any = "", app: str = "chat", **more: Any) -> Any:
    return node.run("vercel.mjs", url=server.url, app=app, text=text, action=action, **more)


def said(message: Any) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def test_text_comes_as_a_message_with_usage(server: ServeProcess) -> None:
    result = chat(server, "chat", "hi")
    answer = result["messages"][-1]
    assert said(answer) == "Hello there, my friend."
    assert answer["metadata"]["usage"]["total_tokens"] == 18
    assert (result["status"], result["problem"]) == ("ready", None)


def test_reasoning_is_a_part_of_its_own(server: ServeProcess) -> None:
    parts = chat(server, "chat", "reason, please")["messages"][-1]["parts"]
    thoughts = [part["text"] for part in parts if part["type"] == "reasoning"]
    assert thoughts == ["First I think. Then I know."]


def test_an_agents_parallel_tools_are_parts_with_their_results(server: ServeProcess) -> None:
    answer = chat(server, "chat", "parallel tools please", app="agent")["messages"][-1]
    tools = [part for part in answer["parts"] if part["type"] == "tool-weather"]
    assert [(part["state"], part["input"], part["output"]) for part in tools] == [
        ("output-available", {"city": "Oslo"}, "Oslo is sunny"),
        ("output-available", {"city": "Rome"}, "Rome is sunny"),
    ]
    assert said(answer) == "Looking. The tools said Oslo is sunny, Rome is sunny."
    assert len([part for part in answer["parts"] if part["type"] == "step-start"]) == 2


def test_a_picture_reaches_the_model(server: ServeProcess) -> None:
    parts = [
        {"type": "text", "text": "picture"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
    ]
    result = chat(server, "chat", parts=parts)
    assert said(result["messages"][-1]) == "I see image:image/png."


def test_a_broken_stream_is_an_error(server: ServeProcess) -> None:
    result = chat(server, "chat", "break")
    assert result["status"] == "error"
    assert "ModelError" in result["problem"]
    assert SECRET not in str(result)


def test_a_rate_limit_is_an_error(server: ServeProcess) -> None:
    assert "too many requests" in chat(server, "error", "rate limit")


def test_who_aborts_may_come_back_and_sees_everything(server: ServeProcess) -> None:
    result = chat(server, "reconnect", "slow vercel-back")
    kinds = [chunk["type"] for chunk in result["all"]]
    assert kinds[0] == "start"
    assert kinds[-1] == "finish"
    deltas = [chunk["delta"] for chunk in result["all"] if chunk["type"] == "text-delta"]
    assert deltas == [f"{number} " for number in range(100)]
    assert result["none"] is None
    assert "end-vercel-back" in server.marks()


def test_tools_wait_for_approval_one_is_granted_one_denied(server: ServeProcess) -> None:
    result = chat(server, "approval", "delete them", app="agent")
    assert result["asked"] == 2
    parts = [part for part in result["messages"][-1]["parts"] if part["type"] == "tool-delete"]
    assert [part["state"] for part in parts] == ["output-available", "output-denied"]
    assert parts[0]["output"] == "/tmp/a is gone"
    assert "The tools said" in said(result["messages"][-1])


def test_regenerating_replaces_the_answer_and_what_came_after(server: ServeProcess) -> None:
    result = chat(server, "regenerate", ["one", "remember two"], app="agent")
    assert said(result["again"][-1]) == "one | remember two"
    assert len(result["again"]) == 4
    assert said(result["messages"][-1]) == "changed | remember"


def test_stop_ends_the_run_with_an_abort(server: ServeProcess) -> None:
    import threading

    import httpx

    server_id = "stop-me"
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(chat(server, "chunks", "slow vercel-stop", id=server_id))
    )
    thread.start()
    server.wait_for_mark("begin-vercel-stop", 30)
    assert httpx.post(f"{server.url}/api/chat/chat/{server_id}/stop").json() == {"stopped": True}
    thread.join(30)
    assert results[0][-1]["type"] == "abort"
    assert "cut-vercel-stop" in server.marks()
