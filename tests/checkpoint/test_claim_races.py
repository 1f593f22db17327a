"""Processes that race for one thread: one owner at a time, whoever is killed or stands still.

`FOLDLINE_TEST_CLAIMS=500` has eight processes with 500 victims instead of a few.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import foldline

VICTIMS = int(os.environ.get("FOLDLINE_TEST_CLAIMS", "8"))
PROCESSES = 3 if VICTIMS < 100 else 8

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc"),
    pytest.mark.slow,
    pytest.mark.timeout(120 + 3 * VICTIMS),
]


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "threads.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.mark.parametrize("mode", ["near", "far"])
def test_one_process_at_a_time_owns_a_thread(place: str, mode: str, tmp_path: Path):
    victims = VICTIMS if mode == "near" else max(2, VICTIMS // 10)
    arguments = [place, str(tmp_path), mode, str(PROCESSES), str(victims), "1"]

    race = subprocess.run(
        [sys.executable, "-m", "tests.checkpoint.claim_race", *arguments],
        cwd=Path(foldline.__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert race.returncode == 0, race.stderr
    result = json.loads(race.stdout)
    print(result)
    assert result["errors"] == []
    assert result["finished"] >= victims
    for never in (
        "two inside",
        "epochs of two writers",
        "writes after a take-over",
        "finished twice",
        "finished with a loss",
    ):
        assert result[never] == 0, result
    if mode == "far":
        assert (
            result["conflicts"] >= victims // 2
        )  # those that stood still found their thread taken
