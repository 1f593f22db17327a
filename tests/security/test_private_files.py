"""F-Y12: what a program keeps on disk is for its owner alone: folders 0700, files 0600."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from foldline._cli.places import make_folder_of
from foldline.agents.checkpoint import SqliteSaver
from foldline.caches import SQLiteCache
from foldline.callbacks import FileCallbackHandler
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.indexing import SQLiteRecordManager
from foldline.language_models._call.policies.safe_files import write_under
from foldline.stores import LocalFileStore, SQLiteStore
from foldline.tracers import SQLiteTracer
from foldline.vectorstores import InMemoryVectorStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")


def keep_vectors(folder: Path) -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=3))
    store.add_documents([Document("secret")])
    store.dump(folder / "deep" / "vectors.npz")


def keep_log(folder: Path) -> None:
    handler = FileCallbackHandler(str(folder / "log.txt"))
    handler.file.write("secret")
    handler.close()


def keep_traces(folder: Path) -> None:
    SQLiteTracer(make_folder_of(folder / "deep" / "traces.db")).close()


STORES = {
    "history": lambda folder: SQLiteChatMessageHistory("s", folder / "h.db").add_user_message("x"),
    "cache": lambda folder: SQLiteCache(folder / "c.db"),
    "checkpoints": lambda folder: SqliteSaver(folder / "k.db"),
    "store": lambda folder: SQLiteStore(folder / "s.db"),
    "index": lambda folder: SQLiteRecordManager("n", folder / "i.db"),
    "traces": keep_traces,
    "sessions": lambda folder: SQLiteChatMessageHistory(
        "s", make_folder_of(folder / "a" / "b" / "s.db")
    ),
    "files": lambda folder: LocalFileStore(folder / "files" / "deep").mset([("a/b/c", b"x")]),
    "vectors": keep_vectors,
    "pictures": lambda folder: write_under(folder / "out" / "deep", ".png", b"x"),
    "log": keep_log,
}


@pytest.mark.parametrize("name", STORES)
def test_F_Y12_files_and_folders_are_for_their_owner_alone(tmp_path, name):
    before = os.umask(0o022)
    try:
        STORES[name](tmp_path)
    finally:
        os.umask(before)

    stats = []
    for path in tmp_path.rglob("*"):
        with suppress(
            FileNotFoundError
        ):  # SQLite removes its helper files when a connection closes
            stats.append(path.stat().st_mode)
    assert {stat.S_IMODE(mode) for mode in stats if stat.S_ISREG(mode)} == {0o600}
    assert {stat.S_IMODE(mode) for mode in stats if stat.S_ISDIR(mode)} <= {0o700}
