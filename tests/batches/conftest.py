from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batches.stub import BatchStub
from tests.servers.databases import postgres_server  # noqa: F401


@pytest.fixture
def stub() -> Iterator[BatchStub]:
    server = BatchStub()
    yield server
    server.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"
