"""`CSVLoader`: every row of a table as a document."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from foldline.document_loaders._source import OneFileLoader, decode_text, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.documents.base import Document
from foldline.exceptions import DocumentError
from foldline.utils.strings import suggestion

__all__ = ["CSVLoader"]


class CSVLoader(OneFileLoader):
    r"""Loads a table: a document for every row, a line for every column.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import CSVLoader

    file = Path(tempfile.mkdtemp()) / "cities.csv"
    file.write_text("city,country\nParis,France\nRome,Italy\n")
    print(CSVLoader(file).load()[1].page_content)
    '''
    city: Rome
    country: Italy
    '''
    ```
    """

    suffixes = (".csv", ".tsv")

    def __init__(
        self,
        file_path: PathLike,
        source_column: str | None = None,
        metadata_columns: Sequence[str] = (),
        csv_args: Mapping[str, Any] | None = None,
        encoding: str | None = None,
        autodetect_encoding: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        *,
        content_columns: Sequence[str] = (),
    ) -> None:
        """Load `file_path`; `content_columns` (all others by default) are the text, `metadata_columns` are metadata.

        `source_column` holds each row's `source`; `csv_args` go to `csv.DictReader` (`delimiter`, `fieldnames`).
        """
        super().__init__(file_path)
        self.source_column = source_column
        self.metadata_columns: tuple[str, ...] = tuple(metadata_columns)
        self.content_columns: tuple[str, ...] = tuple(content_columns)
        self.csv_args: dict[str, Any] = dict(csv_args or {})
        self.encoding = encoding
        self.autodetect_encoding = autodetect_encoding

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the rows of a blob one at a time."""
        source = source_of(blob)
        text = decode_text(
            read_blob(blob), source, self.encoding, autodetect=self.autodetect_encoding
        )
        options = {"delimiter": "\t"} if source.endswith(".tsv") else {}
        reader = csv.DictReader(StringIO(text, newline=""), **{**options, **self.csv_args})
        try:
            self._check_columns(reader.fieldnames or (), source)
            for at, row in enumerate(reader):
                yield self._document(row, {**blob.metadata, "source": source, "row": at})
        except csv.Error as error:
            raise DocumentError(f"{source}: line {reader.line_num}: {error}", source) from error

    def _check_columns(self, columns: Sequence[str], source: str) -> None:
        needed_columns = (self.source_column, *self.metadata_columns, *self.content_columns)
        for name in needed_columns:
            if name is not None and name not in columns:
                raise DocumentError(
                    f"{source}: has no column {name!r}{suggestion(name, columns)}; it has {', '.join(columns)}",
                    source,
                )

    def _document(self, row: dict[Any, Any], metadata: dict[str, Any]) -> Document:
        # A row longer than the header has its extra cells under None; a shorter one has None for missing cells.
        lines = []
        for column, value in row.items():
            cell = " ".join(value) if isinstance(value, list) else value
            if column in self.metadata_columns:
                metadata[column] = cell
            elif not self.content_columns or column in self.content_columns:
                name = "" if column is None else f"{column.strip()}: "
                lines.append(f"{name}{(cell or '').strip()}")
        if self.source_column is not None:
            metadata["source"] = row[self.source_column]
        return Document("\n".join(lines), metadata=metadata)
