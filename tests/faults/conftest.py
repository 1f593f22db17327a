"""Shared by the tests of faults: the fault server, and a probe that counts leaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.probe import Probe
from tests.servers.client import FaultServer
from tests.servers.fixtures import fault_server, fault_server_process  # noqa: F401


@pytest.fixture
def probe(fault_server: FaultServer) -> Iterator[Probe]:
    """Everything is back where it was within a second of the test's end, without the garbage collector (E7)."""
    with Probe(fault_server) as probe:
        yield probe
