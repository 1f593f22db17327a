"""Tools of real MCP servers, written with the official package, in processes of their own."""

from __future__ import annotations

import asyncio
import base64
import gc
import importlib
import json
import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from foldline.exceptions import MissingExtraError, ToolException, UsageError
from foldline.messages import ToolMessage
from foldline.tools import ToolTimeoutError
from foldline.tools.mcp import (
    MCPClient,
    MCPConnectionError,
    MCPTool,
    _package,
    aload_mcp_tools,
    load_mcp_tools,
)
from foldline.utils.function_calling import convert_to_openai_tool

pytestmark = pytest.mark.timing

COMMAND = [sys.executable, str(Path(__file__).parent / "official_server.py"), "stdio"]
DATA = base64.b64encode(b"data").decode()


def calling(name: str, args: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "tool_call", "name": name, "args": args or {}, "id": "call_1"}


@pytest.fixture(scope="module", params=["stdio", "http"])
def client(request, official):
    with MCPClient(COMMAND if request.param == "stdio" else official.url) as client:
        yield client


def tools_of(call: Any, client: MCPClient) -> dict[str, Any]:
    return {tool.name: tool for tool in call.run(client, "tools")}


def test_tools_are_listed_with_their_schemas(call, client):
    tools = tools_of(call, client)

    assert {"add", "structured", "fail", "mixed", "die", "hang"} <= tools.keys()
    assert tools["add"].description == "Add two numbers."
    function = convert_to_openai_tool(tools["add"])["function"]
    assert function["name"] == "add"
    assert function["parameters"]["required"] == ["a"]
    assert function["parameters"]["properties"]["b"]["default"] == 2


def test_a_call_gives_a_message(call, client):
    tools = tools_of(call, client)

    assert call.invoke(tools["add"], {"a": 3}) == "5"
    assert call.invoke(tools["add"], calling("add", {"a": 3, "b": 4})) == ToolMessage(
        "7", name="add", tool_call_id="call_1"
    )


def test_structured_content_is_the_artifact(call, client):
    message = call.invoke(
        tools_of(call, client)["structured"], calling("structured", {"city": "Oslo"})
    )

    assert message.artifact == {"structured_content": {"city": "Oslo", "degrees": 21}}
    assert "Oslo" in message.content


def test_an_error_of_the_server_is_a_message_with_status_error(call, client):
    message = call.invoke(tools_of(call, client)["fail"], calling("fail"))

    assert message.status == "error"
    assert message.content


def test_pictures_sound_and_resources_are_blocks_and_a_link_is_words(call, client):
    message = call.invoke(tools_of(call, client)["mixed"], calling("mixed"))

    assert message.content == [
        {"type": "text", "text": "words"},
        {"type": "image", "base64": DATA, "mime_type": "image/png"},
        {"type": "audio", "base64": DATA, "mime_type": "audio/wav"},
        {"type": "text", "text": "file: file:///etc/passwd"},
        {"type": "text", "text": "memo"},
    ]


def test_arguments_are_checked_before_anything_is_sent(call, client):
    tools = tools_of(call, client)

    for arguments in ({}, {"a": "x"}):
        with pytest.raises(ValidationError):
            call.invoke(tools["add"], arguments)


def test_one_session_serves_threads_and_loops_at_once(client):
    adding = {tool.name: tool for tool in client.tools()}["add"]
    results: list[Any] = []

    async def many() -> list[Any]:
        return await asyncio.gather(*(adding.ainvoke({"a": n}) for n in range(5)))

    def work() -> None:
        results.extend(asyncio.run(many()))
        results.append(adding.invoke({"a": 5}))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(results) == sorted(["2", "3", "4", "5", "6", "7"] * 3)


def is_gone(process: int) -> bool:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{process}").exists()


@pytest.mark.slow
def test_the_server_ends_when_nobody_has_a_tool_of_it_any_more(call):
    process = tools_of(call, MCPClient(COMMAND))["process"]
    number = int(call.invoke(process, {}))

    del process
    gc.collect()

    assert is_gone(number)


@pytest.mark.slow
def test_closing_while_a_call_is_under_way_fails_it_and_does_not_cancel_its_caller(call):
    client = MCPClient(COMMAND)
    hang = tools_of(call, client)["hang"]
    closing = threading.Timer(0.5, client.close)
    closing.start()

    with pytest.raises(MCPConnectionError, match="went away: closed while in use"):
        call.invoke(hang, {"seconds": 20})
    closing.join()


@pytest.mark.slow
def test_the_server_process_is_kept_between_calls_and_ends_with_the_client(call):
    with MCPClient(COMMAND) as client:
        process = tools_of(call, client)["process"]
        first, second = int(call.invoke(process, {})), int(call.invoke(process, {}))
        assert first == second

    assert is_gone(first)


@pytest.mark.slow
def test_a_server_that_dies_in_a_call_is_a_typed_error_and_the_next_call_connects_again(call):
    with MCPClient(COMMAND) as client:
        tools = tools_of(call, client)
        with pytest.raises(MCPConnectionError, match="went away") as excinfo:
            call.invoke(tools["die"], calling("die"))
        assert excinfo.value.server == "official_server.py"
        assert str(pickle.loads(pickle.dumps(excinfo.value))) == str(excinfo.value)

        assert call.invoke(tools["add"], {"a": 1}) == "3"


@pytest.mark.slow
def test_a_server_that_hangs_is_given_up(call):
    with MCPClient(COMMAND, timeout=0.3) as client:
        tools = tools_of(call, client)
        start = time.perf_counter()

        message = call.invoke(tools["hang"], calling("hang", {"seconds": 5}))

        assert message.status == "error"
        assert "did not answer within 0.3 s" in message.content
        tools["hang"].handle_tool_error = False
        with pytest.raises(ToolTimeoutError):
            call.invoke(tools["hang"], {"seconds": 5})
        assert time.perf_counter() - start < 4


ODD = [sys.executable, str(Path(__file__).parent / "odd_server.py")]
NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.slow
def test_a_server_that_does_not_list_its_tools_is_given_up(call):
    with (
        MCPClient([*ODD, "tools/list", "nothing"], timeout=0.5) as client,
        pytest.raises(ToolTimeoutError, match=r"odd_server.py did not answer within 0\.5 s"),
    ):
        call.run(client, "tools")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"tools": "none"}, "tools: Input should be a valid list"),
        ({"tools": [{"name": "add"}]}, r"tools\.0\.inputSchema: Field required"),
        ("pages", "lists its tools on over 1000 pages"),
    ],
)
def test_a_list_of_tools_that_is_none_is_a_typed_error(call, result, problem):
    text = result if isinstance(result, str) else json.dumps(result)
    with (
        MCPClient([*ODD, "tools/list", text]) as client,
        pytest.raises(ToolException, match=f"odd_server.py .*{problem}"),
    ):
        call.run(client, "tools")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({}, "content: Field required"),
        ({"content": [{"type": "text"}]}, "text: Field required"),
        ({"content": [{"type": "hologram"}]}, "Field required"),
    ],
)
def test_an_answer_that_is_none_is_a_message_with_status_error(call, result, problem):
    with MCPClient([*ODD, "tools/call", json.dumps(result)]) as client:
        message = call.invoke(tools_of(call, client)["add"], calling("add"))

    assert message.status == "error"
    assert "odd_server.py sent an answer that is not valid" in message.content
    assert problem in message.content


@pytest.mark.slow
def test_structured_content_that_does_not_fit_its_schema_is_a_message_with_status_error(call):
    tool = {"name": "add", "inputSchema": {"type": "object"}, "outputSchema": NUMBERED}
    with MCPClient([*ODD, "tools/list", json.dumps({"tools": [tool]})]) as client:
        message = call.invoke(tools_of(call, client)["add"], calling("add"))

    assert message.status == "error"
    assert "did not return structured content" in message.content


@pytest.mark.slow
def test_a_cancelled_call_leaves_the_session_usable():
    async def cancel(tools: dict[str, Any]) -> str:
        task = asyncio.ensure_future(tools["hang"].ainvoke({"seconds": 0.5}))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await tools["add"].ainvoke({"a": 1})

    with MCPClient(COMMAND) as client:
        assert asyncio.run(cancel({tool.name: tool for tool in client.tools()})) == "3"


@pytest.mark.slow
@pytest.mark.parametrize(
    "server",
    [["no-such-command-at-all"], [sys.executable, "-c", "pass"], "http://127.0.0.1:9/mcp"],
    ids=["no command", "ends at once", "nobody listens"],
)
def test_a_server_that_cannot_be_reached_is_a_typed_error(call, server, no_leaks):
    with MCPClient(server) as client, pytest.raises(MCPConnectionError):
        call.run(client, "tools")


@pytest.mark.slow
def test_a_server_that_says_nothing_is_given_up(call):
    silent = [sys.executable, "-c", "import time; time.sleep(20)"]

    with (
        MCPClient(silent, connect_timeout=0.5) as client,
        pytest.raises(MCPConnectionError, match=r"took longer than 0\.5 s"),
    ):
        call.run(client, "tools")


@pytest.mark.timing
@pytest.mark.parametrize(
    "silence",
    ["ignores the end", "answers all but initialize"],
)
def test_the_error_of_a_silent_server_does_not_wait_for_its_end(call, silence):
    """A process that ignores its closed pipes and SIGTERM takes the official client four seconds to end."""
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    program = ignore + "while True: time.sleep(9)"
    if silence == "answers all but initialize":
        program = ignore + (
            "import json, sys\n"
            "for line in sys.stdin:\n"
            "    message = json.loads(line)\n"
            "    if 'id' in message and message['method'] != 'initialize':\n"
            "        error = {'code': -32601, 'message': 'Method not found'}\n"
            "        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'error': error}), flush=True)\n"
            "time.sleep(30)"
        )
    importlib.import_module("mcp.client.streamable_http")  # seconds on a busy machine, and once
    start = time.perf_counter()

    with MCPClient([sys.executable, "-c", program], connect_timeout=1) as client:
        with pytest.raises(MCPConnectionError, match=r"took longer than 1 s"):
            call.run(client, "tools")
        assert time.perf_counter() - start < 3.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conect_timeout": 5}, r"no option 'conect_timeout' \(did you mean 'connect_timeout'\?\)"),
        ({"retries": 3}, "no option 'retries': it takes prefix"),
        ({"name": "x"}, "no option 'name'"),
        ({"handle_tool_error": 1.5}, "handle_tool_error"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0, not 0"),
        ({"connect_timeout": "soon"}, "connect_timeout must be a number"),
    ],
)
def test_an_option_that_nobody_takes_is_an_error(options, message):
    with pytest.raises(UsageError, match=message):
        MCPClient(COMMAND, **options)
    with pytest.raises(UsageError, match=message):
        load_mcp_tools(COMMAND, **options)


@pytest.mark.slow
def test_nothing_is_left_behind(call, official, no_leaks):
    for server in (COMMAND, official.url):
        with MCPClient(server) as client:
            assert call.invoke(tools_of(call, client)["add"], {"a": 1}) == "3"


@pytest.mark.slow
def test_several_servers_by_name_prefix_their_tools(call, official):
    servers = {"here": COMMAND, "there": {"url": official.url}}
    tools = (
        asyncio.run(aload_mcp_tools({"mcpServers": servers}))
        if call.is_async
        else load_mcp_tools(servers)
    )
    by_name = {tool.name: tool for tool in tools}

    try:
        assert call.invoke(by_name["here_add"], {"a": 1}) == "3"
        assert call.invoke(by_name["there_add"], {"a": 1}) == "3"
    finally:
        for tool in tools:
            tool._client.close()


@pytest.mark.parametrize(
    "server",
    [
        "ftp://x",
        "python server.py",
        [],
        [1],
        {"url": "nothing"},
        {"args": []},
        {"command": "x", "shell": True},
    ],
    ids=repr,
)
def test_an_address_that_is_none_says_so(server):
    with pytest.raises(UsageError):
        MCPClient(server)


def test_a_tool_of_no_client_says_so(call):
    orphan = MCPTool(name="o", description="d", args_schema={"type": "object"})

    with pytest.raises(UsageError, match="has no MCP client"):
        call.invoke(orphan, {})


def test_a_secret_of_an_address_is_in_no_text():
    client = MCPClient(
        {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer canary"}}
    )

    assert "canary" not in f"{client!r} {client._address!r} {client.server}"


def test_a_missing_package_says_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(MissingExtraError, match=r'pip install "foldline\[mcp\]"'):
        MCPClient(COMMAND)
    with pytest.raises(MissingExtraError):
        _package.import_extra("mcp")


@pytest.mark.slow
def test_a_program_that_closes_nothing_ends_cleanly(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from foldline.tools.mcp import load_mcp_tools\n"
        f"tools = {{tool.name: tool for tool in load_mcp_tools({COMMAND!r})}}\n"
        "print(tools['add'].invoke({'a': 1}))\n"
    )

    outcome = _run([sys.executable, "-W", "error", str(program)])

    assert outcome == (0, "3\n", "")


def _run(command: list[str]) -> tuple[int, str, str]:
    import subprocess

    result = subprocess.run(
        command, capture_output=True, text=True, timeout=50, env=dict(os.environ)
    )
    return result.returncode, result.stdout, result.stderr
