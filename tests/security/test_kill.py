"""F-K01, the part that runs each time: twenty kills. A thousand are `python -m tests.security.kill_loop`."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security.kill_loop import STORES, Loop, number_of, payload

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_F_K01_nothing_acknowledged_is_lost_or_torn_by_kill_9(tmp_path: Path):
    """In a process of its own: it forks, and must have no threads."""
    figures = tmp_path / "kills.json"
    command = [
        sys.executable,
        "-m",
        "tests.security.kill_loop",
        "--kills",
        "20",
        "--json",
        str(figures),
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    stores = json.loads(figures.read_text())["stores"]
    assert {
        kind: (store["kills"], store["faults"]) for kind, store in stores.items()
    } == dict.fromkeys(STORES, (5, 0))
    assert sum(store["acknowledged"] for store in stores.values()) > 0


@pytest.mark.parametrize("kind", ["history", "checkpoints"])
def test_the_loop_sees_what_is_lost_torn_or_out_of_order(kind: str, tmp_path: Path):
    loop, path = Loop(kind, tmp_path, 1), tmp_path / "x.db"
    store = STORES[kind](path)
    store.append([0, 1, 2])
    store.append([3, 4, 5])
    store.close()
    loop._check(path, 6)
    with pytest.raises(AssertionError, match="9 acknowledged"):
        loop._check(path, 9)
    with pytest.raises(AssertionError, match="6 there"):
        loop._check(path, 0)

    table = "foldline_messages" if kind == "history" else "foldline_checkpoints"
    column = "value" if kind == "history" else "body"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            f"UPDATE {table} SET {column} = replace({column}, '1:', '1:9') WHERE rowid = 2"
        )
    connection.close()
    with pytest.raises(ValueError, match=r"torn|damaged|unpack"):
        loop._check(path, 6)


def test_a_torn_record_is_known():
    assert number_of(payload(41)) == 41
    with pytest.raises(ValueError, match="torn"):
        number_of(payload(41)[:-1])


FULL = """
import resource, signal, sys
from pathlib import Path
from tests.security.kill_loop import BATCH, STORES
from foldline.exceptions import StoreError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
store, number = STORES[sys.argv[1]](Path(sys.argv[2])), 0
try:
    while number < 3000:
        store.append(list(range(number, number + BATCH)))
        number += BATCH
except StoreError as error:
    print(number, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["history", "checkpoints", "cache"])
def test_F_K01_a_file_that_can_grow_no_more_is_a_store_error_and_keeps_what_it_has(
    kind: str, tmp_path: Path
):
    """As on a full disk: a limit of the system on the size of files refuses the write."""
    path = tmp_path / "x.db"
    command = [sys.executable, "-c", FULL, kind, str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    count, _, error_text = result.stdout.partition(" ")
    assert str(path) in error_text, result.stdout + result.stderr
    assert int(count) > 0
    Loop(kind, tmp_path, 1)._check(path, int(count))
