"""`scripts/figures`: the parts make up the whole, what is done is not done again, a missed target is told."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

from tests.faults import figures
from tests.faults.cutting import cut_all
from tests.faults.figures import INPUTS_ALL, INPUTS_EACH, Part, Run, merge_cuts, missed, parts
from tests.faults.shares import share_of
from tests.fuzz.mutants import SUBJECTS, places
from tests.fuzz.targets import TARGETS
from tests.security.kill_loop import STORES, Loop

pytestmark = pytest.mark.timing

SOURCE = Path(__file__).parents[2] / "src"


def numbers_of(section: str, option: str) -> dict[str, int]:
    """What the parts of a section are told by an option, summed by what they work on."""
    found: dict[str, int] = {}
    for part in parts():
        if part.section == section:
            command = part.command
            name = command[2 if section != "kills" else command.index("--stores") + 1]
            found[name] = found.get(name, 0) + int(command[command.index(option) + 1])
    return found


def test_the_parts_ask_for_what_the_targets_want() -> None:
    inputs, kills = numbers_of("fuzz", "--inputs"), numbers_of("kills", "--kills")

    assert inputs.keys() == TARGETS.keys()
    assert min(inputs.values()) >= INPUTS_EACH == 200_000
    assert sum(inputs.values()) >= INPUTS_ALL == 10_000_000
    assert kills.keys() == STORES.keys()
    assert sum(kills.values()) >= 1_000
    assert len({part.name for part in parts()}) == len(parts())


@pytest.mark.parametrize("name", SUBJECTS)
def test_each_part_of_the_code_has_a_hundred_places_to_break(name: str) -> None:
    assert len(places(SOURCE, SUBJECTS[name][0])) >= 100


def test_a_part_that_is_done_is_not_run_again_and_one_that_failed_is(
    tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "part_of_a_run.py").write_text(
        "import json, sys, pathlib\n"
        "log = pathlib.Path(sys.argv[1]); log.write_text((log.read_text() if log.exists() else '') + 'x')\n"
        "if len(log.read_text()) == 1: sys.exit(3)\n"
        "pathlib.Path(sys.argv[3]).write_text(json.dumps({'n': 7}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = tmp_path / "log"
    run = Run(tmp_path / "run", [Part("p", "p", ("part_of_a_run", str(log)))])

    assert run.take(1) == ["p"]
    assert run.take(1) == []
    assert run.take(1) == []
    assert log.read_text() == "xx"
    assert run.sections()["p"]["n"] == 7


@pytest.mark.slow
def test_shares_of_the_cuts_are_all_the_cuts() -> None:
    whole = cut_all(401, ["bedrock"])
    several = [cut_all(401, ["bedrock"], share=(k, 3)) for k in range(3)]

    assert sum(one.cuts for one in several) == whole.cuts > 0
    assert sum((one.kinds for one in several), several[0].kinds.__class__()) == whole.kinds
    described = [
        {"cuts": one.cuts, "outcomes": dict(one.kinds), "with_invalid_tool_call": 0, "wrong": 0, "ways": "all",
         "examples": []}
        for one in several
    ]  # fmt: skip
    assert merge_cuts(described)["cuts"] == whole.cuts


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "-1/3", ""])
def test_a_share_is_one_of_so_many(text: str) -> None:
    assert share_of("2/3") == (1, 3)
    with pytest.raises(ArgumentTypeError):
        share_of(text)


def test_what_is_missed_is_told() -> None:
    good: dict[str, Any] = {
        "matrix": {"wrong": 0},
        "fuzz": {"targets": {name: {"inputs": 600_000, "failures": 0} for name in TARGETS}},
        "kills": {"stores": {name: {"kills": 250, "faults": 0, "least": 10} for name in STORES}},
        "mutants": {"subjects": {name: {"tried": 100, "killed": 90} for name in SUBJECTS}},
    }
    assert missed(good) == []

    bad = json.loads(json.dumps(good))
    bad["matrix"]["wrong"] = 1
    bad["fuzz"]["targets"]["sse"] = {"inputs": 10, "failures": 1}
    bad["kills"]["stores"]["cache"] = {"kills": 1, "faults": 1, "least": 9}
    bad["mutants"]["subjects"]["retry"]["killed"] = 89
    assert len(missed(bad)) == 7


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_every_counted_kill_had_ten_acknowledged_records(tmp_path: Path) -> None:
    tally = Loop("history", tmp_path, 5).run(6)

    assert tally.faults == []
    assert (tally.kills, tally.least >= 10) == (6, True)
    assert tally.acknowledged >= 60
    assert tally.before_the_first >= 1


def test_the_commit_is_named_and_a_changed_tree_is_refused(monkeypatch: Any) -> None:
    answers = {"status": " M src/x.py", "rev-parse": "abc1234"}
    monkeypatch.setattr(figures, "_git", lambda *arguments: answers[arguments[0]])

    with pytest.raises(SystemExit, match="commit first"):
        figures.commit_of(may_be_dirty=False)
    assert figures.commit_of(may_be_dirty=True) == "abc1234-dirty"
    answers["status"] = ""
    assert figures.commit_of(may_be_dirty=False) == "abc1234"
