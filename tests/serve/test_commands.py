"""Commands and checkpoints of LangGraph's clients: what does not fit is told as a mistake of the request."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.agents import create_agent
from foldline.checkpoint.memory import InMemorySaver
from foldline.graph import END, START, MessagesState, StateGraph
from foldline.messages import AIMessage
from foldline.serve import create_app
from foldline.testing import ScriptedChatModel
from foldline.workflows import workflow

INPUT = {"messages": [["user", "hi"]]}


async def speak(state: MessagesState) -> Any:
    return {"messages": [AIMessage(f"after {len(state['messages'])}")]}


def serve(tmp_path: Path) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("speak", speak)
    builder.add_edge(START, "speak")
    builder.add_edge("speak", END)
    agent = create_agent(ScriptedChatModel(script=["x"]), [], checkpointer=InMemorySaver())
    apps = {"graph": builder.compile(checkpointer=InMemorySaver()), "agent": agent}
    return create_app(apps, log=str(tmp_path / "runs.db"), studio=False)


def talk(app: Any, *requests: tuple[str, str, Any]) -> list[httpx.Response]:
    async def main() -> list[httpx.Response]:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://localhost"
            ) as client,
        ):
            return [
                await client.request(method, path, json=body) for method, path, body in requests
            ]

    return asyncio.run(main())


def run(name: str, body: Any, path: str = "/threads/t/runs/wait") -> tuple[str, str, Any]:
    return "POST", path, {"assistant_id": name, "if_not_exists": "create", **body}


COMMANDS: list[tuple[Any, str]] = [
    ({"goto": "nowhere"}, "leads to 'nowhere'|passed to an agent"),
    ({"goto": 3}, "command.goto must be a node"),
    ({"goto": [[]]}, "command.goto must be a node"),
    ({"goto": {"node": 3}}, "command.goto must be a node"),
    ({"goto": {"node": "nowhere", "input": 1}}, "leads to 'nowhere'|passed to an agent"),
    ({"update": {"nonsense": 1}}, "not a key of the state"),
    ({"update": 3}, "list of pairs"),
    ({"update": {"messages": 3}}, "is no message"),
    ({"update": {"messages": [{"role": "bogus", "content": "x"}]}}, "bogus"),
    ({"resume": 1, "update": {"nonsense": 1}}, "not a key of the state"),
    ({"graph": "__parent__"}, "command.graph is for nodes"),
]
"""What does not fit, and what the client gets to read."""


@pytest.mark.parametrize("is_used", [False, True], ids=["new thread", "used thread"])
@pytest.mark.parametrize("name", ["graph", "agent"])
def test_S47_a_command_that_does_not_fit_is_a_400_before_the_run(
    tmp_path: Path, name: str, is_used: bool
) -> None:
    before = [run(name, {"input": INPUT})] if is_used else []
    requests = [run(name, {"command": command}) for command, _ in COMMANDS]
    answers = talk(serve(tmp_path), *before, *requests, ("GET", "/runs", None))

    for (command, text), answer in zip(COMMANDS, answers[len(before) : -1], strict=True):
        assert answer.status_code == 400, command
        assert answer.json()["error"] == "invalid_request", command
        assert re.search(text, answer.json()["message"]), answer.text
    assert len(answers[-1].json()["runs"]) == len(before)


@pytest.mark.parametrize("path", ["/threads/t/runs", "/threads/t/runs/stream", "/runs/wait"])
def test_S47_a_command_that_does_not_fit_starts_nothing_on_any_path(
    tmp_path: Path, path: str
) -> None:
    command = {"command": {"update": {"nonsense": 1}}}
    answers = talk(serve(tmp_path), run("graph", command, path), ("GET", "/runs", None))
    assert (answers[0].status_code, answers[1].json()["runs"]) == (400, [])


def test_S47_a_command_of_the_thread_protocol_is_checked_too(tmp_path: Path) -> None:
    params = {"assistant_id": "graph", "command": {"goto": "nowhere"}}
    body = {"id": 1, "method": "run.start", "params": params}
    (answer,) = talk(serve(tmp_path), ("POST", "/threads/t/commands", body))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "goto", ["speak", ["speak"], {"node": "speak", "input": INPUT}, [{"node": "speak", "input": INPUT}]]
)  # fmt: skip
def test_a_command_leads_to_nodes_and_sends_inputs_as_langgraphs_clients_write_them(
    tmp_path: Path, goto: Any
) -> None:
    update = {"messages": [["user", "one"]]}
    (answer,) = talk(serve(tmp_path), run("graph", {"command": {"update": update, "goto": goto}}))
    texts = [message["content"] for message in answer.json()["messages"]]
    assert texts[0] == "one"
    assert "after 1" in texts


@pytest.mark.parametrize("is_used", [False, True], ids=["new thread", "used thread"])
@pytest.mark.parametrize("name", ["graph", "agent"])
def test_S47a_an_unknown_checkpoint_has_a_code_of_its_own(
    tmp_path: Path, name: str, is_used: bool
) -> None:
    bodies: list[Any] = [
        {"input": INPUT, "checkpoint_id": "nope"},
        {"input": INPUT, "checkpoint_id": "no\x00pe"},
        {"checkpoint": {"checkpoint_id": "nope"}},
        {"command": {"resume": 1}, "checkpoint_id": "nope"},
    ]
    before = [run(name, {"input": INPUT})] if is_used else []
    answers = talk(serve(tmp_path), *before, *(run(name, body) for body in bodies))
    codes = [answer.json()["__error__"]["error"] for answer in answers[len(before) :]]
    assert codes == ["unknown_checkpoint"] * len(bodies)


def test_S47a_an_unknown_checkpoint_has_one_code_where_states_are_read_and_changed(
    tmp_path: Path,
) -> None:
    answers = talk(
        serve(tmp_path),
        run("graph", {"input": INPUT}),
        ("GET", "/threads/t/state/nope", None),
        ("POST", "/threads/t/state", {"values": {}, "checkpoint_id": "nope"}),
        run("graph", {"input": INPUT, "checkpoint_id": "nope"}, "/threads/t/runs/stream"),
    )
    found = [(answer.status_code, answer.json()["error"]) for answer in answers[1:3]]
    assert found == [(404, "unknown_checkpoint")] * 2
    assert '"error":"unknown_checkpoint"' in answers[3].text


@pytest.mark.parametrize("name", ["graph", "agent"])
def test_S47_a_change_of_a_state_that_does_not_fit_is_a_400(tmp_path: Path, name: str) -> None:
    changes: list[Any] = [
        {"values": {"nonsense": 1}},
        {"values": 3},
        {"values": [1]},
        {"values": {"messages": 3}},
        {"values": {"nonsense": 1}, "as_node": "nowhere"},
        *([{"values": {}, "as_node": "nowhere"}] if name == "graph" else ()),
    ]
    requests = [("POST", "/threads/t/state", change) for change in changes]
    answers = talk(serve(tmp_path), run(name, {"input": INPUT}), *requests)[1:]
    found = [(answer.status_code, answer.json()["error"]) for answer in answers]
    assert found == [(400, "invalid_request")] * len(changes)


def test_S47_a_model_and_a_flow_take_no_command_that_changes_their_state(tmp_path: Path) -> None:
    @workflow(checkpointer=InMemorySaver())
    def flow(text: str) -> str:
        return text

    apps = {"model": ScriptedChatModel(script=["x"]), "flow": flow}
    app = create_app(apps, log=str(tmp_path / "runs.db"), studio=False)
    answers = talk(
        app, *(run(name, {"command": {"update": {"x": 1}}}, "/runs/wait") for name in apps)
    )
    found = [(answer.status_code, answer.json()["error"]) for answer in answers]
    assert found == [(400, "invalid_request")] * 2
