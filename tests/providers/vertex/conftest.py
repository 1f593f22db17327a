"""Vertex: a stub that checks tokens, and the fault server for what goes wrong; no variable of Google is set."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers.fixtures import fault_server, fault_server_process
from tests.servers.vertex import VertexStub

__all__ = ["fault_server", "fault_server_process"]

VARIABLES = ("GOOGLE_", "GCLOUD_", "GEMINI_", "CLOUDSDK_", "ANTHROPIC_", "CLOUD_ML_REGION")


@pytest.fixture(autouse=True)
def no_google_variables(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith(VARIABLES)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.fixture
def stub() -> Iterator[VertexStub]:
    with VertexStub.start() as server:
        yield server
