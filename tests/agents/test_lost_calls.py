"""Calls that began and have no result, for the process died: which run again, and with which key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foldline.agents import Command, create_agent
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.checkpoint import Entry, InMemorySaver, SqliteSaver
from foldline.exceptions import UsageError
from foldline.messages import ToolMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.utils.function_calling import convert_to_openai_tool

THREAD = {"configurable": {"thread_id": "t1"}}
APPROVE = Command(resume={"decisions": [{"type": "approve"}]})

PROGRAM = """
import os, sys
from pathlib import Path
from typing import Any

from foldline.agents import Command, create_agent
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.checkpoint import SqliteSaver
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import idempotency_key

KINDS: Any = {"plain": {}, "once": {"run_once": True}, "reading": {"extras": {"read_only": True}}}


def agent_of(folder, kind, on_lost_call, *, dies, approval=True):
    @tool(**KINDS[kind])
    def pay(amount: int) -> str:
        "Pay."
        with (folder / "effects").open("a") as file:
            print(idempotency_key(), file=file)
        if dies:
            os._exit(9)
        return "paid"

    def turn(request):
        is_paid = request.messages[-1].type == "tool"
        return "Done." if is_paid else [Call("pay", {"amount": 5}, id="c1")]

    asking = [HumanInTheLoopMiddleware({"pay": True})] if approval else []
    saver = SqliteSaver(folder / "threads.db")
    return create_agent(
        ScriptedChatModel(script=turn), [pay], middleware=asking, checkpointer=saver, on_lost_call=on_lost_call
    )


if __name__ == "__main__":
    folder, kind, on_lost_call, approval = Path(sys.argv[1]), *sys.argv[2:]
    agent = agent_of(folder, kind, on_lost_call, dies=True, approval=approval == "True")
    thread = {"configurable": {"thread_id": "t1"}}
    agent.invoke("pay", thread)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
"""


def killed(folder: Path, kind: str, on_lost_call: str, *, approval: bool) -> Any:
    """Run the program in a process that dies in its tool; return its agent for this process."""
    arguments = [str(folder), kind, on_lost_call, str(approval)]
    process = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False)
    assert process.returncode == 9
    names: dict[str, Any] = {"__name__": "program"}
    exec(PROGRAM, names)
    return names["agent_of"](folder, kind, on_lost_call, dies=False, approval=approval)


def kinds_in(saver: Any) -> list[str]:
    return [json.loads(entry.body)["kind"] for entry in saver.read("t1", "")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "on_lost_call", "approval", "runs_again"),
    [
        ("plain", "again", True, True),
        ("plain", "unknown", True, False),
        ("plain", "unknown", False, False),
        ("once", "again", True, False),
        ("reading", "unknown", True, True),
    ],
)
def test_AH2_a_call_that_was_lost_with_its_process_runs_again_if_it_may_with_the_same_key(
    call, tmp_path, kind, on_lost_call, approval, runs_again
):
    agent = killed(tmp_path, kind, on_lost_call, approval=approval)

    result = call.invoke(agent, None, THREAD)

    keys = (tmp_path / "effects").read_text().splitlines()
    (message,) = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert len(keys) == (2 if runs_again else 1)
    assert len(set(keys)) == 1
    assert message.status == ("success" if runs_again else "error")
    assert ("whether it took effect is not known" in str(message.text)) is not runs_again
    assert result["messages"][-1].text == "Done."


def paying_agent(saver: Any, options: dict[str, Any], **more: Any) -> Any:
    @tool(**options)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedChatModel(script=[[Call("pay", {"amount": 5}, id="c1")], "Done."])
    asking = HumanInTheLoopMiddleware({"pay": True})
    return create_agent(model, [pay], middleware=[asking], checkpointer=saver, **more)


def test_AH2_an_approved_call_is_recorded_before_it_runs_with_its_tool_and_arguments(call):
    saver = InMemorySaver()
    agent = paying_agent(saver, {})
    call.invoke(agent, "pay", THREAD)
    call.invoke(agent, APPROVE, THREAD)

    kinds = kinds_in(saver)
    record = json.loads(saver.read("t1", "")[kinds.index("call")].body)
    assert kinds.index("resume") < kinds.index("call") < kinds.index("tool")
    assert (record["place"], record["tool"], record["args"]) == ("c1", "pay", {"amount": 5})


def test_AH11_a_call_of_a_tool_that_only_reads_is_not_recorded_before_it_runs(call):
    saver = InMemorySaver()
    agent = paying_agent(saver, {"extras": {"read_only": True}}, on_lost_call="unknown")
    call.invoke(agent, "pay", THREAD)
    result = call.invoke(agent, APPROVE, THREAD)

    assert "call" not in kinds_in(saver)
    assert result["messages"][-1].text == "Done."


def test_AH11_what_agents_know_of_a_tool_is_not_sent_to_a_model():
    @tool(extras={"read_only": True})
    def look() -> str:
        """Look."""
        return "seen"

    assert "read_only" not in json.dumps(convert_to_openai_tool(look))


def test_AH2_a_call_under_its_old_name_start_is_read(call, tmp_path):
    saver = SqliteSaver(tmp_path / "threads.db")
    agent = paying_agent(saver, {"run_once": True})
    call.invoke(agent, "pay", THREAD)
    last = saver.read("t1", "")[-1]
    step = json.loads(last.body)["step"]
    (question,) = json.loads(last.body)["interrupts"]
    body = {"v": 1, "step": step, "at": "2026-01-01T00:00:00+00:00"}
    answers = {question[0]: {"decisions": [{"type": "approve"}]}}
    resume = Entry("r", last.id, json.dumps({**body, "kind": "resume", "answers": answers}))
    start = Entry("s", "r", json.dumps({**body, "kind": "start", "call_id": "c1"}))
    saver.append("t1", "", [resume, start], after=last.id)

    result = call.invoke(agent, None, THREAD)

    assert "whether it took effect is not known" in str(result["messages"][-2].text)
    saver.close()


def test_AH2_a_tool_that_may_not_run_again_does_not_start_before_its_message_is_complete(call):
    @tool(eager=True)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedChatModel(script=["Done."])
    assert create_agent(model, [pay]).setup.eager == {"pay"}
    assert create_agent(model, [pay], on_lost_call="unknown").setup.eager == set()


def test_AH2_what_happens_to_a_lost_call_is_one_of_two_words():
    with pytest.raises(UsageError, match="again"):
        create_agent(ScriptedChatModel(script=["Done."]), on_lost_call="ask")  # type: ignore[call-overload]
