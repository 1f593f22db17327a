"""docs/reliability.md shows the figures that the runs kept, and no others."""

from __future__ import annotations

import json

from tests.security.page import BEGIN, END, KEPT, NOT_YET, PAGE, ROWS, draw, renewed


def test_the_page_is_drawn_from_the_figures():
    page = PAGE.read_text(encoding="utf-8")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert renewed(page, kept) == page, "run python -m tests.security.page"


def test_a_figure_that_was_not_taken_says_so():
    table = draw({})
    assert table.count(NOT_YET) == len(ROWS)
    assert renewed(f"before {BEGIN} old {END} after", {}).startswith("before ")


def test_the_figures_are_without_fault():
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert {name: one["wrong"] for name, one in kept.items() if one.get("wrong")} == {}
    kills, fuzz = kept["kills"]["stores"], kept["fuzz"]["targets"]
    assert sum(one["kills"] for one in kills.values()) >= 1_000
    assert sum(one["faults"] for one in kills.values()) == 0
    assert sum(one["failures"] for one in fuzz.values()) == 0
