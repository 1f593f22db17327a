"""`NotebookLoader`: a Jupyter notebook as one document, its code in fences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from foldline.document_loaders._source import OneFileLoader, decode_text, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.documents.base import Document
from foldline.exceptions import DocumentError

__all__ = ["NotebookLoader"]


class NotebookLoader(OneFileLoader):
    """Loads a Jupyter notebook: text cells unchanged, code cells in fences, outputs where requested.

    ```python
    import json
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import NotebookLoader

    cells = [{"cell_type": "markdown", "source": ["# Sums"]}, {"cell_type": "code", "source": "1 + 2"}]
    file = Path(tempfile.mkdtemp()) / "sums.ipynb"
    file.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    print(NotebookLoader(file).load()[0].page_content.splitlines())
    #> ['# Sums', '', '```python', '1 + 2', '```']
    ```
    """

    suffixes = (".ipynb",)

    def __init__(
        self,
        path: PathLike,
        include_outputs: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        max_output_length: int = 1000,
        remove_newline: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        traceback: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> None:
        """Load the notebook `path`; with `include_outputs`, up to `max_output_length` characters of each cell's output.

        `traceback` includes tracebacks among the outputs; `remove_newline` joins the lines of the document.
        """
        super().__init__(path)
        self.include_outputs = include_outputs
        self.max_output_length = max_output_length
        self.remove_newline = remove_newline
        self.traceback = traceback

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the one document of a blob."""
        source = source_of(blob)
        text = decode_text(read_blob(blob), source)
        try:
            notebook = json.loads(text)
            cells = _cells(notebook)
            language = _language(notebook)
            parts = [part for cell in cells if (part := self._cell(cell, language))]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DocumentError(f"{source}: is not a notebook: {error}", source) from error
        content = "\n\n".join(parts)
        if self.remove_newline:
            content = " ".join(content.split())
        metadata = {**blob.metadata, "source": source, "language": language, "cells": len(cells)}
        yield Document(content, metadata=metadata)

    def _cell(self, cell: dict[str, Any], language: str) -> str:
        text = _joined(cell.get("source", cell.get("input", "")))
        if cell["cell_type"] != "code":
            return text.strip()
        parts = [_fenced(text, language)] if text.strip() else []
        if self.include_outputs:
            output = "\n".join(filter(None, map(self._output, cell.get("outputs") or ())))
            if output:
                parts.append(_fenced(output[: self.max_output_length], ""))
        return "\n\n".join(parts)

    def _output(self, output: dict[str, Any]) -> str:
        if output.get("output_type") in ("error", "pyerr"):
            trace = "\n".join(output.get("traceback") or ()) if self.traceback else ""
            return trace or f"{output.get('ename')}: {output.get('evalue')}"
        if "text" in output:
            return _joined(output["text"]).rstrip("\n")
        return _joined((output.get("data") or {}).get("text/plain", "")).rstrip("\n")


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    if "cells" in notebook:
        return list(notebook["cells"])
    sheets = notebook["worksheets"]  # format 3
    return [cell for sheet in sheets for cell in sheet["cells"]]


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata") or {}
    language = (metadata.get("kernelspec") or {}).get("language")
    return str(language or (metadata.get("language_info") or {}).get("name") or "python")


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
