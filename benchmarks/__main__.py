"""Measure foldline beside its peers and the floor; print the table, save it, draw the plots.

    python -m benchmarks [--quick] [--check] [--only PATTERN] [--save] [--peers path/to/python]

`--check` compares the ratios with those committed in benchmarks/results.json and fails where one grew by over a
quarter. `--save` writes results.json and docs/benchmarks.md; without it nothing is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report
from benchmarks.table import PLOTS, ROWS, Row

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
PEERS = ROOT / ".venv-peers" / "bin" / "python"
LITELLM = ROOT / ".venv-litellm" / "bin" / "python"
OURS = frozenset({"foldline", "floor", "socket"})
"""The sides that run in foldline's environment; the others, pyreqwest ("bare") among them, are installed apart."""
ALLOWED = 1.25
"""How much a ratio may grow before `--check` fails."""


class Worker:
    """A process that measures one side of a row."""

    def __init__(self, row: Row, side: str, python: str, stub: str) -> None:
        environment = {**os.environ, "FOLDLINE_BENCH_STUB": stub, "LANGSMITH_TRACING": "false"}
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment,
            text=True,
        )
        self.values: list[float] = []
        self.error: str | None = None
        asked = {"scenario": row.scenario, "side": side, "options": row.options}
        self._ask({**asked, "measure": row.measure})

    def round(self) -> None:
        """Measure once more."""
        if self.error is None and (value := self._ask({}).get("value")) is not None:
            self.values.append(value)

    def _ask(self, what: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            said = self.process.stdout.readline()
        except BrokenPipeError:
            said = ""
        answer: dict[str, Any] = json.loads(said) if said else {"error": "the worker ended"}
        self.error = answer.get("error")
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def measure(row: Row, pythons: dict[str, str], stub: str, rounds: int) -> dict[str, float]:
    """Measure every side of a row in turn, round after round; give what is typical.

    The machine may be twice as fast in one second as in the next: sides are compared within a round, which is short.
    """
    sides = [side for side in row.sides if _python(side, pythons)]
    workers = {side: Worker(row, side, _python(side, pythons), stub) for side in sides}
    try:
        for _ in range(rounds):
            for worker in workers.values():
                worker.round()
    finally:
        for worker in workers.values():
            worker.close()
    for side, worker in workers.items():
        if worker.error:
            print(f"    {row.name}: {side} failed: {worker.error}", file=sys.stderr)
    found = {side: worker.values for side, worker in workers.items() if worker.values}
    whole = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=False)]
    return typical(whole)


def typical(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Give our median, and every other side in the proportion to it that is the median of all rounds.

    Medians of each side apart would compare one side's quick rounds with another's slow ones.
    """
    if not rounds:
        return {}
    if "foldline" not in rounds[0]:
        return {side: median(one[side] for one in rounds) for side in rounds[0]}
    ours = median(one["foldline"] for one in rounds)
    return {
        side: ours
        * median(one[side] / one["foldline"] if one["foldline"] else 1.0 for one in rounds)
        for side in rounds[0]
    }


def _python(side: str, pythons: dict[str, str]) -> str:
    return pythons["foldline" if side in OURS else "litellm" if side == "litellm" else "peers"]


def start_stub() -> tuple[subprocess.Popen[str], str]:
    """Start the stub server; give it and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.stub"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    return process, f"http://127.0.0.1:{int(process.stdout.readline())}"


def run(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure what was asked for: rows and plots."""
    litellm = str(LITELLM) if LITELLM.exists() else ""
    pythons = {"foldline": sys.executable, "peers": options.peers, "litellm": litellm}
    process, stub = start_stub()
    found: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    try:
        for row in ROWS:
            if options.only and not re.search(options.only, row.name, re.IGNORECASE):
                continue
            values = measure(row, pythons, stub, 1 if options.quick else row.rounds)
            found[row.name] = values
            print(report.line(row, values), flush=True)
            if options.save:
                save(found, {}, options.peers)  # a run that is cut short keeps what it measured
        if not options.only and not options.quick:
            for name, (_, _, _, rows) in PLOTS.items():
                curves[name] = [
                    [next(iter(row.options.values())), measure(row, pythons, stub, row.rounds)]
                    for row in rows
                ]
    finally:
        process.kill()
        process.communicate()
    return found, curves


def results_so_far() -> dict[str, Any]:
    """Give what is in results.json."""
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    return kept


def save(found: dict[str, Any], curves: dict[str, Any], peers: str) -> None:
    """Write the results and the page; rows not measured stay as they were."""
    kept = report.results(found, curves, results_so_far(), peers)
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    report.write_page(ROOT, kept)


def regressions(found: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Name the rows whose ratio to the peer grew too much."""
    worse = []
    for row in ROWS:
        now, then = (
            report.ratio(row, found.get(row.name, {})),
            before.get(row.name, {}).get("ratio"),
        )
        if now is not None and then and now > then * ALLOWED:
            worse.append(f"{row.name}: {now:.3f} of the peer's, was {then:.3f}")
    return worse


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of each row, no plots")
    parser.add_argument("--check", action="store_true", help="fail where a ratio grew by a quarter")
    parser.add_argument("--only", metavar="PATTERN", help="only rows whose name matches")
    parser.add_argument("--save", action="store_true", help="write results.json and the page")
    parser.add_argument("--page", action="store_true", help="write the page from results.json")
    parser.add_argument("--peers", default=str(PEERS) if PEERS.exists() else "", metavar="PYTHON")
    options = parser.parse_args()
    before = results_so_far()
    if options.page:
        report.write_page(ROOT, before)
        return 0
    found, curves = run(options)
    worse = regressions(found, before["rows"]) if options.check else []
    if options.save:
        save(found, curves, options.peers)
    for line in worse:
        print(f"REGRESSION {line}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
