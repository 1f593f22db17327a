"""Many agent calls at once on one saver, in a process that may open few files.

`FOLDLINE_TEST_CALLS=2000` makes 2,000 calls instead of a few on a SQLite file, and a quarter of them on PostgreSQL.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foldline

CALLS = int(os.environ.get("FOLDLINE_TEST_CALLS", "160"))


def run(place: str, mode: str, count: int, descriptors: int) -> Any:
    command = [sys.executable, "-m", "tests.storage.many_calls", place, mode, str(count)]
    finished = subprocess.run(
        [*command, str(descriptors)],
        cwd=Path(foldline.__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(finished.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_many_calls_at_once_on_one_file_are_all_answered(mode: str, tmp_path: Path):
    found = run(str(tmp_path / "threads.db"), mode, CALLS, 256)

    assert found["outcomes"] == {"answered": CALLS}
    assert found["stored"] == CALLS
    assert found["most"] < 64  # eight connections of three files each, and what the process needs


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_many_calls_at_once_on_postgres_share_eight_connections(mode: str, postgres_url: str):
    found = run(postgres_url, mode, CALLS // 4, 64)

    assert found["outcomes"] == {"answered": CALLS // 4}
    assert found["stored"] == CALLS // 4
