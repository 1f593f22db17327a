"""docs/reliability.md shows the figures that the runs kept, and no others."""

from __future__ import annotations

import json

from tests.security.page import BEGIN, END, KEPT, NOT_YET, PAGE, ROWS, draw, renewed


def test_the_page_is_drawn_from_the_figures():
    page = PAGE.read_text(encoding="utf-8")
    sections = json.loads(KEPT.read_text(encoding="utf-8"))
    assert renewed(page, sections) == page, "run python -m tests.security.page"


def test_a_figure_that_was_not_taken_says_so():
    table = draw({})
    assert table.count(NOT_YET) == len(ROWS)
    assert renewed(f"before {BEGIN} old {END} after", {}).startswith("before ")


def test_the_figures_are_without_fault():
    sections = json.loads(KEPT.read_text(encoding="utf-8"))
    assert {
        name: section["wrong"] for name, section in sections.items() if section.get("wrong")
    } == {}
    kills, fuzz = sections["kills"]["stores"], sections["fuzz"]["targets"]
    assert sum(store["kills"] for store in kills.values()) >= 1_000
    assert sum(store["faults"] for store in kills.values()) == 0
    assert sum(target["failures"] for target in fuzz.values()) == 0
