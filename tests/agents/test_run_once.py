"""A tool that must not run twice, in a process that dies while it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from foldline.agents import Command, create_agent, interrupt
from foldline.agents.checkpoint import InMemorySaver, SqliteSaver
from foldline.messages import ToolMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool

THREAD = {"configurable": {"thread_id": "t1"}}

PROGRAM = """
import os, sys
from pathlib import Path
from foldline.agents import create_agent
from foldline.agents.checkpoint import SqliteSaver
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool

folder, once = Path(sys.argv[1]), sys.argv[2] == "once"

@tool(run_once=once)
def pay(amount: int) -> str:
    "Pay."
    with (folder / "paid").open("a") as file:
        file.write("x")
    os._exit(9)

model = ScriptedChatModel(script=[[Call("pay", {"amount": 5}, id="c1")]])
agent = create_agent(model, [pay], checkpointer=SqliteSaver(folder / "threads.db"))
agent.invoke("pay", {"configurable": {"thread_id": "t1"}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("once", [True, False])
def test_a_tool_whose_result_was_lost_with_the_process_runs_again_only_if_it_may(
    call, tmp_path: Path, once
):
    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "once" if once else "again"], check=False
    )
    assert killed.returncode == 9

    @tool(run_once=once)
    def pay(amount: int) -> str:
        """Pay."""
        with (tmp_path / "paid").open("a") as file:
            file.write("x")
        return "paid"

    saver = SqliteSaver(tmp_path / "threads.db")
    agent = create_agent(ScriptedChatModel(script=["done"]), [pay], checkpointer=saver)
    result = call.invoke(agent, None, THREAD)

    (message,) = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert result["messages"][-1].text == "done"
    assert (tmp_path / "paid").read_text() == ("x" if once else "xx")
    assert message.status == ("error" if once else "success")
    assert ("whether it took effect is not known" in str(message.text)) is once


def test_a_tool_that_runs_once_may_ask_a_person_and_goes_on(call):
    paid = []

    @tool(run_once=True)
    def pay(amount: int) -> str:
        """Pay."""
        answer = interrupt("sure?")
        paid.append(amount)
        return str(answer)

    model = ScriptedChatModel(script=[[Call("pay", {"amount": 5})], "done"])
    agent = create_agent(model, [pay], checkpointer=InMemorySaver())

    call.invoke(agent, "pay", THREAD)
    result = call.invoke(agent, Command(resume="yes"), THREAD)

    assert (paid, result["messages"][-1].text) == ([5], "done")


def test_a_tool_that_runs_once_is_called_as_often_as_the_model_calls_it(call):
    paid = []

    @tool(run_once=True, eager=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    twice = [Call("pay", {"amount": 1}), Call("pay", {"amount": 2})]
    model = ScriptedChatModel(script=[twice, [Call("pay", {"amount": 3})], "done"])
    agent = create_agent(model, [pay], checkpointer=InMemorySaver())

    call.invoke(agent, "pay", THREAD)

    assert sorted(paid) == [1, 2, 3]
