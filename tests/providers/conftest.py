"""Servers for the tests of providers: one that answers as it is told, one that is real."""

from __future__ import annotations

from tests.servers.fixtures import fault_server, fault_server_process
from tests.servers.llama import llama

__all__ = ["fault_server", "fault_server_process", "llama"]
