"""Bedrock: a stub that checks signatures, and the fault server for what goes wrong; no variable of AWS is set."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers.bedrock import BedrockStub
from tests.servers.fixtures import fault_server, fault_server_process

__all__ = ["fault_server", "fault_server_process"]


@pytest.fixture(autouse=True)
def no_aws_variables(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


@pytest.fixture
def stub() -> Iterator[BedrockStub]:
    with BedrockStub.start() as server:
        yield server
