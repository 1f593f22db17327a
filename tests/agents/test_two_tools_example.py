"""The example with two tools, end to end on the embedded model: no network, no key."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "two_tools.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_embedded_model_calls_both_tools_and_answers(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")

    output = capsys.readouterr().out
    assert "calls get_weather {'city': 'Paris'}" in output
    assert "got   It is sunny and 21 degrees in Paris." in output
    assert "calls get_price" in output
    assert output.count("  done") == 2
