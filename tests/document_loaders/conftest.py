"""The server whose answers a test scripts."""

from tests.servers.fixtures import fault_server, fault_server_process

__all__ = ["fault_server", "fault_server_process"]
