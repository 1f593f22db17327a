"""Effects happen once, whoever answers and whatever is killed: `python -m tests.workflows.once --help`.

A race: several processes answer one question at the same moment, or while the tool runs; one has the effect, and every
other one gets `NothingToResumeError`. A kill: a run is killed at random moments and continued in new processes;
finished effects are not repeated, and a repeated one has its key again. Prints what happened, as JSON.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

from foldline.agents import create_agent
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.checkpoint import BaseCheckpointSaver, PostgresSaver, SqliteSaver
from foldline.exceptions import EmptyInputError, NothingToResumeError
from foldline.graph import START, StateGraph, create_react_agent
from foldline.graph.func import entrypoint, task
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.utils._data_places import is_url
from foldline.workflows import Command, idempotency_key, interrupt, step, workflow

FACES = ("agent", "graph", "subgraph", "flow", "entrypoint", "react")
STEPS = 4
"""Effects of a run that is killed; the third waits for an answer."""
ASKS, ONCE = 2, 1
"""The effect that waits for an answer, and the one that an agent's tool must not have twice."""
PATIENCE = 60.0
"""Seconds after which a process hangs."""


class State(TypedDict, total=False):
    done: Annotated[list[int], operator.add]


class Notes:
    """Lines of a file that processes add to; each is written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *words: object) -> None:
        line = json.dumps([os.getpid(), *words]) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

    def lines(self) -> list[list[Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]


# -- the programs


class Programs:
    """An agent, a graph, a graph inside a graph, a flow, an entrypoint inside another, and a ReAct agent.

    They have the same effects.
    """

    def __init__(self, place: str, effect: Callable[[int], None], steps: int, asks: int) -> None:
        self.saver: BaseCheckpointSaver = (
            PostgresSaver(place) if is_url(place) else SqliteSaver(place)
        )
        self.effect, self.steps, self.asks = effect, steps, asks

    def make(self, face: str) -> tuple[Any, Any, Any]:
        """Return a program, its input, and the answer to its question."""
        if face == "agent":
            return self.agent(), "go", {"decisions": [{"type": "approve"}]}
        if face == "flow":
            return self.flow(), "go", True
        if face == "entrypoint":
            return self.nested_entrypoint(), "go", True
        if face == "react":
            return self.react_agent(), {"messages": [("user", "go")]}, True
        graph = self.graph(None if face == "subgraph" else self.saver)
        if face == "graph":
            return graph, {"done": []}, True
        builder = StateGraph(State)
        builder.add_node("inner", graph)
        builder.add_edge(START, "inner")
        return builder.compile(checkpointer=self.saver), {"done": []}, True

    def graph(self, saver: BaseCheckpointSaver | None) -> Any:
        def node(number: int) -> Callable[[State], State]:
            def run(state: State) -> State:
                if number == self.asks:
                    interrupt("go on?")
                self.effect(number)
                return {"done": [number]}

            return run

        builder = StateGraph(State)
        for number in range(self.steps):
            builder.add_node(str(number), node(number))
            builder.add_edge(str(number - 1) if number else START, str(number))
        return builder.compile(checkpointer=saver)

    def flow(self) -> Any:
        @step
        def work(number: int) -> int:
            self.effect(number)
            return number

        @workflow(checkpointer=self.saver)
        def run(name: str) -> list[int]:
            done = []
            for number in range(self.steps):
                if number == self.asks:
                    interrupt("go on?")
                done.append(work(number))
            return done

        return run

    def nested_entrypoint(self) -> Any:
        @task
        def work(number: int) -> int:
            self.effect(number)
            return number

        @entrypoint()
        def child(name: str) -> list[int]:
            done = []
            for number in range(self.steps):
                if number == self.asks:
                    interrupt("go on?")
                done.append(work(number).result())
            return done

        @entrypoint(checkpointer=self.saver)
        def parent(name: str) -> list[int]:
            return child.invoke(name)

        return parent

    def react_agent(self) -> Any:
        @tool
        def work(number: int) -> str:
            """Work, with a question for one number."""
            if number == self.asks:
                interrupt("go on?")
            self.effect(number)
            return str(number)

        def turn(request: Any) -> Any:
            number = sum(1 for message in request.messages if message.type == "tool")
            if number == self.steps:
                return "Done."
            return [Call("work", {"number": number}, id=f"c{number}")]

        model = ScriptedChatModel(script=turn)
        return create_react_agent(model, [work], checkpointer=self.saver)

    def agent(self) -> Any:
        @tool
        def work(number: int) -> str:
            """Work."""
            self.effect(number)
            return str(number)

        @tool
        def pay(number: int) -> str:
            """Work, with approval."""
            self.effect(number)
            return str(number)

        @tool(run_once=True)
        def once(number: int) -> str:
            """Work that must not be repeated."""
            self.effect(number)
            return str(number)

        names = {self.asks: "pay", ONCE: "once"}

        def turn(request: Any) -> Any:
            number = sum(1 for message in request.messages if message.type == "tool")
            if number == self.steps:
                return "Done."
            return [Call(names.get(number, "work"), {"number": number}, id=f"c{number}")]

        asking = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
        return create_agent(
            ScriptedChatModel(script=turn),
            [work, pay, once],
            middleware=[asking],
            checkpointer=self.saver,
        )


def is_stopped(result: object) -> bool:
    return isinstance(result, dict) and bool(result.get("__interrupt__"))


# -- processes


def fork(body: Callable[[], None], notes: Notes) -> int:
    child = os.fork()
    if child:
        return child
    try:
        body()
    except BaseException as error:  # noqa: BLE001  of any kind: it is reported
        notes.add("error", f"{type(error).__name__}: {error}"[:500])
    finally:
        os._exit(0)


def wait_until(ready: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            return False
        time.sleep(0.0005)
    return True


class Race:
    """Processes that answer the same questions."""

    def __init__(self, place: str, folder: Path, processes: int, rounds: int) -> None:
        self.place, self.folder, self.processes, self.rounds = place, folder, processes, rounds
        self.effects, self.notes = Notes(folder / "effects"), Notes(folder / "notes")

    def case(self, number: int) -> tuple[str, float]:
        """Return the face and the gap of a round."""
        return FACES[number % len(FACES)], (0.0, 0.2)[number // len(FACES) % 2]

    def at(self, name: str, number: int) -> Path:
        return self.folder / f"{name}-{number}"

    def run(self) -> dict[str, Any]:
        children = [
            fork(lambda index=index: self.work(index), self.notes)  # type: ignore[misc]
            for index in range(self.processes)
        ]
        hung = 0
        for number in range(self.rounds):
            if not self.turn(number):
                hung = 1
                break
        for child in children:
            if hung:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return {**self.result(), "hung": hung}

    def turn(self, number: int) -> bool:
        if not wait_until(lambda: len(self.marks("ready", number)) == self.processes):
            return False
        self.at("go", number).touch()
        return wait_until(lambda: len(self.marks("over", number)) == self.processes)

    def marks(self, name: str, number: int) -> list[Path]:
        return list(self.folder.glob(f"{name}-{number}.*"))

    def work(self, index: int) -> None:
        lasts = 0.0
        thread = ""

        def effect(_: int) -> None:
            self.effects.add(thread, idempotency_key())
            time.sleep(lasts)

        programs = Programs(self.place, effect, 1, 0)
        made = {face: programs.make(face) for face in FACES}
        for number in range(self.rounds):
            face, gap = self.case(number)
            program, first, answer = made[face]
            thread, lasts = f"{face} {number}", gap * 2
            config = {"configurable": {"thread_id": thread}}
            if index == 0:
                program.invoke(first, config)
            Path(f"{self.at('ready', number)}.{index}").touch()
            if not wait_until(self.at("go", number).exists):
                return
            time.sleep(gap if index else 0)
            try:
                program.invoke(Command(resume=answer), config)
                outcome = "done"
            except NothingToResumeError:
                outcome = "nothing to resume"
            except Exception as error:  # noqa: BLE001  it is counted
                outcome = f"{type(error).__name__}: {error}"[:300]
            self.notes.add("outcome", thread, outcome)
            Path(f"{self.at('over', number)}.{index}").touch()

    def result(self) -> dict[str, Any]:
        effects = Counter(line[1] for line in self.effects.lines())
        notes = self.notes.lines()
        outcomes = Counter(line[3] for line in notes if line[1] == "outcome")
        winners = Counter(line[2] for line in notes if line[1] == "outcome" and line[3] == "done")
        return {
            "rounds": self.rounds,
            "processes": self.processes,
            "effects": sum(effects.values()),
            "rounds with one effect": sum(1 for count in effects.values() if count == 1),
            "rounds with one winner": sum(1 for count in winners.values() if count == 1),
            "outcomes": dict(outcomes),
            "errors": [line[2] for line in notes if line[1] == "error"],
        }


class Kills:
    """Runs that are killed at random moments and continued by new processes."""

    def __init__(self, place: str, folder: Path, kills: int, seed: int) -> None:
        self.place, self.folder, self.kills = place, folder, kills
        self.chance = random.Random(seed)
        self.killed = self.runs = 0
        self.faults: list[str] = []
        self.effect_count = self.repeated = self.unknown = 0

    def run(self) -> dict[str, Any]:
        while self.killed < self.kills:
            self.one(FACES[self.runs % len(FACES)], self.runs)
            self.runs += 1
        return {
            "kills": self.killed,
            "runs": self.runs,
            "effects": self.effect_count,
            "repeated with their key": self.repeated,
            "unknown effects of run_once": self.unknown,
            "faults": self.faults,
        }

    def one(self, face: str, number: int) -> None:
        """Kill a run up to five times, then let it end."""
        notes = Notes(self.folder / f"kills-{number}")
        lives = self.chance.randint(1, 5)
        for life in range(lives + 1):
            child = fork(lambda: self.live(face, f"kill {number}", notes), notes)
            if life < lives:
                self.wait_for_moment(notes)
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if any(line[1] == "end" for line in notes.lines()):
                break  # it was faster than the kill
            self.killed += life < lives
        self.judge(face, number, notes)

    def wait_for_moment(self, notes: Notes) -> None:
        """Wait for a random moment after the process is ready; for half of them, in or just after an effect."""
        seen, word = len(notes.lines()), self.chance.choice(("begin", "effect"))
        end = time.monotonic() + 1
        while not any(line[1] in (word, "end") for line in notes.lines()[seen:]):
            if word == "effect" and time.monotonic() > end:
                break  # all effects are over
            time.sleep(0.0005)
        time.sleep(self.chance.uniform(0, 0.06 if word == "begin" else 0.012))

    def live(self, face: str, thread: str, notes: Notes) -> None:
        chance = random.Random(os.getpid())

        def effect(number: int) -> None:
            notes.add("effect", number, idempotency_key())
            time.sleep(chance.uniform(0, 0.01))
            notes.add("finished", number)

        programs = Programs(self.place, effect, STEPS, ASKS)
        program, first, answer = programs.make(face)
        config = {"configurable": {"thread_id": thread}}
        notes.add("begin")
        result = self.carry_on(program, first, config)
        if is_stopped(result):
            with suppress(NothingToResumeError):
                result = program.invoke(Command(resume=answer), config)
            if is_stopped(result):
                result = program.invoke(None, config)
        text = str(result)
        notes.add("end", is_stopped(result), "whether it took effect is not known" in text)

    def carry_on(self, program: Any, first: object, config: Any) -> object:
        if hasattr(program, "thread"):
            thread = program.thread(config["configurable"]["thread_id"])
            state = thread.state()
            if state.status == "done":
                return state.value
            return program.invoke(first if state.status == "new" else None, config)
        try:
            return program.invoke(None, config)
        except EmptyInputError:
            return program.invoke(first, config)

    def judge(self, face: str, number: int, notes: Notes) -> None:
        lines = notes.lines()
        effects = [(line[0], line[2], line[3]) for line in lines if line[1] == "effect"]
        self.effect_count += len(effects)
        faults = [line[2] for line in lines if line[1] == "error"]
        reached = -1
        life = None
        for pid, step_number, _ in effects:
            if step_number < reached:
                faults.append(f"{step_number} ran again after {reached} had begun")
            if step_number == reached:
                self.repeated += 1
                if pid == life:
                    faults.append(f"{step_number} ran twice in one process")
                if face == "agent" and step_number == ONCE:
                    faults.append("a tool with run_once ran twice")
            reached, life = step_number, pid
        ends = [line for line in lines if line[1] == "end"]
        is_unknown = bool(ends) and ends[-1][3]
        self.unknown += is_unknown
        for step_number in range(STEPS):
            keys = {key for _, other, key in effects if other == step_number}
            is_lost = face == "agent" and step_number == ONCE and not keys and is_unknown
            if len(keys) != 1 and not is_lost:
                faults.append(f"{step_number} has {len(keys)} keys")
        if len({key for *_, key in effects}) != len({other for _, other, _ in effects}):
            faults.append("two effects have one key")
        if not ends or ends[-1][2]:
            faults.append("it did not end")
        self.faults += [f"{face} {number}: {fault}" for fault in faults]


def main(arguments: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m tests.workflows.once")
    parser.add_argument("--rounds", type=int, default=200, help="questions per store")
    parser.add_argument("--processes", type=int, default=8, help="processes that answer each")
    parser.add_argument("--kills", type=int, default=300, help="kills per store")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", default="sqlite,postgres", help="sqlite, postgres, or a URL")
    options = parser.parse_args(arguments)
    os.environ |= {"FOLDLINE_WORKER_BEAT": "0.2", "FOLDLINE_WORKER_DEAD": "1"}
    results: dict[str, Any] = {}
    for store in options.store.split(","):
        with tempfile.TemporaryDirectory() as name, database(store, Path(name)) as place:
            began = time.monotonic()
            results[store.partition(":")[0]] = {
                "race": Race(place, Path(name), options.processes, options.rounds).run(),
                "kill": Kills(place, Path(name), options.kills, options.seed).run(),
                "seconds": round(time.monotonic() - began, 1),
            }
    return results


@contextmanager
def database(store: str, folder: Path) -> Any:
    if store == "sqlite":
        yield str(folder / "threads.db")
    elif store == "postgres":
        from tests.servers.databases import _postgres, _postgres_programs, new_database

        servers = _postgres(_postgres_programs())
        try:
            yield new_database(next(servers))
        finally:
            servers.close()  # type: ignore[attr-defined]
    else:
        yield store


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
