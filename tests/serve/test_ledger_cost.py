"""What a hold and its settlement cost; `pytest -s tests/serve/test_ledger_cost.py -m slow` prints it."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from foldline.serve._keys import ApiKey
from foldline.serve._ledger import KeyLedger
from foldline.serve._log.run_log import ServerLog
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

CALLS = 1_000


def milliseconds(place: str) -> list[float]:
    log = ServerLog(place)
    key = ApiKey("owner", "me", budget=1e9, tpm=10**9)
    ledger = KeyLedger(log, key, app="app", run="run", queue_seconds=0.0)
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        ledger.settle(ledger.reserve(1_000, 0.5), 500, 0.25)
        times.append((time.perf_counter() - start) * 1000)
    log.close()
    return sorted(times[50:])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [("file", 1.0), ("postgres", 4.0)])
def test_S18_a_hold_and_its_settlement_are_cheap(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, most: float
) -> None:
    place = str(tmp_path / "runs.db") if kind == "file" else request.getfixturevalue("postgres_url")
    times = milliseconds(place)
    print(
        f"{kind}: p50 {statistics.median(times):.2f} ms, p95 {times[int(len(times) * 0.95)]:.2f} ms"
    )
    assert statistics.median(times) <= most
