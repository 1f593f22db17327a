"""No option of an agent, a middleware, a graph or a tool takes a wrong value and ignores it."""

from __future__ import annotations

import pytest

from tests.options.agents_and_graphs import MIDDLEWARE, ROWS, TARGETS
from tests.options.matrix import (
    options_without_row,
    targets_without_unknown_option,
    wrong_outcome,
)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_wrong_value_has_the_outcome_of_its_row(row):
    assert wrong_outcome(row, TARGETS[row.target]) == ""


def test_every_option_has_a_row():
    assert options_without_row(TARGETS, ROWS) == []


def test_every_target_has_a_row_for_an_unknown_option():
    assert targets_without_unknown_option(TARGETS, ROWS) == []


def test_every_middleware_is_a_target():
    assert len(MIDDLEWARE) >= 16
    assert set(MIDDLEWARE) <= set(TARGETS)
