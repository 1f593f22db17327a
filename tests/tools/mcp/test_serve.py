"""Tools of foldline served by a real process to the official client."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters

from foldline.exceptions import SecurityError, UsageError
from foldline.tools import tool
from foldline.tools.mcp import MCPClient, aserve_mcp, mcp_app, mcp_server

SCRIPT = str(Path(__file__).parent / "foldline_server.py")


@pytest.fixture(params=["stdio", "http"])
def address(request, woven) -> Any:
    if request.param == "http":
        return woven.url
    return StdioServerParameters(command=sys.executable, args=[SCRIPT, "stdio"])


def ask(address: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    async def body() -> list[Any]:
        async with Client(address) as client:
            tool_list = await client.list_tools()
            return [tool_list.tools, *[await client.call_tool(name, args) for name, args in calls]]

    return asyncio.run(body())


@pytest.mark.slow
def test_the_official_client_lists_and_calls_our_tools(address):
    tools, sum_result, weather = ask(address, ("add", {"a": 3}), ("weather", {"city": "Oslo"}))

    tools_by_name = {tool.name: tool for tool in tools}
    assert tools_by_name["add"].description == "Add two numbers."
    assert tools_by_name["add"].input_schema["required"] == ["a"]
    assert tools_by_name["weather"].input_schema["properties"]["city"]["description"] == "where"
    assert (sum_result.content[0].text, sum_result.is_error) == ("5", False)
    assert weather.structured_content == {"city": "Oslo", "degrees": 21}


def test_injected_arguments_are_the_servers(address):
    tools, honest, forged = ask(
        address, ("secret", {"question": "q"}), ("secret", {"question": "q", "token": "forged"})
    )

    assert list({tool.name: tool for tool in tools}["secret"].input_schema["properties"]) == [
        "question"
    ]
    assert honest.content[0].text == forged.content[0].text == "q real"


def test_failures_are_results_that_the_model_can_read_and_tell_no_secrets(address):
    _, invalid, unknown, polite, rude, absent = ask(
        address,
        ("add", {"a": "x"}),
        ("add", {"a": 1, "zzz": 2}),
        ("fail", {"how": "politely"}),
        ("fail", {"how": "rudely"}),
        ("absent", {}),
    )

    assert all(result.is_error for result in (invalid, unknown, polite, rude, absent))
    assert "a: Input should be a valid integer" in invalid.content[0].text
    assert "zzz: add takes no such argument" in unknown.content[0].text
    assert polite.content[0].text == "no such city"
    assert rude.content[0].text == "fail failed (ValueError)"
    assert "no tool named 'absent'" in absent.content[0].text


@pytest.mark.slow
def test_blocks_are_content(address):
    _, result = ask(address, ("picture", {}))

    assert [block.type for block in result.content] == ["text", "image"]
    assert (result.content[1].data, result.content[1].mime_type) == ("ZGF0YQ==", "image/png")


def test_our_client_and_our_server_understand_each_other(call, woven):
    with MCPClient(woven.url) as client:
        tools = {tool.name: tool for tool in call.run(client, "tools")}
        assert call.invoke(tools["add"], {"a": 1}) == "3"


BODY = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"host": "evil.example:8000"}],
    ids=str,
)
def test_F_V06_a_foreign_host_or_origin_is_refused(woven, headers):
    answer = httpx2.post(woven.url, json=BODY, headers={**HEADERS, **headers}, trust_env=False)

    assert answer.status_code in (403, 421)


def test_F_V01_a_body_too_large_is_refused(woven):
    answer = httpx2.post(woven.url, content=b"x" * 5_000_000, headers=HEADERS, trust_env=False)

    assert answer.status_code == 413


@pytest.mark.parametrize("token", [None, "Bearer wrong", "sesame"], ids=str)
def test_F_V06_without_the_token_nothing_is_served(guarded, token):
    headers = {**HEADERS, **({"authorization": token} if token else {})}

    assert httpx2.post(guarded.url, json=BODY, headers=headers, trust_env=False).status_code == 401


def test_with_the_token_it_is(call, guarded):
    address = {"url": guarded.url, "headers": {"Authorization": "Bearer sesame"}}

    with MCPClient(address) as client:
        assert "add" in {tool.name for tool in call.run(client, "tools")}


@tool
def one() -> str:
    """One."""
    return "1"


def test_beyond_loopback_a_token_is_demanded():
    with pytest.raises(SecurityError, match="open to other machines"):
        mcp_app([one], host="0.0.0.0")
    assert mcp_app([one], host="0.0.0.0", token="t", allowed_hosts=["tools.example"])
    assert mcp_app([one], host="::1")


def test_two_tools_of_one_name_or_an_unknown_transport_are_refused():
    with pytest.raises(UsageError, match="two tools are named 'one'"):
        mcp_server([one, one])
    with pytest.raises(UsageError, match='"stdio" or "http"'):
        asyncio.run(aserve_mcp([one], "carrier pigeon"))  # type: ignore[arg-type]
