"""Effects happen once: processes that answer one question, and runs that are killed. The full size: `once.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foldline
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name if name == "sqlite" else str(request.getfixturevalue("postgres_url"))


def run(store: str, *arguments: str) -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-m", "tests.workflows.once", "--store", store, *arguments],
        cwd=Path(foldline.__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    (result,) = json.loads(process.stdout).values()
    assert isinstance(result, dict)
    return result


def test_G13_of_several_processes_that_answer_a_question_one_has_the_effect(store: str):
    race = run(store, "--rounds", "12", "--processes", "3", "--kills", "0")["race"]

    assert (race["hung"], race["errors"]) == (0, [])
    assert race["outcomes"] == {"done": 12, "nothing to resume": 24}
    assert race["effects"] == race["rounds with one effect"] == 12


def test_G15a_a_killed_run_repeats_no_finished_effect_and_the_last_one_with_its_key(store: str):
    kill = run(store, "--rounds", "0", "--kills", "6")["kill"]

    assert kill["faults"] == []
    assert kill["kills"] >= 6
    assert kill["effects"] >= 4 * kill["runs"] - kill["unknown effects of run_once"]
