from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from foldline._storage.database import Database
from foldline._storage.open_database import open_database
from foldline._storage.schema import Schema
from tests.servers.databases import pgvector_server, pgvector_url, postgres_server, postgres_url

__all__ = ["pgvector_server", "pgvector_url", "postgres_server", "postgres_url"]

FRUIT = Schema(
    kind="fruit",
    tables=("foldline_fruit",),
    create="CREATE TABLE foldline_fruit (place {number}, name TEXT NOT NULL UNIQUE, weight {big})",
)

Open = Callable[[Schema], Database]


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that several processes may open."""
    if request.param == "file":
        return str(tmp_path / "fruit.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["file", "memory", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty table of fruit."""
    places: dict[str, Callable[[], str]] = {
        "file": lambda: str(tmp_path / "fruit.db"),
        "memory": lambda: ":memory:",
        "postgres": lambda: request.getfixturevalue("postgres_url"),
    }
    return open_database(places[request.param](), FRUIT)
