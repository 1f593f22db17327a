"""The worked examples of flows and graphs: an approval that survives a restart, a map-reduce over documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import map_reduce

EXAMPLE = Path(__file__).parents[2] / "examples" / "approval_flow.py"


def run(command: str, path: Path) -> list[str]:
    result = subprocess.run(
        [sys.executable, EXAMPLE, command, path], capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()


@pytest.mark.slow
def test_an_approval_goes_on_in_another_process(tmp_path):
    path = tmp_path / "orders.db"

    assert run("begin", path) == ["charge 20", "waiting: ship it?"]
    assert run("begin", path) == ["waiting: ship it?"]
    *shipped, result = run("approve", path)
    assert sorted(shipped) == ["ship cups", "ship tea"]
    assert result == "['tea is on its way', 'cups is on its way']"
    assert sorted(run("state", path)[0].partition(" ")[2]) == sorted(
        "['charge#0', 'ship#0', 'ship#1']"
    )


@pytest.mark.slow
def test_a_refused_order_is_refunded(tmp_path):
    path = tmp_path / "orders.db"
    run("begin", path)

    assert run("refuse", path) == ["refund 20", "order order-17 was refused"]


def test_every_document_is_summed_up(tmp_path, capsys):
    paths = []
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("some text")
        paths.append(str(tmp_path / name))

    result = map_reduce.main(paths, str(tmp_path / "summaries.db"))

    assert [summary.partition(":")[0] for summary in result["summaries"]] == [
        "a.txt",
        "b.txt",
        "c.txt",
    ]
    assert result["summary"] == "short"
