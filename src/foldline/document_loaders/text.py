"""`TextLoader`: a file of text as one document."""

from __future__ import annotations

import tokenize
from collections.abc import Iterator
from io import BytesIO
from typing import ClassVar

from foldline.document_loaders._source import OneFileLoader, decode_text, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.documents.base import Document
from foldline.exceptions import DocumentError

__all__ = ["PythonLoader", "TextLoader"]


class TextLoader(OneFileLoader):
    """Loads a file of text as one document.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import TextLoader

    file = Path(tempfile.mkdtemp()) / "note.txt"
    file.write_text("Owls hunt at night.")
    print(TextLoader(file).load()[0].page_content)
    #> Owls hunt at night.
    ```
    """

    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".log", ".rst", ".org", ".tex")

    def __init__(
        self,
        file_path: PathLike,
        encoding: str | None = None,
        autodetect_encoding: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> None:
        """Load `file_path`: UTF-8, or as its byte order mark or `encoding` says; `autodetect_encoding` tries others."""
        super().__init__(file_path)
        self.encoding = encoding
        self.autodetect_encoding = autodetect_encoding

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the one document of a blob."""
        source = source_of(blob)
        text = decode_text(
            read_blob(blob), source, self.encoding, autodetect=self.autodetect_encoding
        )
        yield Document(text, metadata={**blob.metadata, "source": source})


class PythonLoader(TextLoader):
    """Loads Python source, in the encoding that it declares."""

    suffixes = (".py", ".pyi")

    def __init__(self, file_path: PathLike) -> None:
        super().__init__(file_path)

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the one document of a blob."""
        source, data = source_of(blob), read_blob(blob)
        try:
            encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        except SyntaxError as error:
            raise DocumentError(f"{source}: {error}", source) from error
        text = decode_text(data, source, encoding)
        yield Document(text, metadata={**blob.metadata, "source": source})
