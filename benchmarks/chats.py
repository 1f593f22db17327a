"""Checkpointed chats beside LangGraph's: an early turn, a late one, one in a new process, and the file.

    python -m benchmarks.chats --peers path/to/python
    python -m benchmarks.chats --turns 100

The peers' environment needs langgraph, langgraph-checkpoint-sqlite and langchain. `--save` keeps what was seen in
benchmarks/chats.json and renews its section of docs/benchmarks.md. Both sides take turns in one run; times are
processor time. A turn is a question and an answer of 500 characters.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "chats.json", ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- chats begin -->", "<!-- chats end -->"
PEERS = ROOT / ".venv-peers" / "bin" / "python"
FACES = {
    "graph": "graph, one node, `MessagesState`",
    "agent": "`create_agent`, no tools",
    "flow": "`entrypoint` with one task and `previous`",
}
MEASURES = {
    "turn 10": "turn 10",
    "last turn": "turn {turns}",
    "new process": "turn {next} in a new process",
    "file": "file, closed, after {turns} turns",
}
ANSWER, QUESTION = "y" * 500, "x" * 500


def graph(saver: Any, *, is_ours: bool) -> Any:
    package = import_module("foldline.graph" if is_ours else "langgraph.graph")
    builder = package.StateGraph(package.MessagesState)
    builder.add_node("answer", lambda state: {"messages": [("ai", ANSWER)]})
    builder.add_edge(package.START, "answer")
    return builder.compile(checkpointer=saver)


def agent(saver: Any, *, is_ours: bool) -> Any:
    if is_ours:
        from foldline.agents import create_agent
        from foldline.testing import ScriptedChatModel

        return create_agent(ScriptedChatModel(script=[ANSWER] * 10_000), checkpointer=saver)
    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    model = GenericFakeChatModel(messages=(AIMessage(ANSWER) for _ in range(10_000)))
    return create_agent(model, checkpointer=saver)


def flow(saver: Any, *, is_ours: bool) -> Any:
    package = import_module("foldline.graph" if is_ours else "langgraph.func")

    @package.task
    def answer(question: str) -> str:
        return ANSWER

    @package.entrypoint(checkpointer=saver)
    def chat(question: str, *, previous: Any = None) -> Any:
        answer(question).result()
        return (previous or 0) + 1

    return chat


def saver_at(path: str | None, *, is_ours: bool) -> Any:
    if path is None:
        name = "foldline.checkpoint" if is_ours else "langgraph.checkpoint.memory"
        return import_module(name).InMemorySaver()
    if is_ours:
        return import_module("foldline.checkpoint").SqliteSaver(path)
    import sqlite3

    connection = sqlite3.connect(path, check_same_thread=False)
    return import_module("langgraph.checkpoint.sqlite").SqliteSaver(connection)


def turn(chat: Any, face: str, thread: str) -> float:
    """Return the milliseconds of one turn."""
    question = QUESTION if face == "flow" else {"messages": [("user", QUESTION)]}
    start = time.process_time()
    chat.invoke(question, {"configurable": {"thread_id": thread}})
    return (time.process_time() - start) * 1e3


def chat_here(side: str, face: str, store: str, turns: int, path: str) -> dict[str, float]:
    """Have a chat in this process; return what it took."""
    is_ours = side == "foldline"
    saver = saver_at(path if store == "SQLite" else None, is_ours=is_ours)
    chat = globals()[face](saver, is_ours=is_ours)
    turn(chat, face, "warm")
    times = [turn(chat, face, "t") for _ in range(turns)]
    seen = {"turn 10": median(times[6:13]), "last turn": median(times[-9:])}
    if store == "SQLite":
        if is_ours:
            saver.close()
        else:
            saver.conn.close()
        seen["file"] = os.path.getsize(path) / 1e6
    return seen


def continue_here(side: str, face: str, path: str) -> dict[str, float]:
    """Take the next turn of a chat that another process had."""
    is_ours = side == "foldline"
    chat = globals()[face](saver_at(path, is_ours=is_ours), is_ours=is_ours)
    turn(chat, face, f"warm {os.getpid()}")
    return {"new process": turn(chat, face, "t")}


def measure(python: str, side: str, face: str, store: str, turns: int) -> dict[str, float]:
    """Measure one side in processes of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, __file__, "--here", side, face, store, str(turns), f"{folder}/t.db"]
        seen = _run(command)
        if store == "SQLite":
            again = [_run([*command, "--next"])["new process"] for _ in range(3)]
            seen["new process"] = median(again)
        return seen


def _run(command: list[str]) -> dict[str, float]:
    env = {**os.environ, "LANGSMITH_TRACING": "false"}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    seen: dict[str, float] = json.loads(output.splitlines()[-1])
    return seen


def compare(peers: str, turns: int, rounds: int) -> dict[str, Any]:
    """Measure both sides in turn, some rounds; return medians, and the median of the ratios of a round."""
    rows: dict[str, Any] = {}
    for face in FACES:
        for store in ("memory", "SQLite"):
            seen = [
                {
                    side: measure(python, side, face, store, turns)
                    for side, python in (("foldline", sys.executable), ("langgraph", peers))
                }
                for _ in range(rounds)
            ]
            for name in seen[0]["foldline"]:
                ours = [sides["foldline"][name] for sides in seen]
                ratios = [
                    sides["langgraph"][name] / value
                    for sides, value in zip(seen, ours, strict=True)
                ]
                rows[f"{face}/{store}/{name}"] = [median(ours), median(ratios)]
                print(
                    face, store, name, round(median(ours), 3), round(median(ratios), 1), flush=True
                )
    return {
        "taken": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load": [round(load, 1) for load in os.getloadavg()],
        "turns": turns,
        "rounds": rounds,
        "rows": rows,
    }


def section(root: Path) -> str:
    """Return the section of docs/benchmarks.md about chats, from what was kept."""
    file = root / "benchmarks" / "chats.json"
    if not file.exists():
        return f"{BEGIN}\n\nNot taken yet.\n\n{END}"
    seen = json.loads(file.read_text())
    turns = seen["turns"]
    lines = [
        BEGIN,
        "",
        "| | store | | foldline | LangGraph | ratio |",
        "|---|---|---|---:|---:|---:|",
    ]
    for key, (ours, ratio) in seen["rows"].items():
        face, store, name = key.split("/")
        unit = "MB" if name == "file" else "ms"
        shown = MEASURES[name].format(turns=turns, next=turns + 1)
        lines.append(
            f"| {FACES[face]} | {store} | {shown} | {ours:.2f} {unit} | {ours * ratio:.2f} {unit} | 1/{ratio:.1f} |"
        )
    load = "/".join(map(str, seen["load"]))
    lines += [
        "",
        f"Taken {seen['taken']}, load {load}, medians of {seen['rounds']} rounds, also of the ratio.",
    ]
    return "\n".join([*lines, "", END])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=str(PEERS), help="the peers' Python")
    parser.add_argument("--save", action="store_true", help="keep what was seen")
    parser.add_argument("--here", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--next", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        side, face, store, turns, path = options.here
        if options.next:
            print(json.dumps(continue_here(side, face, path)))
        else:
            print(json.dumps(chat_here(side, face, store, int(turns), path)))
        return
    seen = compare(options.peers, options.turns, options.rounds)
    if options.save:
        RESULTS.write_text(json.dumps(seen, indent=1) + "\n")
        before, _, page = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + section(ROOT) + page.partition(END)[2])


if __name__ == "__main__":
    main()
