"""Every option of every chat model: a wrong value is an error or is sent on, a right one reaches the request."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from foldline.language_models import FakeListChatModel
from tests.options.matrix import options_without_row, wrong_outcome
from tests.options.models import (
    CLASSES,
    KEPT,
    ROWS,
    SENT,
    TARGETS,
    build,
    explain,
    nonsense_rows,
)

SPEAKERS = {name: cls for name, cls in CLASSES.items() if hasattr(cls, "explain")}
"""The models that can show their request."""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Warnings are a part of being sent on; the keys of the environment are of no use here."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_every_option_has_a_row():
    assert options_without_row(TARGETS, ROWS) == []


def test_every_option_is_sent_or_kept():
    options = {option for target in TARGETS.values() for option in target.options}

    assert sorted(options - SENT.keys() - KEPT) == []
    assert sorted(SENT.keys() & KEPT) == []
    assert sorted((SENT.keys() | KEPT) - options) == []


@pytest.mark.parametrize("name", TARGETS)
def test_a_value_of_a_wrong_type_is_an_error_that_names_the_option(name):
    rows = [row for row in ROWS if row.target == name]

    assert {str(row): fault for row in rows if (fault := wrong_outcome(row, TARGETS[name]))} == {}


@pytest.mark.parametrize("name", TARGETS)
def test_nonsense_is_an_error_or_is_sent_on(name):
    rows = nonsense_rows(name)

    assert {str(row): fault for row in rows if (fault := wrong_outcome(row, TARGETS[name]))} == {}


@pytest.mark.parametrize("name", SPEAKERS)
def test_a_right_value_shows_in_the_request_or_in_its_notes(name):
    cls = SPEAKERS[name]
    ignored = []
    for option, (value, call_options) in SENT.items():
        if option in cls.model_fields:
            before = explain(build(cls), **call_options)
            after = explain(build(cls, **{option: value}), **call_options)
            if before == after:
                ignored.append(option)

    assert ignored == []


@pytest.mark.parametrize("name", SPEAKERS)
def test_an_unknown_option_is_sent_on_with_a_warning(name):
    with pytest.warns(UserWarning, match="does not know") as warned:
        model = build(SPEAKERS[name], nonsense_option=1)

    assert "nonsense_option" in str(warned[0].message)
    assert "nonsenseoption" in repr(explain(model)).replace("_", "").lower()


def test_an_unknown_argument_of_a_model_of_ones_own_is_a_warning():
    class Own(FakeListChatModel):
        """A model of the program."""

    with pytest.warns(
        UserWarning,
        match=r"Own does not know nonsense, rate_limitr \(did you mean 'rate_limiter'\?\)",
    ):
        Own(responses=["a"], nonsense=1, rate_limitr=2)
