"""The savers that the rules of graphs are shown with."""

from __future__ import annotations

from uuid import uuid4

import pytest

from foldline.checkpoint import InMemorySaver, PostgresSaver, SqliteSaver
from tests.servers.databases import postgres_server

__all__ = ["postgres_server"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "graphs.db")) as sqlite_saver:
            yield sqlite_saver
    else:
        postgres_saver = PostgresSaver(request.getfixturevalue("postgres_server").url)
        try:
            yield postgres_saver
        finally:
            postgres_saver.close()


@pytest.fixture
def thread():
    """The config of a thread that no other test uses."""
    return {"configurable": {"thread_id": uuid4().hex}}
