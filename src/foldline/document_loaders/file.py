"""`FileLoader`: one file, by the loader of its ending."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from foldline.document_loaders._source import OneFileLoader, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.document_loaders.csv import CSVLoader
from foldline.document_loaders.email import EmailLoader
from foldline.document_loaders.html import HTMLLoader
from foldline.document_loaders.json import JSONLoader
from foldline.document_loaders.markdown import MarkdownLoader, refuse_unstructured
from foldline.document_loaders.notebook import NotebookLoader
from foldline.document_loaders.pdf import PyPDFLoader
from foldline.document_loaders.text import PythonLoader, TextLoader
from foldline.documents.base import Document
from foldline.exceptions import DocumentError
from foldline.utils._media_types import media_type_of_bytes

__all__ = [
    "FileLoader",
    "UnstructuredFileLoader",
]

KINDS: tuple[type[OneFileLoader], ...] = (
    TextLoader,
    MarkdownLoader,
    HTMLLoader,
    CSVLoader,
    JSONLoader,
    PyPDFLoader,
    NotebookLoader,
    EmailLoader,
    PythonLoader,
)
LOADERS = {suffix: kind for kind in KINDS for suffix in kind.suffixes}
"""File ending -> loader. Other files are read as text."""


class FileLoader(OneFileLoader):
    """Loads a file by its ending; a file without a loader is read as text.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import FileLoader

    file = Path(tempfile.mkdtemp()) / "page.html"
    file.write_text("<h1>Owls</h1>")
    print(FileLoader(file).load()[0].page_content)
    #> Owls
    ```
    """

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the documents of a blob one at a time."""
        suffix = PurePath(str(blob.path or source_of(blob))).suffix.lower()
        kind = LOADERS.get(suffix) or _kind_by_content(blob)
        yield from kind(self.file_path).lazy_parse(blob)


class UnstructuredFileLoader(FileLoader):
    """`FileLoader` under LangChain's name; options of the `unstructured` package are refused."""

    def __init__(self, file_path: PathLike, mode: str = "single", **options: Any) -> None:
        refuse_unstructured(self, options if mode == "single" else {**options, "mode": mode})
        super().__init__(file_path)


def _kind_by_content(blob: Blob) -> type[OneFileLoader]:
    try:
        with blob.as_bytes_io() as file:
            start = file.read(1024)
    except OSError:
        return TextLoader  # whose error says what is wrong
    kind = media_type_of_bytes(start)
    if kind == "application/pdf":
        return PyPDFLoader
    is_marked = start.startswith((b"\xff\xfe", b"\xfe\xff"))  # text in UTF-16 holds zeros
    if b"\x00" in start and not is_marked:
        source = source_of(blob)
        raise DocumentError(
            f"{source}: is not text ({kind or 'binary data'}); there is no loader for it", source
        )
    return TextLoader
