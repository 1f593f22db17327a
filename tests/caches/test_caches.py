"""The same tests for every cache, PostgreSQL and Redis on real servers."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldline.caches import BaseCache, InMemoryCache, PostgresCache, RedisCache, SQLiteCache
from foldline.exceptions import StoreError, UsageError
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, Generation
from tests.servers.databases import Server

pytestmark = pytest.mark.timing

ANSWER = [
    ChatGeneration(
        message=AIMessage(
            content="hello", id="m1", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}]
        )
    )
]


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> BaseCache:
    if request.param == "memory":
        return InMemoryCache()
    if request.param == "sqlite":
        return SQLiteCache(tmp_path / "cache.db")
    if request.param == "postgres":
        return PostgresCache(request.getfixturevalue("postgres_url"))
    redis_cache = RedisCache(
        request.getfixturevalue("redis_server").url, prefix=f"test:{time.monotonic_ns()}:"
    )
    redis_cache.clear()
    return redis_cache


def test_an_answer_is_found_again_equal(cache: BaseCache) -> None:
    cache.update("prompt", "model", ANSWER)

    assert cache.lookup("prompt", "model") == ANSWER


def test_the_async_twins_do_the_same(cache: BaseCache) -> None:
    async def use() -> list[object]:
        before = await cache.alookup("prompt", "model")
        await cache.aupdate("prompt", "model", ANSWER)
        answer = await cache.alookup("prompt", "model")
        await cache.aclear()
        return [before, answer, await cache.alookup("prompt", "model")]

    assert asyncio.run(use()) == [None, ANSWER, None]


def test_F_K07_prompt_and_model_do_not_run_into_each_other(cache: BaseCache) -> None:
    cache.update("ab", "c", [Generation(text="one")])
    cache.update("a", "bc", [Generation(text="two")])

    assert cache.lookup("ab", "c") == [Generation(text="one")]
    assert cache.lookup("a", "bc") == [Generation(text="two")]
    assert cache.lookup("abc", "") is None


def test_an_answer_is_replaced(cache: BaseCache) -> None:
    cache.update("p", "m", [Generation(text="old")])
    cache.update("p", "m", [Generation(text="new")])

    assert cache.lookup("p", "m") == [Generation(text="new")]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(prompt=st.text(), model=st.text(), text=st.text())
def test_any_text_is_a_key_and_a_value(
    cache: BaseCache, prompt: str, model: str, text: str
) -> None:
    cache.update(prompt, model, [Generation(text=text)])

    assert cache.lookup(prompt, model) == [Generation(text=text)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "value",
    [
        '{"half',
        '{"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}',
        "[1]",
        '"x"',
    ],
)
def test_F_K02_a_damaged_or_hostile_row_is_a_miss(
    kind: str, value: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "sqlite":
        cache: BaseCache = SQLiteCache(tmp_path / "cache.db")
        connection = sqlite3.connect(tmp_path / "cache.db")
    else:
        url = request.getfixturevalue("postgres_url")
        cache, connection = PostgresCache(url), psycopg.connect(url)
    cache.update("p", "m", ANSWER)
    mark = "?" if kind == "sqlite" else "%s"
    with connection:
        connection.execute(f"UPDATE foldline_answers SET value = {mark}", (value,))
    connection.close()

    assert cache.lookup("p", "m") is None


def test_clear_of_one_prefix_leaves_others(redis_server: Server) -> None:
    first, other = (
        RedisCache(redis_server.url, prefix="a[b]*:"),
        RedisCache(redis_server.url, prefix="ab:"),
    )
    first.update("p", "m", ANSWER)
    other.update("p", "m", ANSWER)

    first.clear()

    assert first.lookup("p", "m") is None
    assert other.lookup("p", "m") == ANSWER


def test_answers_grow_old(tmp_path: Path, postgres_url: str, redis_server: Server) -> None:
    for cache in (
        SQLiteCache(tmp_path / "c.db", ttl=0.05),
        PostgresCache(postgres_url, ttl=0.05),
        RedisCache(redis_server.url, ttl=0.05, prefix="old:"),
    ):
        cache.update("p", "m", ANSWER)
        time.sleep(0.12)

        assert cache.lookup("p", "m") is None


def test_a_cache_in_postgres_is_shared_by_those_who_open_it(postgres_url: str) -> None:
    PostgresCache(postgres_url).update("p", "m", ANSWER)

    assert PostgresCache(postgres_url).lookup("p", "m") == ANSWER


def test_a_postgres_that_is_not_there_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="PostgreSQL"):
        PostgresCache("postgresql://127.0.0.1:1/none")


def test_a_redis_that_is_not_there_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="is the server running"):
        RedisCache("redis://127.0.0.1:1/0").lookup("p", "m")


def test_a_bounded_cache_drops_the_oldest() -> None:
    cache = InMemoryCache(maxsize=2)
    for key in "abc":
        cache.update(key, "m", ANSWER)

    assert [cache.lookup(key, "m") is None for key in "abc"] == [True, False, False]
    with pytest.raises(UsageError, match="maxsize"):
        InMemoryCache(maxsize=0)
