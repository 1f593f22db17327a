"""The long run: `python -m tests.fuzz.long --minutes 15` prints inputs per second and every failure, target by target.

A failure is an exception that the target may not raise, something that does not hold, an input that takes longer
than `SLOWEST`, or memory that grows beyond `MOST_MEMORY`. The input is written down, so that it can become a test.
"""

from __future__ import annotations

import argparse
import base64
import json
import resource
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import ALLOWED, TARGETS, Target
from tests.security.page import save

SLOWEST = 5.0
"""Seconds for one input (of at most 20 kB) before it counts as hanging."""
MOST_MEMORY = 1 << 20
"""kB by which the process may grow over the whole run of a target."""
TURN = 2.0
"""Seconds before the next target has its turn."""


class HangingError(BaseException):
    """An input took too long. Not an `Exception`, so that nothing under test swallows it."""


@dataclass
class Outcome:
    """The counts of one target."""

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.inputs / self.seconds if self.seconds else 0.0


def alarm(signum: int, frame: FrameType | None) -> None:
    raise HangingError(f"longer than {SLOWEST} s")


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Fuzzer:
    """One target, some seconds at a time."""

    def __init__(self, target: Target, seed: int, folder: Path | None = None) -> None:
        self.target = target
        self.outcome = Outcome()
        self._inputs = Mutator(target.seeds(), target.words, seed).inputs()
        self._folder = folder

    def turn(self, seconds: float, maximum: int | None = None) -> None:
        """Try inputs until the time is over, or as many as are asked for."""
        outcome, start, before = self.outcome, time.perf_counter(), memory()
        end, last = start + seconds, outcome.inputs + (maximum or 1 << 62)
        while time.perf_counter() < end and outcome.inputs < last:
            self.one(next(self._inputs))
        outcome.seconds += time.perf_counter() - start
        if memory() - before > MOST_MEMORY:
            outcome.failures.append(f"memory grew by {(memory() - before) // 1024} MB")

    def one(self, data: bytes) -> None:
        outcome = self.outcome
        outcome.inputs += 1
        signal.setitimer(signal.ITIMER_REAL, SLOWEST)
        try:
            self.target.run(data)
        except ALLOWED:
            outcome.refused += 1
        except (Exception, HangingError) as error:  # noqa: BLE001  any of them is a failure
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._keep(error, data)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _keep(self, error: BaseException, data: bytes) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        description = (
            f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error!s:.150}"
        )
        if len(self.outcome.failures) < 20:
            self.outcome.failures.append(
                f"{description} for {base64.b64encode(data).decode()[:2000]}"
            )
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{self.target.name}-{len(self.outcome.failures)}"
            (self._folder / f"{name}.bin").write_bytes(data)
            (self._folder / f"{name}.txt").write_text("".join(traceback.format_exception(error)))


def run(names: list[str], minutes: float, seed: int, folder: Path | None) -> dict[str, Outcome]:
    """Run every target in turn until the time is over."""
    signal.signal(signal.SIGALRM, alarm)
    fuzzers = [Fuzzer(TARGETS[name], seed, folder) for name in names]
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        for fuzzer in fuzzers:
            fuzzer.turn(min(TURN, max(0.1, (end - time.monotonic()) / len(fuzzers))))
    return {fuzzer.target.name: fuzzer.outcome for fuzzer in fuzzers}


def run_counted(
    names: list[str], inputs: int, seed: int, folder: Path | None
) -> dict[str, Outcome]:
    """Run every target with so many inputs, however long it takes."""
    signal.signal(signal.SIGALRM, alarm)
    outcomes = {}
    for name in names:
        fuzzer = Fuzzer(TARGETS[name], seed, folder)
        fuzzer.turn(float("inf"), inputs)
        outcomes[name] = fuzzer.outcome
    return outcomes


def show(outcomes: dict[str, Outcome]) -> None:
    print(f"{'target':<18}{'inputs':>12}{'refused':>10}{'inputs/s':>10}{'failures':>10}")
    for name, outcome in outcomes.items():
        print(
            f"{name:<18}{outcome.inputs:>12,}{outcome.refused:>10,}{outcome.rate:>10,.0f}{len(outcome.failures):>10}"
        )
    total = sum(outcome.inputs for outcome in outcomes.values())
    failures = [
        f"{name}: {failure}" for name, outcome in outcomes.items() for failure in outcome.failures
    ]
    print(f"{'all':<18}{total:>12,}{'':>20}{len(failures):>10}")
    for failure in failures:
        print(failure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.long", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together")
    parser.add_argument("--inputs", type=int, help="inputs for each target, in place of --minutes")
    parser.add_argument("--targets", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    parser.add_argument("--failures", type=Path, help="folder for the inputs that failed")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--save", action="store_true", help="renew docs/reliability.json and its page"
    )
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else time.time_ns() % 2**32
    print(f"seed {seed}")
    if options.inputs:
        outcomes = run_counted(options.targets, options.inputs, seed, options.failures)
    else:
        outcomes = run(options.targets, options.minutes, seed, options.failures)
    show(outcomes)
    figures: dict[str, Any] = {
        name: {**asdict(outcome), "rate": round(outcome.rate), "failures": len(outcome.failures)}
        for name, outcome in outcomes.items()
    }
    if options.json:
        options.json.write_text(json.dumps({"seed": seed, "targets": figures}, indent=1) + "\n")
    if options.save:
        command = f"python -m tests.fuzz.long --minutes {options.minutes:g}"
        save("fuzz", command, {"seed": seed, "targets": figures})
    return int(any(outcome.failures for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
