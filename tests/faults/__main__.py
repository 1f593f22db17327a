"""`python -m tests.faults [--long] [--peers]`: run the faults, print the figures, keep them in docs/reliability.json.

Quick, it samples as the test suite does; `--long` cuts at every byte, cancels 10,000 times and holds 5,000 streams.
`--peers` asks the same of other clients, each in the environment that `scripts/faults --peers` made for it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from foldline.transports.httpx import HttpxTransport
from tests.faults import concurrency, cut_streams
from tests.faults.cancellation import cancel_everywhere
from tests.faults.embedding_matrix import EmbeddingInjector
from tests.faults.embedding_scenarios import EMBEDDING_SCENARIOS
from tests.faults.matrix import SCENARIOS, Injector
from tests.faults.peers import compare
from tests.faults.shares import share_of
from tests.security.page import main as draw_page
from tests.servers import FaultServer

KEPT = Path(__file__).parents[2] / "docs" / "reliability.json"
Figures = dict[str, Any]


def cuts(*, long: bool, in_turn: bool = False, share: tuple[int, int] = (0, 1)) -> Figures:
    """Recorded streams × offsets × {clean end, FIN, RST}; `in_turn`, one of the three at each offset."""
    tally = cut_streams.cut_all(1 if long else 131, in_turn=in_turn, share=share)
    outcomes = dict(tally.kinds)
    invalid = outcomes.pop("invalid_tool_call", 0)
    return {"cuts": tally.cuts, "outcomes": outcomes, "with_invalid_tool_call": invalid,
            "ways": "one of the three at each byte, in turn" if in_turn else "all three at each byte",
            "wrong": len(tally.wrong), "examples": tally.wrong[:5]}  # fmt: skip


def truncated_calls(*, long: bool) -> Figures:
    """Tool calls cut before their end, read by an agent."""
    answers, executions, errors = cut_streams.run_agents(7 if long else 400)
    return {
        "answers": answers,
        "executed": executions,
        "told": errors,
        "wrong": executions + answers - errors,
    }


def matrix(*, long: bool) -> Figures:
    """Scenarios × wires × entry points; the long run asks the other transport too."""
    with FaultServer.start() as server:
        report = Injector(server).run(SCENARIOS)
        others = {}
        if long:
            other = Injector(server, HttpxTransport()).run(SCENARIOS)
            # Sync and async must both raise; the class of the error may depend on a client's own parser.
            others["HttpxTransport"] = {"injected": other.injected, "silent": len(other.silent),
                                        "untyped": len(other.untyped), "other_class": len(other.wrong)}  # fmt: skip
    silent = len(report.silent) + sum(figures["silent"] for figures in others.values())
    untyped = len(report.untyped) + sum(figures["untyped"] for figures in others.values())
    return {"scenarios": len(SCENARIOS), "injected": report.injected, "signalled": report.signalled,
            "silent": silent, "untyped": untyped, "other_transports": others,
            "wrong": len(report.wrong) + silent + untyped, "examples": report.faults[:5]}  # fmt: skip


def embeddings(*, long: bool) -> Figures:
    """Scenarios × endpoints of embeddings, sync and async."""
    with FaultServer.start() as server:
        report = EmbeddingInjector(server).run(EMBEDDING_SCENARIOS)
    return {"scenarios": len(EMBEDDING_SCENARIOS), "injected": report.injected, "signalled": report.signalled,
            "silent": len(report.silent), "untyped": len(report.untyped), "wrong": len(report.faults),
            "examples": report.faults[:5]}  # fmt: skip


def cancels(*, long: bool) -> Figures:
    """Calls cancelled at their n-th await."""
    with FaultServer.start() as server:
        outcome = cancel_everywhere(server, 10_000 if long else 1)
    return {"points": outcome.points, "lost": len(outcome.lost), "leaked": len(outcome.leaked),
            "wrong": len(outcome.faults), "examples": outcome.faults[:5]}  # fmt: skip


def one_model(*, long: bool) -> Figures:
    """Loop after loop, forked, and under 64 threads."""
    with FaultServer.start() as server:
        right, requests = concurrency.loops(server)
        forked, of_children = concurrency.forks(server)
        crossed, of_threads = concurrency.threads(server, times=50 if long else 5)
    faults = (20 - right) + (requests - 20) + forked + crossed
    return {"loops_right_of_20": right, "requests_of_20_loops": requests,
            "forked_wrong": forked, "forked": of_children,
            "threads_wrong": crossed, "threads": of_threads, "wrong": faults}  # fmt: skip


def held_streams(*, long: bool) -> Figures:
    """Streams open at once in one process."""
    many = 5_000 if long else 500
    counts = concurrency.hold(many)
    return {**counts, "wrong": many - counts["right"] + counts["files_left"]}


RUNS: dict[str, Callable[..., Figures]] = {
    "matrix": matrix,
    "embeddings": embeddings,
    "one_model": one_model,
    "held": held_streams,
    "truncated_calls": truncated_calls,
    "cancels": cancels,
    "cuts": cuts,
    "cuts_in_turn": partial(cuts, in_turn=True),
}


BESIDE = (
    ("tests.fuzz.long", "--minutes", "15"),
    ("tests.security.kill_loop", "--kills", "1000"),
    ("tests.fuzz.speed",),
)
"""The other long runs, each in a process of its own: `kill_loop` forks, and may have no threads."""


def run_facts(command: str) -> Figures:
    """Return what was measured, where and how."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {"commit": commit, "date": time.strftime("%Y-%m-%d"), "command": command,
            "python": platform.python_version(), "system": platform.system(),
            "cores": os.cpu_count()}  # fmt: skip


def keep(section: str, figures: Figures) -> None:
    """Renew one section of the kept figures; the others stay."""
    sections = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    sections[section] = figures
    KEPT.write_text(json.dumps(sections, indent=2, sort_keys=True) + "\n")
    draw_page()


def main() -> int:
    """Run what the arguments ask for; 1 if anything was silent, untyped, lost or left behind."""
    parser = argparse.ArgumentParser(prog="scripts/faults")
    parser.add_argument(
        "--long", action="store_true", help="every byte, 10,000 cancels, 5,000 streams"
    )
    parser.add_argument("--peers", action="store_true", help="ask the same of other clients")
    parser.add_argument("--only", choices=RUNS, action="append", help="only this run")
    parser.add_argument(
        "--share", type=share_of, help="of the cuts: K/N is the K-th of N shares of the bytes"
    )
    parser.add_argument("--json", type=Path, help="write the figures of the runs to this file")
    parser.add_argument("--save", action="store_true", help="renew docs/reliability.json")
    options = parser.parse_args()
    fault_count, sections = 0, {}
    if options.peers:
        figures = {**run_facts("scripts/faults --peers"), "clients": compare()}
        print(json.dumps(figures, indent=2))
        if options.save:
            keep("peers", figures)
        return 0
    for name in options.only or [name for name in RUNS if name != "cuts_in_turn"]:
        start = time.monotonic()
        more = {"share": options.share} if options.share and name.startswith("cuts") else {}
        figures = RUNS[name](long=options.long, **more)
        fault_count += figures["wrong"]
        figures["seconds"] = round(time.monotonic() - start, 1)
        print(json.dumps({name: figures}), flush=True)
        sections[name] = figures
        if options.save:
            command = f"scripts/faults{' --long' if options.long else ''} --only {name}"
            keep(name.removesuffix("_in_turn"), {**run_facts(command), **figures})
    if options.json:
        options.json.write_text(json.dumps(sections, indent=1) + "\n")
    if options.long and not options.only:
        for run in BESIDE:
            command = [sys.executable, "-m", *run, *(["--save"] if options.save else [])]
            fault_count += subprocess.run(command, check=False).returncode
    return 1 if fault_count else 0


if __name__ == "__main__":
    sys.exit(main())
