"""The harness of `scripts/bench`: one row runs, targets are judged, the page and its plots are drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import report
from benchmarks.__main__ import measure, regressions, start_stub, typical
from benchmarks.plots import draw
from benchmarks.table import ROWS, Row

PYTHONS = {"foldline": sys.executable, "peers": ""}
CALL = next(row for row in ROWS if row.name == "HTTP call, CPU")


@pytest.mark.slow
def test_a_row_is_measured_for_every_side_that_is_installed() -> None:
    process, stub = start_stub()
    try:
        row = Row(
            "one call",
            "http_scenarios.call",
            sides=("socket", "foldline", "langchain"),
            options={"count": 2},
        )
        found = measure(row, PYTHONS, stub, 1)
    finally:
        process.kill()
        process.communicate()
    assert set(found) == {"socket", "foldline"}
    assert all(value > 0 for value in found.values())


def test_a_target_is_met_missed_or_absent() -> None:
    assert CALL.met({"foldline": 1.0, "langchain": 10.0, "bare": 1.0}) is True
    assert CALL.met({"foldline": 2.0, "langchain": 10.0, "bare": 1.0}) is False
    assert CALL.met({"foldline": 3.0, "langchain": 100.0, "bare": 1.0}) is False
    assert CALL.met({"foldline": 3.0}) is None


def test_a_ratio_that_grew_by_over_a_quarter_is_a_regression() -> None:
    before = {CALL.name: {"ratio": 0.1}}
    assert regressions({CALL.name: {"foldline": 1.2, "langchain": 10.0}}, before) == []
    assert regressions({CALL.name: {"foldline": 1.3, "langchain": 10.0}}, before) != []


def test_the_page_is_drawn_from_the_results(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    found = {CALL.name: {"bare": 100.0, "foldline": 200.0, "langchain": 1000.0}}
    curves = {"cost-per-delta": [[100, {"foldline": 2.0}], [1000, {"foldline": 1.0}]]}
    report.write_page(tmp_path, report.results(found, curves, {}, ""))
    page = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "| HTTP call, CPU | 100 µs | 200 µs | 1,000 µs | 1/5.0 |" in page
    assert "**MISSED**" in page
    ElementTree.parse(tmp_path / "docs" / "images" / "cost-per-delta.svg")


def test_a_plot_of_one_point_is_still_a_plot() -> None:
    ElementTree.fromstring(draw("t", "x", "y", {"foldline": [(1, 1.0)]}))


def test_ratios_are_medians_of_what_was_seen_within_a_round() -> None:
    rounds = [
        {"foldline": 1.0, "langchain": 2.0, "bare": 0.5},  # 1/2, at the machine's best
        {"foldline": 4.0, "langchain": 40.0, "bare": 1.0},  # 1/10
        {
            "foldline": 9.0,
            "langchain": 45.0,
            "bare": 3.0,
        },  # 1/5: the median, though no number of it is
    ]
    assert typical(rounds) == {"foldline": 4.0, "langchain": 20.0, "bare": 4.0 / 3}
    assert typical([{"bare": 1.0}, {"bare": 3.0}, {"bare": 2.0}]) == {"bare": 2.0}
    assert typical([]) == {}


def test_a_check_measures_rows_that_have_a_ratio_and_do_not_take_long() -> None:
    checked = [row for row in ROWS if row.is_checked]
    assert CALL in checked
    assert CALL.compared == ("bare", "foldline", "langchain")
    assert not any(row.is_slow for row in checked)
    for row in checked:
        assert {"foldline", row.floor if row.peer is None else row.peer} <= set(row.compared)


def test_a_plot_may_begin_at_nothing() -> None:
    drawn = draw("t", "handlers", "µs", {"foldline": [(0, 30.0), (1, 60.0), (8, 110.0)]})
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
