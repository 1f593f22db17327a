from __future__ import annotations

import subprocess
import sys
from uuid import uuid4

import psycopg
import pytest

from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import StoreError, UsageError
from foldline.vectorstores import PostgresVectorStore
from foldline.vectorstores._filters import parse_filter
from foldline.vectorstores._sql_filter import compile_filter
from tests.servers.databases import _accepts, free_port, wait_until


def texts(documents):
    return [document.page_content for document in documents]


def open_store(server, embedding, name=None):
    return PostgresVectorStore(embedding, server.url, collection=name or str(uuid4()))


def test_a_filter_becomes_constants_and_bound_values():
    hostile = "'); DROP TABLE x; --"
    text, values = compile_filter(parse_filter({hostile: hostile, "n": {"$gt": 3}}))
    assert hostile not in text
    assert values == [hostile, '"\'); DROP TABLE x; --"', "n", "n", "3"]
    with pytest.raises(UsageError, match="not JSON"):
        compile_filter(parse_filter({"a": object()}))
    with pytest.raises(UsageError, match="use a finite number"):
        compile_filter(parse_filter({"a": {"$lt": float("nan")}}))


@pytest.mark.slow
def test_two_stores_on_one_collection_see_each_other(postgres_server, plane, call):
    first = open_store(postgres_server, plane, name := str(uuid4()))
    other = open_store(postgres_server, plane, name)
    call.run(first, "add_texts", ["1 0"], ids=["a"])
    assert texts(call.run(other, "similarity_search", "1 0")) == ["1 0"]
    with pytest.raises(UsageError, match="holds vectors of 2 numbers"):
        call.run(other, "add_texts", ["1 0 0"])


def test_a_store_is_made_with_langchains_word_for_the_connection(postgres_server, plane, call):
    store = call.run(
        PostgresVectorStore,
        "from_texts",
        ["1 0"],
        plane,
        connection=postgres_server.url,
        collection=str(uuid4()),
    )
    assert texts(call.run(store, "similarity_search", "1 0")) == ["1 0"]


def test_the_tables_have_a_version_and_a_newer_one_is_refused(plane, postgres_url):
    PostgresVectorStore(plane, postgres_url).add_texts(["1 0"])
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        versions = connection.execute("SELECT kind, version FROM foldline_schema").fetchall()
        connection.execute("UPDATE foldline_schema SET version = 9")
    assert versions == [("vectors", 1)]
    with pytest.raises(StoreError, match="version 9 of 'vectors', this one knows version 1"):
        PostgresVectorStore(plane, postgres_url)


@pytest.mark.slow
def test_an_index_makes_searches_approximate_and_filters_still_give_k(pgvector_server, call):
    store = open_store(pgvector_server, DeterministicFakeEmbedding(size=7))
    with pytest.raises(UsageError, match="add documents first"):
        store.create_index()
    names = [f"text {n}" for n in range(3000)]
    store.add_texts(names, [{"n": n % 100} for n in range(3000)])
    exact = [texts(store.similarity_search(name, k=10)) for name in names[:20]]
    store.create_index()
    store.create_index()
    near = [texts(call.run(store, "similarity_search", name, k=10)) for name in names[:20]]
    common = sum(len({*a} & {*b}) for a, b in zip(exact, near, strict=True))
    assert common >= 190
    assert len(call.run(store, "similarity_search", "text 1", k=20, filter={"n": 7})) == 20
    with psycopg.connect(pgvector_server.url) as connection:
        statement, values = store._query(_row(store, "text 1"), None, with_vectors=False)
        connection.execute("SET enable_seqscan = off")
        explain = f"EXPLAIN {statement} LIMIT 4".replace("?", "%s")
        plan = connection.execute(explain, values).fetchall()
    assert "foldline_vectors_hnsw_7" in str(plan)


def _row(store, text):
    from foldline.vectorstores._vectors import as_query

    return as_query(store.embedding.embed_query(text), None)


def test_what_the_server_has_not_is_said(postgres_server, pgvector_server, plane):
    with pytest.raises(UsageError, match="no pgvector extension"):
        PostgresVectorStore(plane, postgres_server.url, pgvector=True)
    open_store(pgvector_server, plane)
    with pytest.raises(UsageError, match="holds pgvector's vectors"):
        PostgresVectorStore(plane, pgvector_server.url, pgvector=False)
    with pytest.raises(UsageError, match="does not have"):
        open_store(postgres_server, plane).create_index()
    with pytest.raises(UsageError, match="text that PostgreSQL can store"):
        open_store(postgres_server, plane, "a\0b")


def test_a_server_that_is_not_there_is_told(plane):
    with pytest.raises(StoreError, match="PostgreSQL"):
        PostgresVectorStore(plane, f"postgresql://foldline@127.0.0.1:{free_port()}/postgres")


@pytest.mark.slow
def test_F_K03_a_server_that_restarts_is_found_again(pgvector_server, plane, call):
    store = open_store(pgvector_server, plane)
    call.run(store, "add_texts", ["1 0"])
    pgvector_server.stop()
    try:
        with pytest.raises(StoreError, match="nothing of this operation was written"):
            call.run(store, "similarity_search", "1 0")
    finally:
        pgvector_server.start()
        wait_until(lambda: _accepts(pgvector_server.url), "postgres")
    assert texts(call.run(store, "similarity_search", "1 0")) == ["1 0"]


def test_F_K01_a_batch_is_written_whole_or_not_at_all(postgres_server, plane, call):
    store = open_store(postgres_server, plane)
    with pytest.raises(UsageError, match="cannot store"):
        call.run(store, "add_texts", ["1 0", "0 1"], [{}, {"a": "\0"}])
    assert call.run(store, "similarity_search", "1 0") == []


@pytest.mark.slow
def test_F_K04_writers_in_two_processes_lose_nothing(postgres_server):
    name = str(uuid4())
    code = f"""
import sys
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.vectorstores import PostgresVectorStore
who = sys.argv[1]
store = PostgresVectorStore(DeterministicFakeEmbedding(size=3), {postgres_server.url!r}, collection={name!r})
for n in range(20):
    shared = [f"shared {{part}}" for part in range(5)]
    store.add_texts([who + str(n), *shared], ids=[who + str(n), *(shared if who == "a" else shared[::-1])])
"""
    running = [subprocess.Popen([sys.executable, "-c", code, who]) for who in "ab"]
    assert [process.wait() for process in running] == [0, 0]
    store = open_store(postgres_server, DeterministicFakeEmbedding(size=3), name)
    assert len(store.similarity_search("x", k=1000)) == 45
