"""Decisions of a person about tool calls: what does not fit leaves the question open, and an approval is used once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from foldline.agents import Command, create_agent
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.checkpoint import BaseCheckpointSaver, InMemorySaver, SqliteSaver
from foldline.exceptions import NothingToResumeError, UsageError
from foldline.graph import START, MessagesState, StateGraph
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import StructuredTool, tool
from foldline.workflows import workflow

THREAD = {"configurable": {"thread_id": "t1"}}
APPROVE = {"type": "approve"}
EDIT = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 7}}}


class Shop:
    """An agent whose tool needs approval, called directly or by a graph or a flow."""

    def __init__(self, saver: BaseCheckpointSaver, face: str = "agent", lasts: float = 0) -> None:
        self.paid: list[int] = []

        @tool
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            time.sleep(lasts)
            return "paid"

        def turn(request: Any) -> Any:
            return (
                "Done."
                if request.messages[-1].type == "tool"
                else [Call("pay", {"amount": 5}, id="c1")]
            )

        config: Any = {"pay": {"allowed_decisions": ["approve", "edit", "reject"]}}
        self.saver = saver
        is_agent = face == "agent"
        agent = create_agent(
            ScriptedChatModel(script=turn),
            [pay],
            middleware=[HumanInTheLoopMiddleware(config)],
            checkpointer=saver if is_agent else None,
        )
        self.program: Any = agent if is_agent else getattr(self, face)(agent)
        self.first: Any = "go" if face == "flow" else {"messages": [("user", "go")]}

    def graph(self, agent: Any) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("agent", agent)
        builder.add_edge(START, "agent")
        return builder.compile(checkpointer=self.saver)

    def flow(self, agent: Any) -> Any:
        @workflow(checkpointer=self.saver)
        def run(name: str) -> str:
            return str(agent.invoke(name)["messages"][-1].text)

        return run

    def log(self) -> list[str]:
        return [entry.body for entry in self.saver.read("t1", "")]


@pytest.fixture(params=["agent", "graph", "flow"])
def shop(request: pytest.FixtureRequest) -> Shop:
    return Shop(InMemorySaver(), request.param)


def interrupt_id(result: Any) -> str:
    (question,) = result["__interrupt__"]
    return str(question.id)


@pytest.mark.parametrize("form", ["list", "dict", "by id"])
@pytest.mark.parametrize(
    ("decisions", "match"),
    [
        ([], "1 decisions are needed and 0"),
        ([APPROVE, APPROVE], "1 decisions are needed and 2"),
        ([{"type": "respond", "message": "x"}], "'respond' is not allowed for pay"),
        ([{"type": "aprove"}], "'aprove' is not allowed for pay"),
        ([{}], "None is not allowed for pay"),
        (["approve"], "None is not allowed for pay"),
        ([{"type": ["approve"]}], "is not allowed for pay"),
        ([{"type": "edit"}], 'needs "edited_action"'),
        ([{"type": "edit", "edited_action": {"name": "pay"}}], 'needs "edited_action"'),
        ([{"type": "edit", "edited_action": {"name": 1, "args": {}}}], 'needs "edited_action"'),
        ([{"type": "edit", "edited_action": {"name": "pay", "args": [7]}}], 'needs "edited'),
    ],
)
def test_AH3_decisions_that_do_not_fit_write_nothing_and_leave_the_question_open(
    call, shop, form, decisions, match
):
    id = interrupt_id(call.invoke(shop.program, shop.first, THREAD))
    answer = decisions if form == "list" else {"decisions": decisions}
    before = shop.log()

    with pytest.raises(UsageError, match=match):
        call.invoke(
            shop.program, Command(resume={id: answer} if form == "by id" else answer), THREAD
        )

    assert (shop.paid, shop.log()) == ([], before)
    call.invoke(shop.program, Command(resume={"decisions": [EDIT]}), THREAD)
    assert shop.paid == [7]


@pytest.mark.parametrize(
    ("action", "match"),
    [
        ({"name": "pay", "args": {"amount": "much"}}, "the edited arguments of pay do not fit"),
        ({"name": "pay", "args": {}}, "the edited arguments of pay do not fit"),
        ({"name": "pai", "args": {"amount": 7}}, "there is no tool 'pai'"),
    ],
)
def test_AH3_an_edit_that_does_not_fit_the_tool_writes_nothing_and_leaves_the_question_open(
    call, action, match
):
    shop = Shop(InMemorySaver())
    call.invoke(shop.program, shop.first, THREAD)
    before = shop.log()

    with pytest.raises(UsageError, match=match):
        call.invoke(
            shop.program, Command(resume=[{"type": "edit", "edited_action": action}]), THREAD
        )

    assert (shop.paid, shop.log()) == ([], before)
    assert call.run(shop.program, "get_state", THREAD).interrupts
    call.invoke(shop.program, Command(resume=[APPROVE]), THREAD)
    assert shop.paid == [5]


def test_AH3_an_edit_is_checked_against_a_schema_that_is_plain_json(call):
    paid: list[Any] = []
    pay = StructuredTool(
        name="pay",
        description="Pay.",
        func=lambda amount: paid.append(amount),
        args_schema={
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"],
        },
    )
    agent = create_agent(
        ScriptedChatModel(script=[[Call("pay", {"amount": 5}, id="c1")], "Done."]),
        [pay],
        middleware=[HumanInTheLoopMiddleware({"pay": True})],
        checkpointer=InMemorySaver(),
    )
    call.invoke(agent, "go", THREAD)

    wrong = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": "much"}}}
    with pytest.raises(UsageError, match="the edited arguments of pay do not fit"):
        call.invoke(agent, Command(resume=[wrong]), THREAD)
    call.invoke(agent, Command(resume=[EDIT]), THREAD)

    assert paid == [7]


@pytest.mark.parametrize("face", ["agent", "graph", "flow"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("second", [APPROVE, {"type": "aprove"}], ids=["right", "wrong"])
def test_AH3_a_second_approval_while_the_tool_runs_runs_nothing(
    call, tmp_path, face, store, second
):
    saver = InMemorySaver() if store == "memory" else SqliteSaver(tmp_path / "threads.db")
    shop = Shop(saver, face, lasts=0.5)
    call.invoke(shop.program, shop.first, THREAD)
    results: list[Any] = []

    def approve() -> None:
        results.append(shop.program.invoke(Command(resume=[APPROVE]), THREAD))

    first = threading.Thread(target=approve)
    first.start()
    time.sleep(0.2)
    with pytest.raises(NothingToResumeError, match="was answered at"):
        call.invoke(shop.program, Command(resume=[second]), THREAD)
    first.join()

    assert (shop.paid, len(results)) == ([5], 1)
    saver.close()


@pytest.mark.parametrize("face", ["agent", "graph", "flow"])
def test_AH3_an_answer_waits_for_an_owner_that_may_be_about_to_write_its_own(call, face):
    saver = InMemorySaver()
    shop = Shop(saver, face)
    call.invoke(shop.program, shop.first, THREAD)
    epoch = saver.claim("t1", "slow")
    timer = threading.Timer(1.5, saver.release, ("t1", epoch))
    timer.start()

    call.invoke(shop.program, Command(resume=[APPROVE]), THREAD)

    assert shop.paid == [5]
    timer.join()
