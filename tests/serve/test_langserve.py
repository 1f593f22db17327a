"""LangServe's routes with LangServe's own client, and `/v1` with simonw's `llm`, in an environment of their own."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.serve import other_python
from tests.serve.process import ServeProcess
from tests.serve.served import SECRET


def test_langserves_own_client(server: ServeProcess) -> None:
    script = Path(__file__).parent / "langserve_client.py"
    text = other_python.run("python", str(script), server.url)
    result = json.loads(text.strip().splitlines()[-1])
    hello = "Hello there, my friend."
    assert result["chain"] == hello
    assert "".join(result["stream"]) == hello
    assert len(result["stream"]) >= 4
    assert result["batch"] == [hello, hello]
    assert result["double"] == 42
    assert result["model"] == ["AIMessage", hello]
    assert result["tools"] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert result["usage"] == 18
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


def test_schemas_are_shown(server: ServeProcess) -> None:
    given = httpx.get(f"{server.url}/chain/input_schema").json()
    assert given["required"] == ["topic"]
    assert httpx.get(f"{server.url}/chain/output_schema").json()["type"] == "string"
    assert httpx.get(f"{server.url}/chain/config_schema").status_code == 200
    assert httpx.get(f"{server.url}/nobody/input_schema").status_code == 404


def test_simonws_llm_with_a_custom_endpoint(server: ServeProcess, tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: served\n  model_name: chat\n  api_base: {server.url}/v1\n  can_stream: true\n"
    )
    environment = {"LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    said = other_python.run("llm", "-m", "served", "hi", environment=environment)
    assert said.strip() == "Hello there, my friend."
