"""The table of docs/serve.md agrees with the tests."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.serve.table import FEATURES, PAGE, ROWS, page_with_table


@pytest.mark.parametrize("client", ROWS)
def test_every_mark_names_a_test_that_is_there(client: str) -> None:
    assert len(ROWS[client]) == len(FEATURES)
    for cell in ROWS[client]:
        module, _, name = cell.partition(":")
        if name.startswith("test_"):
            assert callable(getattr(import_module(f"tests.serve.{module}"), name))


def test_the_page_has_the_table_of_now() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_with_table(), "python -m tests.serve.table"
