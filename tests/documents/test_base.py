"""Documents and blobs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

import foldline.documents
from foldline.documents import Blob, Document
from foldline.exceptions import SchemaError
from foldline.load import dumpd, load


def test_a_document_takes_its_text_by_position_or_name():
    assert Document("x") == Document(page_content="x")
    assert Document("x", id=5).id == "5"
    assert Document("x").metadata == {}


def test_a_document_shows_its_text_and_metadata_but_not_its_id():
    assert str(Document("x", id="1")) == "page_content='x'"
    assert str(Document("x", metadata={"a": 1})) == "page_content='x' metadata={'a': 1}"
    assert repr(Document("x", metadata={"a": 1}, id="q")) == (
        "Document(id='q', metadata={'a': 1}, page_content='x')"
    )


def test_a_document_of_a_wrong_type_is_refused():
    with pytest.raises(ValidationError, match="page_content"):
        Document(5)


def test_a_document_goes_through_json_as_any_pydantic_model():
    document = Document("x", metadata={"a": [1]}, id="1")
    assert Document.model_validate_json(document.model_dump_json()) == document
    assert Document.model_json_schema()["required"] == ["page_content"]


@pytest.mark.parametrize("data", ["grüße", "grüße".encode()])
def test_a_blob_in_memory_reads_as_text_bytes_and_stream(data):
    blob = Blob.from_data(data, mime_type="text/plain", path="a.txt")

    assert blob.as_string() == "grüße"
    assert blob.as_bytes() == "grüße".encode()
    with blob.as_bytes_io() as stream:
        assert stream.read() == "grüße".encode()
    assert (blob.mimetype, blob.source) == ("text/plain", "a.txt")


def test_a_blob_of_a_file_opens_it_only_when_read(tmp_path: Path):
    path = tmp_path / "a.json"
    blob = Blob.from_path(path, encoding="latin-1", metadata={"page": 1})
    path.write_bytes("ü".encode("latin-1"))

    assert blob.as_string() == "ü"
    assert blob.as_bytes() == b"\xfc"
    with blob.as_bytes_io() as stream:
        assert stream.read() == b"\xfc"
    assert (blob.mimetype, blob.source) == ("application/json", str(path))
    assert Blob.from_path(path, guess_type=False).mimetype is None


def test_the_source_of_a_blob_may_be_named_in_its_metadata():
    assert Blob.from_data("x", path="p", metadata={"source": "web"}).source == "web"
    assert Blob.from_data("x").source is None


def test_a_blob_does_not_show_its_data():
    blob = Blob.from_data("secret text", path="p")
    assert repr(blob) == f"Blob {id(blob)} p"


def test_a_blob_without_data_and_path_is_refused():
    with pytest.raises(ValidationError, match="needs `data` or `path`"):
        Blob()


def test_a_missing_file_says_so():
    with pytest.raises(FileNotFoundError):
        Blob(path="/no/such/file").as_string()


def test_F_P03_no_dump_can_make_a_blob_and_so_open_a_file():
    assert dumpd(Blob.from_path("/etc/passwd"))["type"] == "not_implemented"
    for path in (
        ["foldline", "documents", "Blob"],
        ["langchain_core", "documents", "base", "Blob"],
    ):
        data = {"lc": 1, "type": "constructor", "id": path, "kwargs": {"path": "/etc/passwd"}}
        with pytest.raises(SchemaError, match="not a class that may be loaded"):
            load(data, allowed_objects="all")


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("BaseDocumentCompressor", "foldline.documents.compressor"),
        ("BaseDocumentTransformer", "foldline.documents.transformers"),
    ],
)
def test_the_higher_half_is_looked_up_only_when_asked_for(name, module):
    code = f"import sys, foldline.documents; assert {module!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert hasattr(foldline.documents, name) == (importlib.util.find_spec(module) is not None)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        foldline.documents.Nothing  # noqa: B018
