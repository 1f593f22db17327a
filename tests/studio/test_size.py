"""Large files: the list and a search stay quick, and the first rows show within a second."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from foldline.tracers import TraceStore
from foldline.tracers._database import TraceDatabase
from foldline.tracers._index import index_words
from foldline.tracers.store import TraceFilters
from tests.studio.test_page import write_many

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.timeout(1200)]


NOTE_FIRST_ROWS = """
const look = () => document.querySelector(".row .question")
  ? requestAnimationFrame(() => (window.firstRows = performance.now()))
  : requestAnimationFrame(look);
requestAnimationFrame(look);
"""
"""Milliseconds from the beginning of the navigation to the first frame with rows."""


def quickest(function: Any, times: int = 5) -> float:
    durations = []
    for _ in range(times):
        start_time = time.perf_counter()
        function()
        durations.append(time.perf_counter() - start_time)
    return min(durations)


def test_a_hundred_thousand_runs_are_listed_and_searched_at_once(tmp_path: Path):
    path = tmp_path / "traces.db"
    write_many(path, 100_000)
    index_words(TraceDatabase(path))
    store = TraceStore(path)

    assert quickest(lambda: store.find(limit=50)) < 0.05
    assert quickest(lambda: store.find(limit=50, offset=99_000)) < 0.2
    assert quickest(lambda: store.find(TraceFilters(text="lorem dolor"), limit=50)) < 0.5
    assert quickest(lambda: store.find(TraceFilters(model="model-3"), limit=50)) < 0.5
    assert quickest(lambda: store.values("model")) < 0.05


@pytest.mark.parametrize(
    ("count", "size"), [(10_000, 100_000), (300_000, 3_000)], ids=["long", "many"]
)
def test_the_first_rows_of_a_gigabyte_show_within_a_second(
    start: Any, tmp_path: Path, open_page: Any, count: int, size: int
):
    write_many(tmp_path / "traces.db", count, size=size)
    assert (tmp_path / "traces.db").stat().st_size > 1_000_000_000
    studio = start()
    page = open_page(studio)
    page.wait_for_selector(".row .question")

    page.add_init_script(NOTE_FIRST_ROWS)
    times = []
    for _ in range(5):
        page.goto("about:blank")
        page.goto(studio.url)
        page.wait_for_selector(f"text=question {count - 1}")
        times.append(page.evaluate("window.firstRows"))

    assert min(times) < 1_000
    assert quickest(lambda: studio.get("figures"), 3) < 1


def test_a_million_runs_are_listed_and_searched_at_once(tmp_path: Path):
    path = tmp_path / "traces.db"
    write_many(path, 1_000_000)
    index_words(TraceDatabase(path))
    store = TraceStore(path)

    assert quickest(lambda: store.find(limit=50)) < 0.05
    assert quickest(lambda: store.find(TraceFilters(text="lorem dolor"), limit=50)) < 0.5
    assert quickest(lambda: store.find(TraceFilters(text="question 999999"), limit=50)) < 0.5
    assert quickest(lambda: store.find(TraceFilters(model="model-3"), limit=50)) < 0.5
    assert quickest(store.under_way) < 0.05
    assert quickest(store.newest_place) < 0.05
    day = time.time()
    assert quickest(lambda: store.figures(day - 86_400, day, 1_800), 3) < 1
