"""The fault matrix: scenarios × wires × entry points over loopback; nothing silent, nothing untyped (E1 to E5, E7)."""

from __future__ import annotations

import pytest

from tests.faults.matrix import EVERY_WIRE, SCENARIOS, Injector
from tests.faults.probe import Probe
from tests.faults.wires import ENTRIES
from tests.servers import FaultServer

pytestmark = pytest.mark.timing


def test_the_matrix_is_as_large_as_it_says() -> None:
    answer_count = sum(
        scenario.answers(wire) is not None for scenario in SCENARIOS for wire in EVERY_WIRE.values()
    )
    assert len({scenario.id for scenario in SCENARIOS}) == len(SCENARIOS) >= 150
    assert answer_count * len(ENTRIES) >= 2_000


@pytest.mark.slow
@pytest.mark.parametrize("row", sorted({scenario.row for scenario in SCENARIOS}))
def test_a_fault_is_told_typed_and_loses_nothing(
    row: str, fault_server: FaultServer, probe: Probe
) -> None:
    scenarios = [scenario for scenario in SCENARIOS if scenario.row == row]
    report = Injector(fault_server).run(scenarios)
    assert report.injected >= len(scenarios) * len(ENTRIES)
    assert report.faults == []
