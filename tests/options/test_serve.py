"""Every option of a server and of its client: a wrong value is an error at construction that names the option."""

from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.serve import ServeSettings, create_app
from tests.options.matrix import (
    options_without_row,
    targets_without_unknown_option,
    wrong_outcome,
)
from tests.options.serve import ROWS, TARGETS, model


def test_every_option_has_a_row():
    assert options_without_row(TARGETS, ROWS) == []
    assert targets_without_unknown_option(TARGETS, ROWS) == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_wrong_value_has_the_outcome_of_its_row(row):
    assert wrong_outcome(row, TARGETS[row.target]) == ""


def test_options_beside_settings_are_refused_because_one_would_have_no_effect():
    with pytest.raises(
        UsageError, match=r"settings=ServeSettings\(…\) or options \(max_runs\), not both"
    ):
        create_app(model(), settings=ServeSettings(), max_runs=3)
