"""Anthropic: the fault server plays it, and llama.cpp's server speaks its wire for real."""

from tests.servers.fixtures import fault_server, fault_server_process
from tests.servers.llama import llama

__all__ = ["fault_server", "fault_server_process", "llama"]
