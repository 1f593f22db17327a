"""The model wires with the unmodified AI SDK: `@ai-sdk/openai` (chat and Responses) and `@ai-sdk/anthropic`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve import node
from tests.serve.process import ServeProcess
from tests.serve.served import SECRET

pytestmark = pytest.mark.slow

WIRES = ("chat", "responses", "anthropic")


def run(server: ServeProcess, wire: str, action: str, text: str = "") -> Any:
    return node.run("models.mjs", url=server.url, wire=wire, action=action, text=text)


@pytest.mark.parametrize("wire", WIRES)
def test_text_and_usage(server: ServeProcess, wire: str) -> None:
    for action in ("text", "stream"):
        result = run(server, wire, action, "hi")
        assert result["text"] == "Hello there, my friend."
        assert result["usage"]["inputTokens"] == 11
        assert result["usage"]["outputTokens"] == 7
        assert result["finish"] == "stop"


@pytest.mark.parametrize("wire", ["responses", "anthropic"])
def test_reasoning(server: ServeProcess, wire: str) -> None:
    for action in ("text", "stream"):
        assert run(server, wire, action, "reason")["reasoning"] == "First I think. Then I know."


@pytest.mark.parametrize("wire", WIRES)
def test_parallel_tools_run_in_the_client(server: ServeProcess, wire: str) -> None:
    result = run(server, wire, "tools", "parallel tools")
    assert result["calls"] == ["Oslo", "Rome"]
    assert result["text"] == "The tools said Oslo sunny, Rome sunny."


@pytest.mark.parametrize("wire", WIRES)
def test_a_picture_reaches_the_model(server: ServeProcess, wire: str) -> None:
    assert run(server, wire, "picture")["text"] == "I see image:image/png."


@pytest.mark.parametrize("wire", WIRES)
def test_errors(server: ServeProcess, wire: str) -> None:
    broken = run(server, wire, "stream", "break")
    assert broken["text"] == "So far so "
    assert broken["errors"]
    assert SECRET not in str(broken)
    limited = run(server, wire, "text", "rate limit")
    assert limited["status"] == 429
    assert limited["headers"]["retry-after"] == "7"


@pytest.mark.parametrize("wire", WIRES)
def test_aborting_ends_the_run(server: ServeProcess, wire: str) -> None:
    run(server, wire, "abort", f"slow sdk-{wire}")
    server.wait_for_mark(f"cut-sdk-{wire}", 5)
