from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import StoreError, UsageError
from foldline.vectorstores import InMemoryVectorStore


def texts(documents):
    return [document.page_content for document in documents]


def test_equal_scores_keep_the_order_in_which_they_were_added(plane):
    store = InMemoryVectorStore.from_texts(["1 0"] * 300, plane, ids=[str(n) for n in range(300)])
    assert [document.id for document in store.similarity_search("1 0", k=5)] == [
        "0",
        "1",
        "2",
        "3",
        "4",
    ]


def test_a_store_is_made_of_texts_or_documents(plane, call):
    store = call.run(InMemoryVectorStore, "from_texts", ["1 0"], plane, [{"a": 1}], ids=["x"])
    assert store.store["x"] == {
        "id": "x",
        "vector": [1.0, 0.0],
        "text": "1 0",
        "metadata": {"a": 1},
    }
    store = call.run(
        InMemoryVectorStore, "from_documents", [Document("0 2", id="y"), Document("1 1")], plane
    )
    assert store.store["y"]["vector"] == [0.0, 2.0]
    assert len(store) == 2


def test_a_dump_is_read_back_as_it_was(tmp_path, plane):
    store = InMemoryVectorStore(plane)
    store.add_texts(["1 0", "0 3"], [{"a": [1, None]}, {}], ids=["é", "b"])
    store.delete(["b"])
    path = tmp_path / "new folder" / "store.npz"
    store.dump(path)
    read = InMemoryVectorStore.load(path, plane)
    assert read.store == store.store
    assert texts(read.similarity_search("1 0")) == ["1 0"]
    assert [file.name for file in path.parent.iterdir()] == ["store.npz"]


def test_an_empty_store_is_dumped_and_read_back(tmp_path, plane):
    InMemoryVectorStore(plane).dump(tmp_path / "empty")
    assert len(InMemoryVectorStore.load(tmp_path / "empty", plane)) == 0


def test_a_dump_of_langchain_is_read(tmp_path, plane):
    entry = {"id": "7", "vector": [1.0, 0.5], "text": "hello", "metadata": {"a": 1}}
    (tmp_path / "theirs.json").write_text(json.dumps({"7": entry}))
    assert InMemoryVectorStore.load(str(tmp_path / "theirs.json"), plane).store == {"7": entry}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a": 1}',
        b"[1]",
        b"PK\x03\x04 cut",
        b"\x80\x04cos\nsystem\n",
        b'{"a": {"vector": [1]}}',
    ],
)
def test_F_K02_a_damaged_dump_is_told_and_nothing_in_it_is_run(tmp_path, plane, data):
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        InMemoryVectorStore.load(tmp_path / "bad", plane)


def test_metadata_that_is_not_json_leaves_the_old_dump_alone(tmp_path, plane):
    store = InMemoryVectorStore.from_texts(["1 0"], plane)
    store.dump(tmp_path / "d")
    before = (tmp_path / "d").read_bytes()
    store.add_texts(["0 1"], [{"x": object()}])
    with pytest.raises(UsageError, match="not JSON"):
        store.dump(tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == before


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("ad"), st.lists(st.integers(0, 30), max_size=40)), max_size=12
    )
)
def test_any_adding_and_deleting_leaves_what_a_dict_would_have(plane_steps):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    expected: dict[str, str] = {}
    for step, (action, numbers) in enumerate(plane_steps):
        ids = [str(number) for number in numbers]
        if action == "a":
            store.add_texts([f"{name} at {step}" for name in ids], ids=ids)
            expected |= {name: f"{name} at {step}" for name in ids}
        else:
            store.delete(ids)
            expected = {name: text for name, text in expected.items() if name not in ids}
    documents = store.similarity_search("anything", k=100)
    assert {document.id: document.page_content for document in documents} == expected
    assert len(documents) == len(expected) == len(store)


def test_dead_rows_are_swept_out():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    for turn in range(50):
        store.add_texts([f"{turn} {n}" for n in range(50)], ids=[str(n) for n in range(50)])
    assert store._contents.rows is not None
    assert store._contents.rows.count <= 200
    assert len(store._contents.documents) <= 200


def test_searches_go_on_while_others_add_and_delete():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts([f"stays {n}" for n in range(50)], ids=[f"s{n}" for n in range(50)])
    stop, errors = threading.Event(), []

    def change() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            store.add_texts(
                [f"goes {turn} {n}" for n in range(100)], ids=[f"g{n}" for n in range(100)]
            )
            store.delete([f"g{n}" for n in range(100)])

    def search() -> None:
        try:
            for n in range(150):
                best = store.similarity_search(f"stays {n % 50}", k=3)
                assert best[0].page_content == f"stays {n % 50}"
        except Exception as error:  # noqa: BLE001  the main thread tells it
            errors.append(error)

    writer = threading.Thread(target=change)
    readers = [threading.Thread(target=search) for _ in range(3)]
    writer.start()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    stop.set()
    writer.join()
    assert not errors


@pytest.mark.slow
def test_a_search_costs_what_the_matrix_product_and_a_partial_sort_cost():
    from benchmarks.vectors import compare

    ratios = [compare(repeats=15).ratio for _ in range(3)]
    assert min(ratios) <= 1.3, ratios


def test_without_numpy_the_command_is_said_and_the_names_still_import():
    code = """
import sys
sys.modules["numpy"] = None
from foldline.vectorstores import InMemoryVectorStore, SQLiteVectorStore, PostgresVectorStore
from foldline.embeddings import DeterministicFakeEmbedding
try:
    InMemoryVectorStore(DeterministicFakeEmbedding(size=3)).add_texts(["a"])
except ImportError as error:
    print(type(error).__name__, error)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("MissingExtraError")
    assert 'pip install "foldline[vectors]"' in result.stdout


def test_importing_the_stores_does_not_load_numpy():
    code = "import sys, foldline.vectorstores, foldline.retrievers, foldline.indexing"
    code += "; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_vectors_are_one_contiguous_float32_matrix(plane):
    store = InMemoryVectorStore.from_texts([f"{n} 1" for n in range(600)], plane)
    assert store._contents.rows is not None
    matrix = store._contents.rows._units
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    assert len(matrix) == 600  # room for the first batch; then it doubles


def test_an_embedding_that_gives_too_few_vectors_is_refused(plane):
    plane.embed_documents = lambda texts: [[1.0]]
    with pytest.raises(UsageError, match="returned 1 vectors for 2 texts"):
        InMemoryVectorStore(plane).add_texts(["a", "b"])
    plane.embed_documents = lambda texts: [[1.0], [1.0, 2.0]]
    with pytest.raises(UsageError, match="equally long"):
        InMemoryVectorStore(plane).add_texts(["a", "b"])
    plane.embed_documents = lambda texts: [[], []]
    with pytest.raises(UsageError, match="lists of numbers"):
        InMemoryVectorStore(plane).add_texts(["a", "b"])
