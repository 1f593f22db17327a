"""LangServe's routes with LangServe's own client, and `/v1` with simonw's `llm`, in an environment of their own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.serve import other_python
from tests.serve.conftest import KeyedServer
from tests.serve.process import ServeProcess, sse
from tests.serve.served import SECRET

PAGE = Path(__file__).parents[2] / "docs" / "serve-openai.md"


@pytest.mark.slow
def test_S51_langserves_own_client(server: ServeProcess) -> None:
    script = Path(__file__).parent / "langserve_client.py"
    text = other_python.run("python", str(script), server.url)
    result = json.loads(text.strip().splitlines()[-1])
    hello = "Hello there, my friend."
    assert result["chain"] == hello
    assert "".join(result["stream"]) == hello
    assert len(result["stream"]) >= 4
    assert result["batch"] == [hello, hello]
    assert result["double"] == 42
    assert result["line_ends"] == result["line_ends_whole"] == "one\u2028two\u2029three\u0085four"
    assert result["model"] == ["AIMessage", hello]
    assert result["tools"] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert result["usage"] == 18
    assert result["reasoning"] == ["First I think. Then I know."]
    assert result["picture"] == "I see image:image/png."
    server.wait_for_mark("cut-langserve-leave", 5)
    assert result["pieces"][0] == "AIMessageChunk"
    assert result["agent"] == [
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "ToolMessage",
        "AIMessage",
    ]
    assert len(result["errors"]) == 2
    assert SECRET not in text
    assert result["events"][0] == "on_chain_start"
    assert "on_chat_model_stream" in result["events"]
    assert result["patches"] > 3


@pytest.mark.parametrize(
    ("path", "method"), [("stream_log", "log_patch"), ("stream_events", "stream_event")]
)
def test_what_is_seen_inside_is_in_the_run_log(
    server: ServeProcess, path: str, method: str
) -> None:
    text = httpx.post(f"{server.url}/chain/{path}", json={"input": {"topic": "Mars"}}).text
    events = sse(text)
    run = events[0][1]["run_id"]
    pieces = [data for name, data in events if name == "data"]
    assert len(pieces) > 5
    info = httpx.get(f"{server.url}/runs/{run}").json()
    assert (info["status"], info["output"]) == ("success", "Hello there, my friend.")
    assert info["usage"]["total_tokens"] == 18
    log = [data for _, data in sse(httpx.get(f"{server.url}/runs/{run}/events").text)]
    assert len([data for data in log if data["method"] == method]) == len(pieces)
    broken = httpx.post(f"{server.url}/chat/{path}", json={"input": "break"}).text
    assert sse(broken)[-1][0] == "error"


def test_who_leaves_a_view_from_inside_ends_the_run(server: ServeProcess) -> None:
    body = {"input": "slow inside-leave"}
    with httpx.stream("POST", f"{server.url}/chat/stream_events", json=body) as response:
        next(response.iter_bytes())
        server.wait_for_mark("begin-inside-leave")
    server.wait_for_mark("cut-inside-leave", 5)


def test_what_is_seen_inside_can_be_filtered(server: ServeProcess) -> None:
    body = {"input": {"topic": "Mars"}, "include_types": ["chat_model"]}
    events = sse(httpx.post(f"{server.url}/chain/stream_events", json=body).text)
    names = {data["event"] for name, data in events if name == "data"}
    assert names == {"on_chat_model_start", "on_chat_model_stream", "on_chat_model_end"}
    wrong_body = {"input": {"topic": "x"}, "include_types": [3]}
    assert httpx.post(f"{server.url}/chain/stream_events", json=wrong_body).status_code == 400


def test_who_leaves_a_batch_ends_its_runs(server: ServeProcess) -> None:
    body = {"inputs": ["slow batch-leave"] * 2}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/chat/batch", json=body, timeout=1.0)
    server.wait_for_mark("cut-batch-leave", 5)


def test_schemas_are_shown(server: ServeProcess) -> None:
    schema = httpx.get(f"{server.url}/chain/input_schema").json()
    assert schema["required"] == ["topic"]
    assert httpx.get(f"{server.url}/chain/output_schema").json()["type"] == "string"
    assert httpx.get(f"{server.url}/chain/config_schema").status_code == 200
    assert httpx.get(f"{server.url}/nobody/input_schema").status_code == 404


@pytest.mark.slow
def test_simonws_llm_with_a_custom_endpoint(server: ServeProcess, tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: served\n  model_name: chat\n  api_base: {server.url}/v1\n  can_stream: true\n"
    )
    environment = {"LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    output = other_python.run("llm", "-m", "served", "hi", environment=environment)
    assert output.strip() == "Hello there, my friend."


@pytest.mark.slow
def test_simonws_llm_with_a_key_as_documented(keyed: KeyedServer, tmp_path: Path) -> None:
    line = re.search(r"extra-openai-models.yaml`, `(- \{.*\})`", PAGE.read_text())
    command = re.search(r"`llm (keys set \w+ --value) fl_…`", PAGE.read_text())
    assert line is not None
    assert command is not None
    (tmp_path / "extra-openai-models.yaml").write_text(
        line[1]
        .replace("http://127.0.0.1:8000", keyed.url)
        .replace("model_name: fast", "model_name: chat")
    )
    environment = {"LLM_USER_PATH": str(tmp_path)}
    other_python.run("llm", *command[1].split(), keyed.first, environment=environment)
    output = other_python.run("llm", "-m", "served", "hi", environment=environment)
    assert output.strip() == "Hello there, my friend."
