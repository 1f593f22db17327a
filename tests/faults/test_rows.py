"""Every row of the page of faults is shown by a test, or stands below with the reason why it cannot be.

A row is shown where the name or the docstring of a test (or of its file) says its number, or a scenario of the matrix
bears it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.faults.matrix import SCENARIOS

pytestmark = pytest.mark.timing

TESTS = Path(__file__).parents[1]
SAID = re.compile(r'def test\w*|""".*?"""', re.DOTALL)
"""Where a file of tests says which rows it shows: the names of its tests, and docstrings."""
NUMBER = re.compile(r"F[-_]?([STUHCDPKVXY])(\d\d)(?!\d)")

ROWS: dict[str, tuple[int, str]] = {
    "S": (13, "server-sent events"),
    "T": (18, "streams"),
    "U": (11, "tools and agents"),
    "H": (10, "HTTP"),
    "C": (14, "concurrency"),
    "D": (5, "serialisation"),
    "P": (4, "templates, files, URLs"),
    "K": (7, "stores and caches"),
    "V": (9, "server and traces"),
    "X": (1, "packaging"),
    "Y": (19, "found from outside"),
}
"""Area -> how many rows it has, numbered from 01."""

ABSENT: dict[str, str] = {}
"""Rows about things that do not exist."""


@cache
def rows_with_tests() -> set[str]:
    """Every row that a test or a scenario shows."""
    files = [path for path in TESTS.rglob("test_*.py") if path.name != Path(__file__).name]
    texts = [text for path in files for text in SAID.findall(path.read_text(encoding="utf-8"))]
    texts += [scenario.row for scenario in SCENARIOS]
    return {f"F-{area}{number}" for text in texts for area, number in NUMBER.findall(text)}


def rows() -> set[str]:
    return {
        f"F-{area}{number:02}"
        for area, (count, _) in ROWS.items()
        for number in range(1, count + 1)
    }


def test_every_row_is_shown_or_has_a_reason() -> None:
    missing = rows() - rows_with_tests() - ABSENT.keys()
    assert sorted(missing) == []


def test_no_reason_outlives_its_row_and_no_test_shows_a_row_that_is_none() -> None:
    assert sorted(ABSENT.keys() & rows_with_tests()) == []
    assert sorted(rows_with_tests() - rows()) == []
