"""Measure foldline beside its peers and the floor; print the table, save it, draw the plots.

    python -m benchmarks [--quick] [--check] [--only PATTERN] [--save] [--peers path/to/python]

`--check` compares the ratios with those committed in benchmarks/results.json and fails where one grew by over a
quarter: in three rounds of each row, in all its rounds where those say so; rows that take long are left out, and sides
that no target compares. `--save` writes results.json and docs/benchmarks.md; without it nothing is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report
from benchmarks.table import PLOTS, ROWS, Row

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
PEERS = ROOT / ".venv-peers" / "bin" / "python"
LITELLM = ROOT / ".venv-litellm" / "bin" / "python"
OURS = frozenset({"foldline", "floor", "socket", "bare rows", "bare spans"})
"""The sides that run in foldline's environment; the others, pyreqwest ("bare") among them, are installed apart."""
ALLOWED = 1.25
"""How much a ratio may grow before `--check` fails."""
CHECK_ROUNDS = 3
"""How many rounds of a row `--check` measures, unless they say that it has become worse."""


Processes = dict[str, "subprocess.Popen[str]"]
"""Side -> a process that has measured it and waits for the next row."""


def _start(python: str, stub: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-m", "benchmarks.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "FOLDLINE_BENCH_STUB": stub, "LANGSMITH_TRACING": "false"},
        text=True,
    )


class Worker:
    """A process that measures one side of a row."""

    def __init__(self, row: Row, side: str, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.values: list[float] = []
        self.error: str | None = None
        command = {"scenario": row.scenario, "side": side, "options": row.options}
        self._say({**command, "measure": row.measure})

    def wait(self) -> None:
        """Wait until it has imported what it measures, and warmed up."""
        self._hear()

    def round(self) -> None:
        """Measure once more."""
        if self.error is not None:
            return
        self._say({})
        if (value := self._hear().get("value")) is not None:
            self.values.append(value)

    def _say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: there is no answer either
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the worker ended"}
        self.error = answer.get("error")
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def measure(
    row: Row,
    pythons: dict[str, str],
    stub: str,
    rounds: int,
    sides: tuple[str, ...] | None = None,
    idle: Processes | None = None,
) -> dict[str, float]:
    """Measure every side of a row in turn, round after round; give what is typical.

    All processes start at once; what they measure begins when the last of them is ready.

    The machine may be twice as fast in one second as in the next: sides are compared within a round, which is short.

    Processes of `idle` are used again, and put back: for a check, most of which would else be the peers' imports.
    """
    sides = tuple(side for side in sides or row.sides if _python(side, pythons))
    keeps = idle is not None and row.measure == "cpu"
    idle = idle if idle is not None and keeps else {}
    workers = {
        side: Worker(row, side, idle.pop(side, None) or _start(_python(side, pythons), stub))
        for side in sides
    }
    try:
        for worker in workers.values():
            worker.wait()
        for _ in range(rounds):
            for worker in workers.values():
                worker.round()
    except BaseException:
        for worker in workers.values():
            worker.close()
        raise
    for side, worker in workers.items():
        if keeps and worker.error is None:
            idle[side] = worker.process
        else:
            worker.close()
        if worker.error:
            print(f"    {row.name}: {side} failed: {worker.error}", file=sys.stderr)
    values_by_side = {side: worker.values for side, worker in workers.items() if worker.values}
    complete_rounds = [
        dict(zip(values_by_side, values, strict=True))
        for values in zip(*values_by_side.values(), strict=False)
    ]
    return typical(complete_rounds)


def typical(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return our median, and every other side in the proportion to it that is the median of all rounds.

    Medians of each side apart would compare one side's quick rounds with another's slow ones.
    """
    if not rounds:
        return {}
    if "foldline" not in rounds[0]:
        return {side: median(values[side] for values in rounds) for side in rounds[0]}
    foldline_value = median(values["foldline"] for values in rounds)
    return {
        side: foldline_value
        * median(
            values[side] / values["foldline"] if values["foldline"] else 1.0 for values in rounds
        )
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


def run(
    options: argparse.Namespace, before: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure what was asked for: rows and plots."""
    litellm = str(LITELLM) if LITELLM.exists() else ""
    pythons = {"foldline": sys.executable, "peers": options.peers, "litellm": litellm}
    process, stub = start_stub()
    results: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    is_quick = options.check and not options.save
    idle: Processes | None = {} if is_quick else None
    try:
        for row in ROWS:
            if options.only and not re.search(options.only, row.name, re.IGNORECASE):
                continue
            if options.check and not (row.is_checked or options.only or options.save):
                continue
            rounds = 1 if options.quick else row.rounds
            sides = row.compared if is_quick else None
            if is_quick:
                rounds = min(rounds, CHECK_ROUNDS)
            values = measure(row, pythons, stub, rounds, sides, idle)
            if is_quick and rounds < row.rounds and is_worse(row, values, before):
                values = measure(row, pythons, stub, row.rounds, sides)
            results[row.name] = values
            print(report.line(row, values), flush=True)
            if options.save:
                save(results, {}, options.peers)  # a run that is cut short keeps what it measured
        if not (options.only or options.quick or is_quick):
            for name, (_, _, _, rows) in PLOTS.items():
                curves[name] = [
                    [next(iter(row.options.values())), measure(row, pythons, stub, row.rounds)]
                    for row in rows
                ]
    finally:
        for waiting in (process, *(idle or {}).values()):
            waiting.kill()
            waiting.communicate()
    return results, curves


def results_so_far() -> dict[str, Any]:
    """Return what is in results.json."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    return results


def save(rows: dict[str, Any], curves: dict[str, Any], peers: str) -> None:
    """Write the results and the page; rows not measured stay as they were."""
    results = report.results(rows, curves, results_so_far(), peers)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    report.write_page(ROOT, results)


def regressions(rows: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Name the rows whose ratio to the peer grew too much."""
    worse = []
    for row in ROWS:
        values = rows.get(row.name, {})
        if is_worse(row, values, before):
            now, then = report.ratio(row, values), before[row.name]["ratio"]
            worse.append(f"{row.name}: {now:.3f} of the peer's, was {then:.3f}")
    return worse


def is_worse(row: Row, values: dict[str, float], before: dict[str, Any]) -> bool:
    """Whether the ratio of a row to its peer grew too much."""
    now, then = report.ratio(row, values), before.get(row.name, {}).get("ratio")
    return now is not None and bool(then) and now > then * ALLOWED


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
    rows, curves = run(options, before["rows"])
    worse = regressions(rows, before["rows"]) if options.check else []
    if options.save:
        save(rows, curves, options.peers)
    for line in worse:
        print(f"REGRESSION {line}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
