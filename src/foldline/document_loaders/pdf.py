"""`PyPDFLoader`: a PDF, a document for each page, read by pypdf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from typing import Any, Literal

from foldline.document_loaders._source import OneFileLoader, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.documents.base import Document
from foldline.exceptions import DocumentError, MissingExtraError, UsageError

__all__ = ["PyPDFLoader"]

FACTS = ("title", "author", "subject", "creator", "producer", "creation_date", "modification_date")
"""Attribute of pypdf -> key in the metadata."""
LANGCHAIN_FACTS = {"creation_date": "creationdate", "modification_date": "moddate"}


class PyPDFLoader(OneFileLoader):
    """Loads a PDF page by page; needs `pip install "foldline[pdf]"`.

    ```python {test="skip: a PDF of your own"}
    from foldline.document_loaders import PyPDFLoader

    for page in PyPDFLoader("report.pdf").lazy_load():
        print(page.metadata["page"], page.page_content[:60])
    ```

    A page that is a picture has no text: no characters are recognized in pictures.
    """

    suffixes = (".pdf",)

    def __init__(
        self,
        file_path: PathLike,
        password: str | bytes | None = None,
        *,
        mode: Literal["single", "page"] = "page",
        pages_delimiter: str = "\n\f",
        extraction_mode: Literal["plain", "layout"] = "plain",
        extract_images: bool = False,
    ) -> None:
        """Load `file_path`; `mode="single"` joins the pages, `extraction_mode="layout"` keeps columns apart."""
        super().__init__(file_path)
        if mode not in ("single", "page"):
            raise UsageError(f"PyPDFLoader: mode is 'page' or 'single', not {mode!r}")
        if extract_images:
            raise UsageError(
                "PyPDFLoader recognizes no characters in pictures: leave extract_images out"
            )
        self.password = password
        self.mode = mode
        self.pages_delimiter = pages_delimiter
        self.extraction_mode = extraction_mode

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the pages of a blob one at a time."""
        source, data = source_of(blob), read_blob(blob)
        reader = self._open(data, source)
        metadata = {
            **blob.metadata,
            "source": source,
            **_facts(reader),
            "total_pages": len(reader.pages),
        }
        labels: list[str] = []
        with suppress(Exception):  # labels that cannot be read are no reason to lose the pages
            labels = list(reader.page_labels)
        pages = self._pages(reader, source)
        if self.mode == "single":
            yield Document(self.pages_delimiter.join(pages), metadata=metadata)
            return
        for at, text in enumerate(pages):
            label = labels[at] if at < len(labels) else str(at + 1)
            yield Document(text, metadata={**metadata, "page": at, "page_label": label})

    def _open(self, data: bytes, source: str) -> Any:  # noqa: ANN401  pypdf's
        try:
            import pypdf  # noqa: PLC0415  an extra
        except ImportError:
            raise MissingExtraError(
                f'{source}: PDFs need pypdf: pip install "foldline[pdf]"'
            ) from None
        try:
            reader = pypdf.PdfReader(BytesIO(data), strict=False)
            if reader.is_encrypted and not reader.decrypt(self.password or ""):
                facts = (
                    "another password"
                    if self.password
                    else 'its password: PyPDFLoader(path, "...")'
                )
                raise DocumentError(f"{source}: is encrypted; it needs {facts}", source)
            len(reader.pages)
        except (DocumentError, MemoryError):
            raise
        except Exception as error:
            raise DocumentError(f"{source}: is not a readable PDF: {error}", source) from error
        return reader

    def _pages(self, reader: Any, source: str) -> Iterator[str]:  # noqa: ANN401  pypdf's
        for at in range(len(reader.pages)):
            try:
                text = reader.pages[at].extract_text(extraction_mode=self.extraction_mode)
            except Exception as error:
                raise DocumentError(
                    f"{source}: page {at + 1} cannot be read: {error!r}",
                    source,
                ) from error
            # Halves of surrogate pairs, as damaged fonts give them, can be neither stored nor sent.
            yield text.encode("utf-8", "replace").decode("utf-8")


def _facts(reader: Any) -> dict[str, Any]:  # noqa: ANN401  pypdf's
    metadata: dict[str, Any] = {}
    with suppress(Exception):  # what a file says of itself may be damaged too
        for name in FACTS:
            value = getattr(reader.metadata, name, None)
            if value:
                key = LANGCHAIN_FACTS.get(name, name)
                metadata[key] = value.isoformat() if isinstance(value, datetime) else str(value)
    return metadata
