"""`DirectoryLoader`: which files, in which order, and what happens to those that cannot be read."""

from __future__ import annotations

import logging

import pytest

from foldline.document_loaders import (
    DirectoryLoader,
    FileSystemBlobLoader,
    PyPDFDirectoryLoader,
    TextLoader,
)
from foldline.exceptions import DocumentError, UsageError


@pytest.fixture
def folder(tmp_path):
    docs = tmp_path / "docs"
    (docs / "inner").mkdir(parents=True)
    (docs / ".git").mkdir()
    (docs / "b.md").write_text("# B")
    (docs / "a.txt").write_text("A")
    (docs / "inner" / "c.csv").write_text("x\n1\n2\n")
    (docs / "bad.json").write_text("no JSON")
    (docs / ".hidden.txt").write_text("hidden")
    (docs / ".git" / "d.txt").write_text("hidden too")
    return docs


def texts(documents):
    return [document.page_content for document in documents]


@pytest.mark.parametrize("threads", [False, True])
def test_a_bad_file_is_listed_and_the_others_are_loaded(call, folder, caplog, threads):
    loader = DirectoryLoader(folder, use_multithreading=threads)

    with caplog.at_level(logging.WARNING):
        documents = call.run(loader, "load")

    assert sorted(texts(documents)) == ["# B", "A", "x: 1", "x: 2"]
    assert [(failure.source, str(failure)) for failure in loader.errors] == [
        (str(folder / "bad.json"), str(loader.errors[0].error))
    ]
    assert "left out" in caplog.text
    assert "bad.json: is not JSON" in caplog.text


def test_errors_can_be_silent_or_end_the_load(call, folder, caplog):
    call.run(DirectoryLoader(folder, silent_errors=True), "load")
    assert caplog.text == ""

    with pytest.raises(DocumentError, match="is not JSON"):
        call.run(DirectoryLoader(folder, raise_errors=True), "load")


def test_files_come_in_order_and_one_at_a_time(folder):
    documents = DirectoryLoader(folder, exclude="*.json").lazy_load()

    assert next(documents).page_content == "A"
    (folder / "b.md").write_text("# B, changed since")
    assert next(documents).page_content == "# B, changed since"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"glob": "*.txt"}, ["A"]),
        ({"glob": ["*.md", "**/*.csv"]}, ["# B", "x: 1", "x: 2"]),
        ({"glob": "*.csv", "recursive": True}, ["x: 1", "x: 2"]),
        ({"glob": "**/*.txt", "load_hidden": True}, ["hidden too", "hidden", "A"]),
        ({"exclude": ["*.json", "inner/*"]}, ["A", "# B"]),
        ({"exclude": "*.json", "sample_size": 1}, ["A"]),
        (
            {"glob": "*.md", "loader_cls": TextLoader, "loader_kwargs": {"encoding": "ascii"}},
            ["# B"],
        ),
    ],
)
def test_patterns_choose_the_files(folder, options, expected):
    assert texts(DirectoryLoader(folder, **options).load()) == expected


def test_a_sample_is_random_and_repeatable(folder):
    def sample():
        loader = DirectoryLoader(
            folder, exclude="*.json", sample_size=2, randomize_sample=True, sample_seed=4
        )
        return loader.files()

    assert sample() == sample()
    assert len(sample()) == 2


def test_a_link_out_of_the_folder_is_not_followed_unless_told(folder, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    loader = DirectoryLoader(folder, "*.txt", silent_errors=True)

    assert texts(loader.load()) == ["A"]
    assert "is a link out of the folder" in str(loader.errors[0])
    assert "secret" in texts(DirectoryLoader(folder, "*.txt", follow_links=True).load())


def test_progress_counts_files(call, folder):
    calls = []

    call.run(
        DirectoryLoader(
            folder,
            silent_errors=True,
            show_progress=lambda done, total: calls.append((done, total)),
        ),
        "load",
    )

    assert calls == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_wrong_calls_are_explained(tmp_path, folder):
    with pytest.raises(DocumentError, match="there is no such folder"):
        DirectoryLoader(tmp_path / "none").load()
    with pytest.raises(DocumentError, match="is not a folder"):
        DirectoryLoader(folder / "a.txt").load()
    with pytest.raises(UsageError, match="max_concurrency is at least 1"):
        DirectoryLoader(folder, use_multithreading=True, max_concurrency=0)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        DirectoryLoader(folder, "*.txt", loader_cls=TextLoader, loader_kwargs={"mode": 1}).load()
    with pytest.raises(UsageError, match="is not a pattern of files"):
        DirectoryLoader(folder, "/etc/*").load()


def test_pdfs_of_a_folder_and_blobs_of_a_folder(folder):
    assert PyPDFDirectoryLoader(folder).load() == []
    blobs = FileSystemBlobLoader(folder, suffixes=[".md", ".txt"])
    assert blobs.count_matching_files() == 2
    assert [blob.as_string() for blob in blobs.yield_blobs()] == ["A", "# B"]
