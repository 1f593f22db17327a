"""Servers for the tests of providers: one with scripted answers, one that is real."""

from __future__ import annotations

from tests.servers.fixtures import fault_server, fault_server_process
from tests.servers.llama import llama

__all__ = ["fault_server", "fault_server_process", "llama"]
