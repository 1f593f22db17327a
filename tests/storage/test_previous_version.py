"""A process of the previous version that has a SQLite file open while this version renames its tables.

It gets a `StoreError`, and has written all of an operation or nothing. The same lines run in both versions.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.servers.previous_version import previous_version

__all__ = ["previous_version"]


class Kind(NamedTuple):
    """Lines of code that open a store at `path`, write two things with a `name`, and read all names."""

    open: str
    write: str
    read: str


KINDS = {
    "history": Kind(
        "from foldline.chat_history import SQLiteChatMessageHistory\n"
        "from foldline.messages import HumanMessage\n"
        "store = SQLiteChatMessageHistory('s', path)",
        "store.add_messages([HumanMessage(f'{name} 1'), HumanMessage(f'{name} 2')])",
        "[message.text for message in store.messages]",
    ),
    "checkpoints": Kind(
        "from foldline.checkpoint.sqlite import SqliteSaver\n"
        "from foldline.checkpoint.base import Entry\n"
        "store = SqliteSaver(path)",
        "log = store.read('t', '')\n"
        "last = log[-1].id if log else None\n"
        "entries = [Entry(f'{name} 1', last, '{}'), Entry(f'{name} 2', f'{name} 1', '{}')]\n"
        "store.append('t', '', entries, after=last)",
        "[entry.id for entry in store.read('t', '')]",
    ),
    "cache": Kind(
        "from foldline.caches import SQLiteCache\n"
        "from foldline.outputs import Generation\n"
        "store = SQLiteCache(path)",
        "store.update('prompt', f'{name} 1', [Generation(text='x')])\n"
        "store.update('prompt', f'{name} 2', [Generation(text='x')])",
        "[f'{name} {n}' for name in NAMES for n in (1, 2) if store.lookup('prompt', f'{name} {n}')]",
    ),
    "store": Kind(
        "from foldline.stores import SQLiteStore\nstore = SQLiteStore(path)",
        "store.mset([(f'{name} 1', b'x'), (f'{name} 2', b'x')])",
        "sorted(store.yield_keys(), key=lambda key: NAMES.index(key[:-2]))",
    ),
    "index": Kind(
        "from foldline.indexing import SQLiteRecordManager\nstore = SQLiteRecordManager('n', path)",
        "store.update([f'{name} 1', f'{name} 2'])",
        "sorted(store.list_keys(), key=lambda key: (NAMES.index(key[:-2]), key))",
    ),
    "node_results": Kind(
        "from foldline.graph.cache import SqliteCache\nstore = SqliteCache(path)",
        "store.set(('n',), f'{name} 1', '1', None)\nstore.set(('n',), f'{name} 2', '1', None)",
        "[f'{name} {n}' for name in NAMES for n in (1, 2) if store.get(('n',), f'{name} {n}')]",
    ),
    "items": Kind(
        "from foldline.graph.store.sqlite import SqliteStore\n"
        "from foldline.graph import PutOp\n"
        "store = SqliteStore(path)",
        "store.batch([PutOp(('n',), f'{name} {n}', {'v': 1}) for n in (1, 2)])",
        "sorted((item.key for item in store.search(('n',))), key=lambda key: (NAMES.index(key[:-2]), key))",
    ),
    "vectors": Kind(
        "from foldline.vectorstores import SQLiteVectorStore\n"
        "from foldline.embeddings import DeterministicFakeEmbedding\n"
        "store = SQLiteVectorStore(DeterministicFakeEmbedding(size=4), path)",
        "ids = [f'{name} 1', f'{name} 2']\nstore.add_texts(ids, ids=ids)",
        "[d.page_content for d in store.get_by_ids([f'{name} {n}' for name in NAMES for n in (1, 2)])]",
    ),
}
NAMES = ["before", "new", "old"]
OLD = """
import sys
from foldline.exceptions import StoreError

path, writing, reading, closing = sys.argv[1:]
NAMES = ["before", "new", "old"]
name = "before"
{open}
exec(writing)
print("ready", flush=True)
sys.stdin.readline()
if closing == "closed":
    store.close()
for name, work in (("old", writing), ("old", f"print({{reading}})")):
    try:
        exec(work)
        print("it worked", flush=True)
    except StoreError as error:
        print(error, flush=True)
"""


def read_here(kind: Kind, path: str, before: str = "") -> list[str]:
    """Return all names, read by this version."""
    scope: dict[str, Any] = {"path": path, "name": "new", "NAMES": NAMES}
    exec(f"{kind.open}\n{before}\nfound = {kind.read}\nstore.close()", scope)
    found: list[str] = scope["found"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("kind", KINDS)
def test_S46_an_older_process_is_refused_after_the_tables_were_renamed(
    kind: str, is_closed: bool, tmp_path: Path, previous_version: dict[str, str]
):
    lines, path = KINDS[kind], str(tmp_path / "store.db")
    program = OLD.format(open=lines.open)
    arguments = [path, lines.write, lines.read, "closed" if is_closed else "open"]
    old = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=previous_version, cwd=tmp_path,
    )  # fmt: skip
    assert old.stdout is not None
    assert old.stdout.readline() == "ready\n", old.communicate()[1]

    assert read_here(lines, path, lines.write) == ["before 1", "before 2", "new 1", "new 2"]
    output, errors = old.communicate("go on\n", timeout=60)

    assert errors == ""
    messages = output.splitlines()
    assert len(messages) == 2, messages
    assert all(message.startswith(path) for message in messages)
    assert "newer foldline" in messages[0] or not is_closed
    assert "newer foldline" in messages[1]  # a new connection reads the version
    assert read_here(lines, path) == ["before 1", "before 2", "new 1", "new 2"]
