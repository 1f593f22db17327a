"""`scripts/figures`: every figure of docs/reliability.md, taken at one commit, in parts that can be interrupted.

Each part is a process of its own that writes its figures to `.figures/COMMIT/PART.json`. A part whose file is there is
not run again, so that a run that was stopped goes on where it was. Parts run side by side, as many as there are
processors; those that measure time or hold thousands of connections run alone, after the others. When all are there
they are put together, docs/reliability.json is renewed, and the page is drawn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.__main__ import Figures, keep, run_facts
from tests.fuzz.mutants import SUBJECTS
from tests.fuzz.targets import TARGETS
from tests.security.kill_loop import STORES

ROOT = Path(__file__).parents[2]
COMMAND = "scripts/figures"
CUT_SHARES = 16
KILLS_EACH = 250
INPUTS_EACH = 200_000
INPUTS_ALL = 10_000_000
QUICK_TARGETS = ("template", "mustache", "embeddings", "http1")
"""Targets that take thousands of inputs a second: they make up what the others leave of `INPUTS_ALL`."""
FUZZ_TURNS = 8
"""Parts that the inputs of each quick target come in."""
MUTANTS_EACH = 102
MUTANT_SHARES = 6


@dataclass(frozen=True)
class Part:
    """One process: its name, its section of the figures, and how it is started (`--json FILE` is added)."""

    name: str
    section: str
    command: tuple[str, ...]
    is_alone: bool = False


def parts(scale: float = 1.0) -> list[Part]:
    """Every part, the longest first; a scale below 1 does that much of the work that can be counted."""

    def count(number: int) -> str:
        return str(max(1, round(number * scale)))

    run_parts = [
        Part(f"mutants-{name}-{k}", "mutants",
             ("tests.fuzz.mutants", "--only", name, "--each", count(MUTANTS_EACH), "--share", f"{k}/{MUTANT_SHARES}"))
        for name in SUBJECTS for k in range(1, MUTANT_SHARES + 1) if k <= int(count(MUTANTS_EACH))
    ]  # fmt: skip
    shares = range(1, 1 + max(1, round(CUT_SHARES * min(scale, 1.0))))
    run_parts += [
        Part(f"cuts-{k}", "cuts", ("tests.faults", "--long", "--only", "cuts", "--share", f"{k}/{CUT_SHARES}"))
        for k in shares
    ]  # fmt: skip
    remaining = max(0, INPUTS_ALL - INPUTS_EACH * len(TARGETS))
    turn = -(-remaining // (len(QUICK_TARGETS) * FUZZ_TURNS))
    for seed, name in enumerate(TARGETS, 1):
        run_parts.append(_fuzz(name, 0, seed, count(INPUTS_EACH)))
    for seed, name in enumerate(QUICK_TARGETS, 1000):
        run_parts += [_fuzz(name, k, seed + 10 * k, count(turn)) for k in range(1, FUZZ_TURNS + 1)]
    run_parts += [
        Part(f"kills-{name}", "kills",
             ("tests.security.kill_loop", "--kills", count(KILLS_EACH), "--stores", name))
        for name in STORES
    ]  # fmt: skip
    run_parts += [
        Part(name, name, ("tests.faults", "--long", "--only", name))
        for name in ("matrix", "embeddings", "cancels", "truncated_calls")
    ]
    run_parts += [
        Part(name, name, ("tests.faults", "--long", "--only", name), is_alone=True)
        for name in ("one_model", "held")
    ]
    return [*run_parts, Part("speed", "speed", ("tests.fuzz.speed",), is_alone=True)]


def _fuzz(name: str, turn: int, seed: int, inputs: str) -> Part:
    command = ("tests.fuzz.long", "--targets", name, "--inputs", inputs, "--seed", str(seed))
    return Part(f"fuzz-{name}-{turn}", "fuzz", command)


class Run:
    """The parts of one commit."""

    def __init__(self, folder: Path, parts: list[Part]) -> None:
        self.folder = folder
        self.chosen = parts
        folder.mkdir(parents=True, exist_ok=True)

    def is_done(self, part: Part) -> bool:
        return self._file(part).exists()

    def take(self, workers: int) -> list[str]:
        """Run the parts that are missing; give the names of those that failed."""
        missing = [part for part in self.chosen if not self.is_done(part)]
        print(f"{len(self.chosen) - len(missing)} of {len(self.chosen)} parts are here", flush=True)
        with ThreadPoolExecutor(workers) as threads:
            parallel_names = list(
                threads.map(self._take, [part for part in missing if not part.is_alone])
            )
        alone = [self._take(part) for part in missing if part.is_alone]
        return [name for name in (*parallel_names, *alone) if name]

    def _take(self, part: Part) -> str | None:
        start = time.monotonic()
        temporary = self._file(part).with_suffix(".part")
        command = [sys.executable, "-m", *part.command, "--json", str(temporary)]
        with self._file(part).with_suffix(".log").open("w") as log:
            code = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode
        seconds = round(time.monotonic() - start, 1)
        print(f"{part.name}: {seconds} s{'' if code == 0 else f', FAILED with {code}'}", flush=True)
        if not temporary.exists():
            return part.name
        figures = {"seconds": seconds, "figures": json.loads(temporary.read_text())}
        self._file(part).write_text(json.dumps(figures))  # last: an existing file is complete
        temporary.unlink()
        return None if code == 0 else part.name

    def sections(self) -> dict[str, Figures]:
        """Put the parts together, section by section."""
        by_section: dict[str, list[tuple[Figures, float]]] = {}
        for part in self.chosen:
            record = json.loads(self._file(part).read_text())
            figures = record["figures"].get(part.section, record["figures"])
            by_section.setdefault(part.section, []).append((figures, record["seconds"]))
        together = {}
        for section, figures_list in by_section.items():
            merge = MERGES.get(section, lambda merged_list: merged_list[0])
            seconds = round(sum(seconds for _, seconds in figures_list), 1)
            together[section] = {
                **merge([section_figures for section_figures, _ in figures_list]),
                "seconds": seconds,
            }
        return together

    def _file(self, part: Part) -> Path:
        return self.folder / f"{part.name}.json"


def merge_cuts(figures_list: list[Figures]) -> Figures:
    outcomes: dict[str, int] = {}
    for figures in figures_list:
        for name, number in figures["outcomes"].items():
            outcomes[name] = outcomes.get(name, 0) + number
    totals = {
        name: sum(figures[name] for figures in figures_list)
        for name in ("cuts", "with_invalid_tool_call", "wrong")
    }
    examples = [example for figures in figures_list for example in figures["examples"]][:5]
    return {**totals, "outcomes": outcomes, "ways": figures_list[0]["ways"], "examples": examples}


def _merge_named(
    name: str, add: Callable[[Figures, Figures], Figures]
) -> Callable[[list[Figures]], Figures]:
    def merge(figures_list: list[Figures]) -> Figures:
        together: Figures = {}
        for part in figures_list:
            for key, figures in part[name].items():
                together[key] = add(together[key], figures) if key in together else figures
        return {name: dict(sorted(together.items()))}

    return merge


def _add_fuzz(first: Figures, second: Figures) -> Figures:
    sums = {
        name: first[name] + second[name] for name in ("inputs", "refused", "seconds", "failures")
    }
    return {**sums, "rate": round(sums["inputs"] / sums["seconds"]) if sums["seconds"] else 0}


def _add_mutants(first: Figures, second: Figures) -> Figures:
    sums = {name: first[name] + second[name] for name in ("tried", "killed", "survivors")}
    return {**first, **sums}


MERGES: dict[str, Callable[[list[Figures]], Figures]] = {
    "cuts": merge_cuts,
    "fuzz": _merge_named("targets", _add_fuzz),
    "kills": _merge_named("stores", lambda first, second: second),
    "mutants": _merge_named("subjects", _add_mutants),
}


def missed(sections: dict[str, Figures]) -> list[str]:
    """Return a line for each target that was not met."""
    misses = [
        f"{name}: {figures['wrong']} wrong"
        for name, figures in sections.items()
        if figures.get("wrong")
    ]
    targets = sections["fuzz"]["targets"]
    misses += [
        f"fuzz: {name} has {figures['failures']} failures"
        for name, figures in targets.items()
        if figures["failures"]
    ]
    few = {
        name: figures["inputs"]
        for name, figures in targets.items()
        if figures["inputs"] < INPUTS_EACH
    }
    misses += [f"fuzz: {name} had {inputs:,} inputs" for name, inputs in few.items()]
    if (total := sum(figures["inputs"] for figures in targets.values())) < INPUTS_ALL:
        misses.append(f"fuzz: {total:,} inputs in all")
    stores = sections["kills"]["stores"]
    misses += [
        f"kills: {name} has {figures['faults']} faults"
        for name, figures in stores.items()
        if figures["faults"]
    ]
    misses += [
        f"kills: {name}: a kill had {figures['least']} records"
        for name, figures in stores.items()
        if figures["least"] < 10
    ]
    if (kills := sum(figures["kills"] for figures in stores.values())) < 1_000:
        misses.append(f"kills: {kills} in all")
    for name, figures in sections["mutants"]["subjects"].items():
        if figures["tried"] < 100 or figures["killed"] < 0.9 * figures["tried"]:
            misses.append(f"mutants: {name}: {figures['killed']} of {figures['tried']} killed")
    return misses


def commit_of(*, may_be_dirty: bool) -> str:
    """Return the commit whose figures these are; refuse a tree that differs from it."""
    changes = _git(
        "status", "--porcelain", "--", ".", ":!docs/reliability.md", ":!docs/reliability.json"
    )
    if changes and not may_be_dirty:
        raise SystemExit(
            f"commit first, for the figures name a commit (or pass --dirty):\n{changes}"
        )
    return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changes else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """Measure the missing parts; return 1 if a part failed or a target was missed."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="parts at a time")
    parser.add_argument(
        "--only", action="append", help="only sections of this name; nothing is saved"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="part of the work; below 1 nothing is saved"
    )
    parser.add_argument(
        "--dirty", action="store_true", help="allow a tree that is not committed; nothing is saved"
    )
    parser.add_argument(
        "--list", action="store_true", help="say which parts there are, and which are done"
    )
    options = parser.parse_args(arguments)
    commit = commit_of(may_be_dirty=options.dirty)
    scaled = "" if options.scale == 1 else f"-scale-{options.scale:g}"
    chosen_parts = [
        part for part in parts(options.scale) if not options.only or part.section in options.only
    ]
    run = Run(ROOT / ".figures" / f"{commit}{scaled}", chosen_parts)
    if options.list:
        for part in chosen_parts:
            print(
                f"{'done' if run.is_done(part) else '    '} {part.name}: {' '.join(part.command)}"
            )
        return 0
    failed = run.take(options.workers)
    if any(not run.is_done(part) for part in chosen_parts):
        print(
            f"not done: {', '.join(failed)}; see the .log files in {run.folder}, and run this again"
        )
        return 1
    sections = run.sections()
    for name, figures in sections.items():
        print(f"{name}: {figures['seconds']} s")
    if options.only or scaled or options.dirty:
        return 1 if failed else 0
    if commit_of(may_be_dirty=False) != commit:
        raise SystemExit(f"the commit changed during the run: these are the figures of {commit}")
    save_all(sections)
    misses = missed(sections)
    print("\n".join(misses) or "every target is met")
    return 1 if misses or failed else 0


def save_all(sections: dict[str, Any]) -> None:
    """Renew docs/reliability.json, all sections but the peers', and draw the page."""
    for name, figures in sections.items():
        keep(name, {**run_facts(COMMAND), **figures})


if __name__ == "__main__":
    sys.exit(main())
