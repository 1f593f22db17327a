"""Caches of the results of nodes: the same in memory and in a file."""

from __future__ import annotations

import pytest

from foldline.graph import InMemoryCache, SqliteCache


@pytest.fixture(params=["memory", "sqlite"])
def cache(request, tmp_path):
    return InMemoryCache() if request.param == "memory" else SqliteCache(tmp_path / "cache.db")


def test_a_result_is_stored_replaced_and_read(cache):
    cache.set(("a",), "k", "old", 60)
    cache.set(("a",), "k", "new", None)

    assert cache.get(("a",), "k") == "new"
    assert cache.get(("a",), "other") is None
    assert cache.get(("a", "k"), "k") is None


def test_an_expired_result_is_a_miss(cache):
    cache.set(("a",), "k", "old", -1)

    assert cache.get(("a",), "k") is None


def test_clear_deletes_the_results_of_one_namespace_or_of_all(cache):
    for name in "ab":
        cache.set((name,), "k", name, None)

    cache.clear(("a",))
    assert [cache.get((name,), "k") for name in "ab"] == [None, "b"]
    cache.clear()
    assert cache.get(("b",), "k") is None
