"""The base of file loaders: reads one file or blob, decodes its text, and raises errors that name the file.

Every problem with a file is a `DocumentError` with its path.
"""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from foldline.document_loaders.base import BaseBlobParser, BaseLoader
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.documents.base import Document
from foldline.exceptions import DocumentError, UsageError

__all__ = ["OneFileLoader", "decode_text", "os_reason", "read_blob", "source_of"]

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order mark -> encoding; the longer marks first."""
GUESSES = ("utf-8", "cp1252", "latin-1")
"""Encodings that autodetection tries in turn; the last one accepts any byte."""


class OneFileLoader(BaseLoader, BaseBlobParser):
    """Loads one file; the same class parses blobs. A subclass writes `lazy_parse`."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """The file endings of this loader."""

    def __init__(self, file_path: PathLike) -> None:
        if not isinstance(file_path, str | Path):
            raise UsageError(
                f"{type(self).__name__} takes the path of a file, not a {type(file_path).__name__}"
            )
        self.file_path: str = str(file_path)

    def lazy_load(self) -> Iterator[Document]:
        """Return the documents of the file one at a time."""
        yield from self.lazy_parse(Blob.from_path(Path(self.file_path).expanduser()))

    @abstractmethod
    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the documents of a blob one at a time."""


def source_of(blob: Blob) -> str:
    """Return the source of a blob, for metadata and errors."""
    return blob.source or "data in memory"


def os_reason(error: OSError) -> str:
    """Return the reason of an `OSError`."""
    return error.strerror or type(error).__name__


def read_blob(blob: Blob) -> bytes:
    """Read a blob; a file that cannot be read is a `DocumentError`."""
    try:
        return blob.as_bytes()
    except OSError as error:
        source = source_of(blob)
        raise DocumentError(f"{source}: cannot be read: {os_reason(error)}", source) from error


def decode_text(
    data: bytes, source: str, encoding: str | None = None, *, autodetect: bool = False
) -> str:
    """Decode bytes: by `encoding`, by their byte order mark, else as UTF-8; `autodetect` then tries others."""
    marked_encoding = next((name for mark, name in MARKS if data.startswith(mark)), None)
    encodings = [encoding or marked_encoding or "utf-8", *(GUESSES if autodetect else ())]
    for at, name in enumerate(encodings):
        try:
            return data.decode(name).replace("\r\n", "\n")
        except LookupError as error:
            raise UsageError(f"{source}: there is no encoding {name!r}") from error
        except UnicodeDecodeError as error:
            if at == len(encodings) - 1:
                raise DocumentError(
                    f"{source}: is not {name}: byte {error.start} is {data[error.start]:#04x}; give its encoding "
                    '(encoding="cp1252"), or autodetect_encoding=True',
                    source,
                ) from error
    raise AssertionError("the loop returns or raises")
