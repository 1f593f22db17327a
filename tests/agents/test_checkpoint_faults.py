"""Stores that fail under a run: a killed process, a full disk, a locked file, a server that restarts or is gone.

Each time: a typed error, no torn entry, the transcript on the error, and a thread that can be carried on.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from foldline.agents import create_agent
from foldline.agents.checkpoint import PostgresSaver, SqliteSaver
from foldline.exceptions import StoreError
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from tests.servers.databases import _accepts, wait_until

pytestmark = pytest.mark.timing

THREAD = {"configurable": {"thread_id": "t1"}}

KILLED = """
import os, signal, sys, time
from foldline.agents import create_agent
from foldline.agents.checkpoint import PostgresSaver, SqliteSaver
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool

folder, stage, place = sys.argv[1:]

@tool
def quick() -> str:
    "Finish at once."
    open(f"{folder}/quick", "a").write("x")
    return "quick done"

@tool
def slow() -> str:
    "Take long the first time."
    open(f"{folder}/slow", "a").write("x")
    if stage == "first":
        time.sleep(60)
    return "slow done"

saver = PostgresSaver(place) if "://" in place else SqliteSaver(place)
turns = [[Call("quick", {}), Call("slow", {})], "All done."] if stage == "first" else ["All done."]
agent = create_agent(ScriptedChatModel(script=turns), [quick, slow], checkpointer=saver)
config = {"configurable": {"thread_id": "t1"}}
if stage == "first":
    agent.invoke("go", config)
else:
    print([m.text for m in agent.invoke(None, config)["messages"]])
"""


def kinds(saver):
    """Read the thread's log; an entry that was torn would not parse."""
    return [json.loads(record.body)["kind"] for record in saver.read("t1", "")]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "agents.db")
    url = request.getfixturevalue("postgres_server").url
    PostgresSaver(url).delete_thread("t1")
    return url


@pytest.mark.slow
def test_FK01_a_killed_process_resumes_without_running_a_finished_tool_twice(tmp_path, place):
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    victim = subprocess.Popen([*script, "first", place])
    saver = PostgresSaver(place) if "://" in place else SqliteSaver(place)
    wait_until(lambda: "tool" in kinds(saver) and (tmp_path / "slow").exists(), "the victim")
    victim.kill()
    victim.wait()

    result = subprocess.run(
        [*script, "second", place], capture_output=True, text=True, check=True, timeout=60
    )

    assert "['go', '', 'quick done', 'slow done', 'All done.']" in result.stdout
    assert (tmp_path / "quick").read_text() == "x"
    assert (tmp_path / "slow").read_text() == "xx"


APPROVAL = """
import sys
from foldline.agents import Command, create_agent
from foldline.agents.checkpoint import PostgresSaver, SqliteSaver
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool

stage, place = sys.argv[1:]

@tool
def delete(path: str) -> str:
    "Delete a file."
    return f"deleted {path}"

agent = create_agent(
    ScriptedChatModel(script=[[Call("delete", {"path": "/a"})]] if stage == "ask" else ["All clean."]),
    [delete],
    middleware=[HumanInTheLoopMiddleware({"delete": True})],
    checkpointer=PostgresSaver(place) if "://" in place else SqliteSaver(place),
)
given = "clean up" if stage == "ask" else Command(resume={"decisions": [{"type": "approve"}]})
state = agent.invoke(given, {"configurable": {"thread_id": "t1"}})
print("asked" if "__interrupt__" in state else [one.text for one in state["messages"]])
"""


@pytest.mark.slow
def test_a_run_that_stopped_for_approval_goes_on_in_another_process(place):
    outputs = [
        subprocess.run(
            [sys.executable, "-c", APPROVAL, stage, place],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
        for stage in ("ask", "answer")
    ]

    assert outputs == ["asked", "['clean up', '', 'deleted /a', 'All clean.']"]


class Errands:
    """An agent of three turns: `first`, then `second`, whose run may break the store, then an answer."""

    def __init__(self, saver, trouble, padding="") -> None:
        self.runs: list[str] = []
        self.saver = saver

        @tool
        def first() -> str:
            """Go first."""
            self.runs.append("first")
            return "first done"

        @tool
        def second() -> str:
            """Go second."""
            self.runs.append("second")
            if self.runs.count("second") == 1:
                trouble()
            return "second done" + padding

        self.tools = [first, second]

    def turn(self, request):
        results = [message.text for message in request.messages if message.type == "tool"]
        return "Home." if len(results) == 2 else [Call("second" if results else "first", {})]

    def agent(self):
        model = ScriptedChatModel(script=self.turn)
        return create_agent(model, self.tools, checkpointer=self.saver)


def check_that_it_goes_on(call, errands, failure):
    """Check that after any fault the log is complete and the run continues from its last checkpoint."""
    assert [message.text[:11] for message in failure.messages] == [
        "go",
        "",
        "first done",
        "",
        "second done",
    ]
    assert kinds(errands.saver) == ["input", "node", "node", "node"]

    state = call.invoke(errands.agent(), None, THREAD)

    texts = [message.text[:11] for message in state["messages"]]
    assert texts == ["go", "", "first done", "", "second done", "Home."]
    assert errands.runs == ["first", "second", "second"]


def test_FK01_a_full_disk_is_a_store_error_and_the_run_goes_on_when_there_is_room(call, tmp_path):
    saver = SqliteSaver(tmp_path / "agents.db")

    def fill():
        with saver._database._pool.connection() as connection:  # the next use gets the same one
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")

    errands = Errands(saver, fill, padding="!" * 9000)

    with pytest.raises(StoreError, match="the disk is full: free some space") as excinfo:
        call.invoke(errands.agent(), "go", THREAD)

    check_that_it_goes_on(call, errands, excinfo.value)  # a new connection has no bound


def test_FK01_a_locked_file_is_a_store_error_after_a_bounded_wait(call, tmp_path):
    saver = SqliteSaver(tmp_path / "agents.db")
    blocker = sqlite3.connect(tmp_path / "agents.db", isolation_level=None, check_same_thread=False)

    def block():
        saver._database._patience = 0.2
        saver.close()
        blocker.execute("BEGIN IMMEDIATE")

    errands = Errands(saver, block)
    start = time.monotonic()

    with pytest.raises(StoreError, match=r"more than 0.2 s: try again") as excinfo:
        call.invoke(errands.agent(), "go", THREAD)

    assert time.monotonic() - start < 5
    blocker.execute("ROLLBACK")
    blocker.close()
    check_that_it_goes_on(call, errands, excinfo.value)


@pytest.fixture
def postgres_saver(postgres_server):
    saver = PostgresSaver(postgres_server.url)
    saver.delete_thread("t1")
    yield saver
    saver.close()


def test_FK01_a_full_disk_of_a_server_is_a_store_error(call, postgres_saver):
    """The server itself raises its error for a full disk, from a trigger."""
    run = postgres_saver._database._server.run

    def fill():
        run(
            lambda connection: connection.execute("""
            CREATE OR REPLACE FUNCTION foldline_full() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER foldline_full BEFORE INSERT ON foldline_checkpoints
            FOR EACH ROW EXECUTE FUNCTION foldline_full()
        """)
        )

    errands = Errands(postgres_saver, fill)
    try:
        with pytest.raises(StoreError, match="nothing of this operation was written") as excinfo:
            call.invoke(errands.agent(), "go", THREAD)
    finally:
        run(
            lambda connection: connection.execute(
                "DROP TRIGGER foldline_full ON foldline_checkpoints"
            )
        )

    check_that_it_goes_on(call, errands, excinfo.value)


@pytest.mark.slow
def test_FK03_a_server_that_restarts_in_the_middle_of_a_run_is_not_noticed(
    call, postgres_saver, postgres_server
):
    def restart():
        postgres_server.stop()
        postgres_server.start()
        wait_until(lambda: _accepts(postgres_server.url), "postgres")

    errands = Errands(postgres_saver, restart)

    state = call.invoke(errands.agent(), "go", THREAD)

    assert state["messages"][-1].text == "Home."
    assert errands.runs == ["first", "second"]


@pytest.mark.slow
def test_FK03_a_server_that_is_gone_is_a_store_error_and_the_run_goes_on_when_it_is_back(
    call, postgres_saver, postgres_server
):
    errands = Errands(postgres_saver, postgres_server.stop)
    try:
        with pytest.raises(StoreError, match="PostgreSQL") as excinfo:
            call.invoke(errands.agent(), "go", THREAD)
    finally:
        postgres_server.start()
        wait_until(lambda: _accepts(postgres_server.url), "postgres")

    check_that_it_goes_on(call, errands, excinfo.value)


EVERY_STEP = """
import os, signal, sys
from foldline.agents import create_agent
from foldline.agents.checkpoint import SqliteSaver
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool

folder, *moments = sys.argv[1:]
TURNS = [["a"], ["b", "c"], ["d"], []]

def die(at):
    if at == moment:
        os.kill(os.getpid(), signal.SIGKILL)

@tool
def work(name: str) -> str:
    "Work."
    die(f"before {name}")
    with open(f"{folder}/effects", "a") as file:
        file.write(f"{name}\\n")
    return name

def turn(request):
    done = sum(one.type == "ai" for one in request.messages)
    die(f"model {done}")
    return [Call("work", {"name": name}, id=name) for name in TURNS[done]] or "Done."

for moment in moments:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    saver = SqliteSaver(f"{folder}/agents.db")
    config = {"configurable": {"thread_id": "t1"}, "max_concurrency": 1}
    agent = create_agent(ScriptedChatModel(script=turn), [work], checkpointer=saver)
    is_new = not agent.get_state(config).next
    print(agent.invoke("go" if is_new else None, config)["messages"][-1].text, flush=True)
    os._exit(0)
"""


@pytest.mark.slow
def test_FK01_a_kill_at_every_step_of_an_agent_repeats_no_tool_that_was_kept(tmp_path):
    moments = ["model 0", "before a", "model 1", "before b", "before c", "model 2", "before d"]

    run = subprocess.run(
        [sys.executable, "-c", EVERY_STEP, str(tmp_path), *moments, "model 3", "never"],
        capture_output=True,
        text=True,
    )

    assert run.stdout.strip() == "Done.", run.stderr
    assert (tmp_path / "effects").read_text().split() == ["a", "b", "c", "d"]
