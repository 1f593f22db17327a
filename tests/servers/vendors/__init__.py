"""The vendors' wires of the server in `tests.servers.wires`: each reads a request and writes the one answer."""
