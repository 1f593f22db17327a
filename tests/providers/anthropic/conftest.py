"""Servers for the tests of Anthropic: the fault server with scripts, and llama.cpp's server with the same wire."""

from tests.servers.fixtures import fault_server, fault_server_process
from tests.servers.llama import llama

__all__ = ["fault_server", "fault_server_process", "llama"]
