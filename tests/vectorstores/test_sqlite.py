from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from foldline.exceptions import StoreError, UsageError
from foldline.vectorstores import SQLiteVectorStore

pytestmark = pytest.mark.timing


@pytest.fixture
def path(tmp_path):
    return tmp_path / "v.db"


def texts(documents):
    return [document.page_content for document in documents]


def in_another_process(path, body):
    code = f"""
import sys
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.vectorstores import SQLiteVectorStore
store = SQLiteVectorStore(DeterministicFakeEmbedding(size=4), {str(path)!r})
{textwrap.dedent(body)}
"""
    return [sys.executable, "-c", code]


def test_a_file_that_is_opened_again_has_everything(path, plane, call):
    first = SQLiteVectorStore(plane, path)
    call.run(first, "add_texts", ["1 0", "0 1"], [{"a": 1}, {}], ids=["x", "y"])
    first.close()
    second_store = SQLiteVectorStore(plane, path)
    (document,) = call.run(second_store, "similarity_search", "1 0", k=1)
    assert (document.id, document.metadata) == ("x", {"a": 1})


def test_an_address_of_a_server_is_refused_and_the_store_for_it_is_named(plane):
    with pytest.raises(
        UsageError, match=r"not in postgresql://.*use PostgresVectorStore"
    ) as caught:
        SQLiteVectorStore(plane, "postgresql://ada:secret@127.0.0.1/documents")
    assert "secret" not in str(caught.value)


def test_changes_of_another_process_are_seen_at_once(path):
    from foldline.embeddings import DeterministicFakeEmbedding

    store = SQLiteVectorStore(DeterministicFakeEmbedding(size=4), path)
    store.add_texts(["one", "two"], ids=["1", "2"])
    assert len(store.similarity_search("one", k=9)) == 2
    changes = "store.add_texts(['three', 'ONE'], ids=['3', '1']); store.delete(['2'])"
    subprocess.run(in_another_process(path, changes), check=True)
    assert sorted(texts(store.similarity_search("one", k=9))) == ["ONE", "three"]
    assert store.similarity_search("three", k=1)[0].id == "3"


def test_only_new_rows_are_read_again(path, plane):
    store = SQLiteVectorStore(plane, path)
    store.add_texts(["1 0"] * 100)
    store.similarity_search("1 0")
    rows = store._cache.rows
    SQLiteVectorStore(plane, path).add_texts(["0 1"])
    assert texts(store.similarity_search("0 1", k=1)) == ["0 1"]
    assert store._cache.rows is rows


def test_a_matrix_that_is_mostly_dead_is_read_afresh(path, plane):
    store = SQLiteVectorStore(plane, path)
    for turn in range(8):
        store.add_texts([f"{turn} 1"] * 50, ids=[str(n) for n in range(50)])
        assert len(store.similarity_search("1 0", k=99)) == 50
    assert store._cache.rows is not None
    assert store._cache.rows.count <= 200


@pytest.mark.slow
def test_F_K01_what_was_acknowledged_survives_kill_9(path):
    body = """
    n = 0
    while True:
        store.add_texts([f"{n} {part}" for part in range(3)], ids=[f"{n}-{part}" for part in range(3)])
        print(n, flush=True)
        n += 1
    """
    command = in_another_process(path, body)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last_number = [int(process.stdout.readline()) for _ in range(10)][-1]
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split()
    last_number = int(lines[-1]) if lines else last_number
    from foldline.embeddings import DeterministicFakeEmbedding

    store = SQLiteVectorStore(DeterministicFakeEmbedding(size=4), path)
    ids = {document.id for document in store.similarity_search("x", k=100_000)}
    assert {f"{n}-{part}" for n in range(last_number + 1) for part in range(3)} <= ids
    assert len(ids) % 3 == 0, "a batch was half written"


def test_F_K02_a_damaged_row_is_left_out_with_a_report(path, plane, caplog):
    store = SQLiteVectorStore(plane, path)
    store.add_texts(["1 0", "0.9 0.1", "0.8 0.2"], ids=["a", "b", "c"])
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE foldline_vectors SET document = x'ff00' WHERE id = CAST('a' AS BLOB)"
        )
        connection.execute(
            "UPDATE foldline_vectors SET vector = x'00' WHERE id = CAST('b' AS BLOB)"
        )
    connection.close()
    second_store = SQLiteVectorStore(plane, path)
    assert [document.id for document in second_store.similarity_search("1 0", k=2)] == ["c"]
    assert "document 'a' is damaged" in caplog.text
    assert "vector of document 'b' is damaged" in caplog.text
    assert second_store.get_by_ids(["a", "c"])[0].id == "c"


def test_F_K01_a_file_that_is_no_database_or_cannot_be_made_is_told(tmp_path, plane):
    (tmp_path / "text").write_text(
        "not a database, but long enough to look like a file of one" * 20
    )
    with pytest.raises(StoreError, match="no database"):
        SQLiteVectorStore(plane, tmp_path / "text")
    with pytest.raises(StoreError, match="folder exists"):
        SQLiteVectorStore(plane, tmp_path / "no" / "such" / "folder.db")


def test_a_store_that_went_away_is_told(path, plane, call):
    store = SQLiteVectorStore(plane, path)
    call.run(store, "add_texts", ["1 0"])
    store.close()
    for file in path.parent.iterdir():
        file.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match="unable to open"):
        call.run(store, "similarity_search", "1 0")


@pytest.mark.parametrize("metadata", [{"x": object()}, {1: "a"}, {"x": float("nan")}])
def test_metadata_that_is_not_json_is_refused_and_nothing_is_written(path, plane, call, metadata):
    store = SQLiteVectorStore(plane, path)
    with pytest.raises(UsageError, match="metadata"):
        call.run(store, "add_texts", ["1 0", "0 1"], [{}, metadata])
    assert call.run(store, "similarity_search", "1 0") == []


def test_another_process_cannot_mix_lengths(path, plane):
    store = SQLiteVectorStore(plane, path)
    store._dimension = lambda: None  # as if it had looked just before the other one wrote
    SQLiteVectorStore(plane, path).add_texts(["1 0"])
    with pytest.raises(UsageError, match="holds vectors of 2 numbers, got one of 3"):
        store.add_texts(["1 0 0"])


def test_a_store_in_memory_works_too(plane):
    store = SQLiteVectorStore(plane, ":memory:")
    store.add_texts(["1 0"])
    assert texts(store.similarity_search("1 0")) == ["1 0"]
