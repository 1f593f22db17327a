"""Servers for the tests of `foldline serve`: one open to loopback, one with keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serve.process import ServeProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A server without keys, on loopback."""
    process = ServeProcess(tmp_path_factory.mktemp("serve")).start()
    yield process
    process.stop()


class KeyedServer(ServeProcess):
    """A server with keys."""

    first: str
    second: str


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    """A server with the keys of two owners."""
    process = KeyedServer(tmp_path_factory.mktemp("keyed"))
    process.first = process.add_key("first")
    process.second = process.add_key("second")
    process.start()
    yield process
    process.stop()
