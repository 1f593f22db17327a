"""The fault server, for what fetches by itself."""

from tests.servers.fixtures import fault_server, fault_server_process  # noqa: F401
