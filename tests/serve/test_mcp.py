"""`/mcp` with the client of the published `mcp` package: apps as tools."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from foldline.tools.mcp import load_mcp_tools
from tests.serve.process import ServeProcess

mcp = pytest.importorskip("mcp")


def test_apps_are_tools(server: ServeProcess) -> None:
    tools = {tool.name: tool for tool in load_mcp_tools(f"{server.url}/mcp")}
    assert {"chat", "agent", "graph", "chain", "double"} <= set(tools)
    assert "vectors" not in tools
    assert "Hello there, my friend." in str(tools["chat"].invoke({"message": "hi"}))
    assert "Rome is sunny" in str(tools["agent"].invoke({"message": "parallel tools"}))
    assert "Hello there" in str(tools["chain"].invoke({"topic": "Mars"}))


def test_the_session_of_the_published_client(server: ServeProcess) -> None:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def main() -> Any:
        async with (
            streamable_http_client(f"{server.url}/mcp") as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            tool_list = await session.list_tools()
            broken = await session.call_tool("chat", {"message": "break"})
            return tool_list, broken

    tool_list, broken = asyncio.run(main())
    assert any(tool.name == "chat" for tool in tool_list.tools)
    assert getattr(broken, "is_error", getattr(broken, "isError", None)) is True


def test_other_methods_are_errors_of_json_rpc(server: ServeProcess) -> None:
    url = f"{server.url}/mcp"
    assert httpx.get(url).status_code == 405
    request = {"jsonrpc": "2.0", "id": 7, "method": "resources/list"}
    assert httpx.post(url, json=request).json()["error"]["code"] == -32601
    assert httpx.post(url, json={"jsonrpc": "2.0", "method": "ping"}).status_code == 202


def test_a_rate_limit_is_an_error_of_the_tool(server: ServeProcess) -> None:
    params = {"name": "chat", "arguments": {"message": "rate limit"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    result = httpx.post(f"{server.url}/mcp", json=call).json()["result"]
    assert result["isError"] is True
    assert "too many requests" in result["content"][0]["text"]


def test_leaving_ends_the_run(server: ServeProcess) -> None:
    params = {"name": "chat", "arguments": {"message": "slow mcp-leave"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/mcp", json=call, timeout=1.0)
    server.wait_for_mark("cut-mcp-leave", 5)


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", -32700), (b"[]", -32600), (b'"x"', -32600), (b'{"id": 1}', -32600)]
)
def test_S54_what_is_no_json_rpc_is_a_bad_request(
    server: ServeProcess, body: bytes, code: int
) -> None:
    answer = httpx.post(f"{server.url}/mcp", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
