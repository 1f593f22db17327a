"""Several kinds of store in one SQLite file (F-Y02), for its owner's eyes only (F-Y12)."""

from __future__ import annotations

import itertools
import os
import sqlite3
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.caches.sqlite import SQLiteCache
from foldline.chat_history.sqlite import SQLiteChatMessageHistory
from foldline.checkpoint.sqlite import SqliteSaver
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import StoreError
from foldline.graph import SqliteCache, SqliteStore
from foldline.indexing.sqlite import SQLiteRecordManager
from foldline.outputs import Generation
from foldline.runnables import RunnableLambda
from foldline.stores.sqlite import SQLiteStore
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.vectorstores.sqlite import SQLiteVectorStore


def use_history(path: Path) -> None:
    history = SQLiteChatMessageHistory("s", path)
    history.add_user_message("x")
    assert [message.text for message in history.messages] == ["x"]


def use_cache(path: Path) -> None:
    cache = SQLiteCache(str(path))
    cache.update("p", "m", [Generation(text="x")])
    assert cache.lookup("p", "m") == [Generation(text="x")]


def use_store(path: Path) -> None:
    store = SQLiteStore(path)
    store.mset([("k", b"v")])
    assert store.mget(["k"]) == [b"v"]


def use_records(path: Path) -> None:
    records = SQLiteRecordManager("n", path)
    records.update(["k"])
    assert records.exists(["k"]) == [True]


def use_results(path: Path) -> None:
    results = SqliteCache(path)
    results.set(("n",), "k", "v", None)
    assert results.get(("n",), "k") == "v"


def use_items(path: Path) -> None:
    items = SqliteStore(path)
    items.put(("n",), "k", {"v": 1})
    assert items.get(("n",), "k").value == {"v": 1}


def use_vectors(path: Path) -> None:
    vectors = SQLiteVectorStore(DeterministicFakeEmbedding(size=4), path)
    vectors.add_texts(["a"])
    assert vectors.similarity_search("a", k=1)[0].page_content == "a"


def use_checkpoints(path: Path) -> None:
    assert not SqliteSaver(path).read("t", "")


def use_traces(path: Path) -> None:
    tracer = SQLiteTracer(path)
    RunnableLambda(lambda x: x).invoke(1, {"callbacks": [tracer]})
    tracer.close()
    assert len(TraceStore(path).recent()) == 1


KINDS = [
    use_history,
    use_cache,
    use_store,
    use_records,
    use_results,
    use_items,
    use_vectors,
    use_checkpoints,
    use_traces,
]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(KINDS, 2)))
def test_F_Y02_two_kinds_share_a_file_in_any_order(
    first: Callable[[Path], Any], second: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "app.db"
    first(path)
    second(path)


@pytest.mark.parametrize("use", KINDS)
def test_F_Y02_a_programs_own_file_keeps_its_version(
    use: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "own.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    use(path)

    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (7,)
    connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("use", KINDS)
def test_F_Y12_files_are_created_for_their_owner_alone(
    use: Callable[[Path], Any], tmp_path: Path
) -> None:
    old = os.umask(0o022)
    try:
        use(tmp_path / "app.db")
    finally:
        os.umask(old)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_F_Y09_a_nul_in_a_path_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        SQLiteChatMessageHistory("s", f"{tmp_path}/a\0b.db")
