"""Fixtures over the fault server; import the names into a `conftest.py` that wants them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.client import FaultServer


@pytest.fixture(scope="session")
def fault_server_process() -> Iterator[FaultServer]:
    """One process for the whole session."""
    with FaultServer.start() as server:
        yield server


@pytest.fixture
def fault_server(fault_server_process: FaultServer) -> FaultServer:
    """The fault server, with nothing taught and nothing seen."""
    fault_server_process.reset()
    return fault_server_process
