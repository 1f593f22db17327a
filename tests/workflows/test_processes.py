"""Two processes on one thread, and a file that cannot grow: what a single process cannot show."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.servers.children import Children, children

__all__ = ["children"]

pytestmark = pytest.mark.timing

PROGRAM = """
import operator, sys, time
from pathlib import Path
from typing import Annotated, TypedDict

from foldline.agents import create_agent
from foldline.checkpoint import SqliteSaver, ThreadConflictError
from foldline.exceptions import StoreError
from foldline.graph import END, START, StateGraph
from foldline.testing import Call, ScriptedChatModel
from foldline.workflows import Command, FlowInterruptedError, interrupt, step, workflow

folder, kind, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
THREAD = {"configurable": {"thread_id": "1"}}
saver = SqliteSaver(folder / "flows.db")


def effect(number):
    with (folder / "effects").open("a") as file:
        file.write(f"{number}\\n")
    if (folder / "slow").exists():
        time.sleep(0.05)
    return number


@step
def work(number: int) -> str:
    effect(number)
    return "x" * 4000


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]


def run_all(_state=None):
    \"\"\"Ask, then work.\"\"\"
    interrupt("go on?")
    return {"done": [work(number) for number in range(20)]}


def answer() -> str:
    \"\"\"Ask, then work.\"\"\"
    return str(len(run_all()["done"]))


@workflow(checkpointer=saver)
def flow(name: str) -> int:
    return len(run_all()["done"])


builder = StateGraph(State)
builder.add_node("work", run_all)
builder.add_edge(START, "work")
builder.add_edge("work", END)
graph = builder.compile(checkpointer=saver)


def turn(request):
    return "Done." if request.messages[-1].type == "tool" else [Call("answer", {}, id="c")]


agent = create_agent(ScriptedChatModel(script=turn), [answer], checkpointer=saver)
programs = {"flow": (flow, "x"), "graph": (graph, {}), "agent": (agent, "go")}
program, first = programs[kind]


def limited():
    import resource, signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    largest = max(one.stat().st_size for one in folder.iterdir() if one.name.startswith("flows.db"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 40_000, largest + 40_000))


if what == "limited":
    limited()
(folder / f"ready-{sys.argv[4]}").touch()
while not (folder / ("effects" if what == "carry-on" else "go")).exists():
    time.sleep(0.001)
try:
    if what == "begin":
        program.invoke(first, THREAD)
    elif what == "carry-on":
        program.invoke(None, THREAD)
    else:
        program.invoke(Command(resume=True), THREAD)
    print("done")
except ThreadConflictError:
    print("conflict")
except StoreError as error:
    print("store", error)
except Exception as error:
    print("other", type(error).__name__, error)
"""
KINDS = ["flow", "graph", "agent"]


Start = Callable[[Path, str, str, str], "subprocess.Popen[str]"]


@pytest.fixture
def start(children: Children) -> Start:
    """Starts a process that waits for a word to go on, and ends with the test."""
    return partial(start_program, children)


def start_program(
    children: Children, folder: Path, kind: str, action: str, name: str
) -> subprocess.Popen[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(folder), kind, action, name]
    return children.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(folder: Path, *processes: subprocess.Popen[str], names: str) -> list[str]:
    """Let the processes go at once; return what they say."""
    end = time.monotonic() + 60
    while not all((folder / f"ready-{name}").exists() for name in names):
        assert time.monotonic() < end, "the processes did not begin"
        time.sleep(0.005)
    (folder / "go").touch()
    outputs = []
    for process in processes:
        out, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
        outputs.append(out.strip())
    (folder / "go").unlink()
    return outputs


def effects(folder: Path) -> list[int]:
    path = folder / "effects"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_of_two_processes_that_answer_one_wins_and_the_other_is_told(tmp_path, kind, start):
    finish(tmp_path, start(tmp_path, kind, "begin", "a"), names="a")
    processes = [start(tmp_path, kind, "resume", name) for name in "bc"]
    outputs = finish(tmp_path, *processes, names="bc")

    # The slower one may come when all is done: then there is nothing to resume any more.
    assert outputs.count("done") == 1, outputs
    (loser,) = [output for output in outputs if output != "done"]
    assert loser == "conflict" or "there is nothing to resume" in loser, outputs
    assert effects(tmp_path) == list(range(20)), outputs


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_AH5_a_process_that_continues_a_thread_with_a_live_run_runs_nothing(tmp_path, kind, start):
    finish(tmp_path, start(tmp_path, kind, "begin", "a"), names="a")
    (tmp_path / "slow").touch()
    first = start(tmp_path, kind, "resume", "b")
    second = start(tmp_path, kind, "carry-on", "c")

    assert finish(tmp_path, first, second, names="bc") == ["done", "conflict"]

    assert effects(tmp_path) == list(range(20))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_cannot_grow_stops_the_run_and_it_goes_on_later(tmp_path, kind, start):
    finish(tmp_path, start(tmp_path, kind, "begin", "a"), names="a")
    (output,) = finish(tmp_path, start(tmp_path, kind, "limited", "b"), names="b")
    assert output.startswith("store"), output
    finished = effects(tmp_path)
    assert 0 < len(finished) < 20

    (output,) = finish(tmp_path, start(tmp_path, kind, "carry-on", "c"), names="c")
    assert output == "done"
    # The step whose result could not be written ran again; no other one did.
    assert effects(tmp_path) == [*finished, *range(finished[-1], 20)]
