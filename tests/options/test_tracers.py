"""Every option of a tracer and of `foldline.tracing`: a wrong value is an error at construction that names it."""

from __future__ import annotations

import pytest

from tests.options.matrix import (
    options_without_row,
    targets_without_unknown_option,
    wrong_outcome,
)
from tests.options.tracers import ROWS, TARGETS


def test_every_option_has_a_row():
    assert options_without_row(TARGETS, ROWS) == []
    assert targets_without_unknown_option(TARGETS, ROWS) == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_wrong_value_has_the_outcome_of_its_row(row):
    assert wrong_outcome(row, TARGETS[row.target]) == ""
