"""Every option of `bind_tools` and `with_structured_output`: a wrong value is an error, or is sent on."""

from __future__ import annotations

import pytest

from tests.options.matrix import options_without_row, wrong_outcome
from tests.options.structured_output import ROWS, TARGETS


def test_every_option_has_a_row():
    assert options_without_row(TARGETS, ROWS) == []


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_wrong_value_has_the_outcome_of_its_row(row):
    assert wrong_outcome(row, TARGETS[row.target]) == ""
