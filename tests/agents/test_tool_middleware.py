"""Middleware that brings tools: search of files, a shell, and the provider's search for tools."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from foldline.agents import create_agent
from foldline.agents.middleware import (
    AgentMiddleware,
    DockerExecutionPolicy,
    FilesystemFileSearchMiddleware,
    HostExecutionPolicy,
    ProviderToolSearchMiddleware,
    RedactionRule,
    ShellToolMiddleware,
)
from foldline.exceptions import UsageError
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI
from foldline.testing import Call as ToolCall, ScriptedChatModel
from foldline.tools import tool
from tests.servers import json_answer
from tests.servers.fixtures import fault_server, fault_server_process
from tests.servers.vendors.anthropic import anthropic
from tests.servers.vendors.openai import responses

__all__ = ["fault_server", "fault_server_process"]

# -- files


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("import os\nname = 'app'\n")
    (root / "src" / "view.ts").write_text("const name = 1\n")
    (root / "notes.md").write_text("name of things\nname again\n")
    (root / "data.bin").write_bytes(b"\xff\xfename")
    secret = tmp_path / "secret.txt"
    secret.write_text("name of the key")
    os.utime(root / "notes.md", (1, 1))
    (root / "link.txt").symlink_to(secret)
    return root


@pytest.fixture(params=[True, False], ids=["rg", "python"])
def search(request, folder):
    if request.param and shutil.which("rg") is None:
        pytest.skip("rg is not installed")
    middleware = FilesystemFileSearchMiddleware(root_path=folder, use_ripgrep=request.param)
    return lambda which, **arguments: getattr(middleware, which).invoke(arguments)


def test_files_are_found_by_name_the_newest_first(search):
    assert search("glob_search", pattern="**/*.py") == "/src/app.py"
    assert search("glob_search", pattern="**/*").splitlines()[-1] == "/notes.md"
    assert search("glob_search", pattern="*", path="/src").count("\n") == 1
    assert search("glob_search", pattern="*.rs") == "No files found"


def test_lines_are_found_by_an_expression(search):
    assert search("grep_search", pattern="^name").splitlines() == ["/notes.md", "/src/app.py"]
    assert search("grep_search", pattern="name", include="*.{py,ts}", output_mode="content") == (
        "/src/app.py:2:name = 'app'\n/src/view.ts:1:const name = 1"
    )
    assert (
        search("grep_search", pattern="name", path="/notes.md", output_mode="count")
        == "/notes.md:2"
    )
    assert search("grep_search", pattern="nothing") == "No matches found"
    assert search("grep_search", pattern="(").startswith("Invalid regex pattern")


@pytest.mark.parametrize("path", ["/..", "../", "/src/../..", "~", "/link.txt"])
def test_nothing_outside_of_the_folder_is_seen(search, path):
    assert search("grep_search", pattern="key", path=path) == "No matches found"
    assert search("glob_search", pattern="*.txt", path=path) == "No files found"
    assert search("glob_search", pattern="../*.txt") == "No files found"
    assert "link" not in search("glob_search", pattern="*")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        FilesystemFileSearchMiddleware(root_path=tmp_path / "none")


def test_an_agent_searches(call, folder):
    model = ScriptedChatModel(script=[[ToolCall("grep_search", {"pattern": "import"})], "found"])
    agent = create_agent(model, [], middleware=[FilesystemFileSearchMiddleware(root_path=folder)])

    state = call.invoke(agent, {"messages": [("user", "where?")]})

    assert state["messages"][-2].content == "/src/app.py"


# -- a shell


def shell(call, middleware, *commands):
    """Let an agent run commands; return the results."""
    script = [
        [ToolCall("shell", command if isinstance(command, dict) else {"command": command})]
        for command in commands
    ]
    agent = create_agent(ScriptedChatModel(script=[*script, "done"]), [], middleware=[middleware])
    state = call.invoke(agent, {"messages": [("user", "go")]})
    assert "shell_session" not in state
    return [message.content for message in state["messages"] if message.type == "tool"]


def test_a_shell_stays_open_for_the_run_and_ends_with_it(call, no_leaks):
    middleware = ShellToolMiddleware(env={"PATH": os.environ["PATH"], "GREETING": "hi"})
    outputs = shell(
        call, middleware, "cd / && x=3", 'echo "$GREETING $x $PWD"', "pwd; echo bad >&2; false"
    )

    assert outputs == ["<no output>", "hi 3 /", "/\n[stderr] bad\nExit code: 1"]
    assert middleware._open == {}


def test_the_commands_around_a_session_run_in_its_folder(call, tmp_path):
    middleware = ShellToolMiddleware(
        tmp_path, startup_commands="echo began > log", shutdown_commands=["echo ended >> log"]
    )

    assert shell(call, middleware, "cat log") == ["began"]
    assert (tmp_path / "log").read_text() == "began\nended\n"


def test_a_folder_of_its_own_is_removed(call):
    (place,) = shell(call, ShellToolMiddleware(), "pwd")

    assert not Path(place).exists()


def test_a_command_that_takes_too_long_costs_the_shell(call):
    policy = HostExecutionPolicy(command_timeout=0.3, termination_timeout=1)
    start = time.monotonic()
    outputs = shell(
        call, ShellToolMiddleware(execution_policy=policy), "x=1; echo begun; sleep 60", "echo [$x]"
    )

    assert outputs[0].startswith("begun\nThe command took more than 0.3 seconds")
    assert outputs[1] == "[]"
    assert time.monotonic() - start < 20


def test_a_shell_that_ends_begins_anew(call):
    outputs = shell(call, ShellToolMiddleware(), "exit 3", "echo new", {"restart": True}, {})

    assert outputs[0] == "<no output>\nThe shell ended; the next command begins a new one."
    assert outputs[1:] == [
        "new",
        "The shell was restarted.",
        "Give command, or restart: true, and not both.",
    ]


def test_output_is_cut_and_redacted(call):
    policy = HostExecutionPolicy(max_output_lines=2, max_output_bytes=20)
    rules = [RedactionRule("email")]
    middleware = ShellToolMiddleware(execution_policy=policy, redaction_rules=rules)

    outputs = shell(call, middleware, "seq 5", "echo me@example.com", "printf '%050d' 1")

    assert outputs[0] == "1\n2\n3 more lines were left out."
    assert outputs[1] == "[REDACTED_EMAIL]"
    assert outputs[2].endswith("30 more bytes were left out.")


def test_what_two_runs_do_is_apart(call):
    middleware = ShellToolMiddleware()

    assert shell(call, middleware, "x=1") == ["<no output>"]
    assert shell(call, middleware, "echo [$x]") == ["[]"]


def test_a_startup_command_that_fails_is_named(call):
    with pytest.raises(UsageError, match="'false' of the shell ended with 1"):
        shell(call, ShellToolMiddleware(startup_commands=["false"]), "echo hi")


def test_memory_is_bounded_on_this_machine(call):
    policy = HostExecutionPolicy(memory_bytes=200 * 1024 * 1024, cpu_time_seconds=20)
    outputs = shell(call, ShellToolMiddleware(execution_policy=policy), "ulimit -v; ulimit -t")

    assert outputs == [f"{200 * 1024}\n20"]


def test_a_container_gets_its_bounds_on_the_command_line(tmp_path):
    policy = DockerExecutionPolicy(
        memory_bytes=1024, read_only_rootfs=True, user="nobody", binary="no-docker"
    )
    line = policy.arguments(tmp_path, {"A": "b"}, ["/bin/sh"])

    assert line[:3] == ["no-docker", "run", "-i"]
    assert line[-2:] == ["python:3.12-alpine3.19", "/bin/sh"]
    for pair in (["--network", "none"], ["--memory", "1024"], ["--user", "nobody"], ["-e", "A=b"]):
        assert line[line.index(pair[0]) + 1] == pair[1]
    with pytest.raises(UsageError, match="not on PATH"):
        policy.spawn(workspace=tmp_path, env={}, command=["/bin/sh"])


# -- the provider's search for tools


@tool
def lookup_order(order: str) -> str:
    """Look an order up."""
    return "sent"


@tool
def say(text: str) -> str:
    """Say."""
    return text


def sent_tools(call, fault_server, model, path, answer):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "hi"}
    _, content = answer(body)
    fault_server.script(path, json_answer(json.loads(content)))
    search = ProviderToolSearchMiddleware(searchable_tools=[lookup_order])
    call.invoke(
        create_agent(model, [lookup_order, say], middleware=[search]),
        {"messages": [("user", "hi")]},
    )
    return fault_server.requests()[0].json()["tools"]


def test_anthropic_searches_deferred_tools(call, fault_server):
    model = ChatAnthropic(model="claude-opus-4-8", api_key="k", base_url=fault_server.url)
    tools = sent_tools(call, fault_server, model, "/v1/messages", anthropic)

    assert [(tool["name"], tool.get("defer_loading")) for tool in tools] == [
        ("lookup_order", True),
        ("say", None),
        ("tool_search_tool_bm25", None),
    ]


def test_openai_searches_deferred_tools(call, fault_server):
    model = ChatOpenAI(model="gpt-5.5", api_key="k", base_url=f"{fault_server.url}/v1")
    tools = sent_tools(call, fault_server, model, "/v1/responses", responses)

    assert [(tool.get("name"), tool.get("defer_loading")) for tool in tools] == [
        ("lookup_order", True),
        ("say", None),
        (None, None),
    ]
    assert tools[-1] == {"type": "tool_search"}


def test_a_provider_without_a_search_is_refused(call):
    model = ScriptedChatModel(script=["hi"])
    search = ProviderToolSearchMiddleware(searchable_tools=["lookup_order"])
    agent = create_agent(model, [lookup_order], middleware=[search])

    with pytest.raises(UsageError, match="no search for tools"):
        call.invoke(agent, {"messages": [("user", "hi")]})
    plain = create_agent(model, [say], middleware=[ProviderToolSearchMiddleware()])
    assert call.invoke(plain, {"messages": [("user", "hi")]})["messages"][-1].text == "hi"


def test_all_of_them_are_middleware():
    for middleware in (
        ShellToolMiddleware,
        FilesystemFileSearchMiddleware,
        ProviderToolSearchMiddleware,
    ):
        assert issubclass(middleware, AgentMiddleware)
