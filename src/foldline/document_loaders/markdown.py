"""`MarkdownLoader`: a Markdown file as one document, or a document for each of its sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from foldline.document_loaders._source import OneFileLoader, decode_text, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.text_splitters import MarkdownHeaderTextSplitter

__all__ = ["MarkdownLoader", "UnstructuredMarkdownLoader"]

FRONT = re.compile(r"\A---[ \t]*\n(?P<fields>.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
FIELD = re.compile(r"(?P<name>[\w-]+):[ \t]*(?P<value>\S.*)?")
TITLE = re.compile(r"^#[ \t]+(?P<title>.+?)[ \t]*#*$", re.MULTILINE)
FENCED = re.compile(r"^(```+|~~~+).*?^\1", re.MULTILINE | re.DOTALL)
LEVELS = [("#" * level, f"heading_{level}") for level in range(1, 7)]


class MarkdownLoader(OneFileLoader):
    r"""Loads a Markdown file with its marks, which models understand. Its title and front matter are metadata.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import MarkdownLoader

    file = Path(tempfile.mkdtemp()) / "page.md"
    file.write_text("# Owls\n\nThey hunt.\n\n## Food\n\nMice.\n")
    print([section.metadata["heading"] for section in MarkdownLoader(file, mode="elements").load()])
    #> ['Owls', 'Owls > Food']
    ```
    """

    suffixes = (".md", ".markdown", ".mdx", ".qmd")

    def __init__(
        self,
        file_path: PathLike,
        mode: Literal["single", "elements"] = "single",
        *,
        encoding: str | None = None,
        autodetect_encoding: bool = False,
    ) -> None:
        """Load `file_path` as one document, or (`mode="elements"`) as one for every section."""
        super().__init__(file_path)
        if mode not in ("single", "elements"):
            raise UsageError(f"{type(self).__name__}: mode is 'single' or 'elements', not {mode!r}")
        self.mode = mode
        self.encoding = encoding
        self.autodetect_encoding = autodetect_encoding

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the documents of a blob one at a time."""
        source = source_of(blob)
        text = decode_text(
            read_blob(blob), source, self.encoding, autodetect=self.autodetect_encoding
        )
        fields, text = _split_front(text)
        metadata = {**blob.metadata, **fields, "source": source}
        if "title" not in metadata and (title := TITLE.search(FENCED.sub("", text))):
            metadata["title"] = title["title"]
        if self.mode == "single":
            yield Document(text, metadata=metadata)
            return
        for section in MarkdownHeaderTextSplitter(LEVELS, strip_headers=False).split_text(text):
            heading = " > ".join(map(str, section.metadata.values()))
            yield Document(section.page_content, metadata={**metadata, "heading": heading})


class UnstructuredMarkdownLoader(MarkdownLoader):
    """`MarkdownLoader` under LangChain's name; options of the `unstructured` package are refused."""

    def __init__(self, file_path: PathLike, mode: Any = "single", **options: Any) -> None:  # noqa: ANN401
        refuse_unstructured(self, options)
        super().__init__(file_path, mode)


def refuse_unstructured(loader: OneFileLoader, options: dict[str, Any]) -> None:
    """Raise `UsageError` for options of the `unstructured` package, which is not used here."""
    if options:
        raise UsageError(
            f"{type(loader).__name__} does not use the `unstructured` package and has no option "
            f"{', '.join(options)}: leave it out"
        )


def _split_front(text: str) -> tuple[dict[str, Any], str]:
    """Split off the plain `name: value` lines at the top; lists and nested values are not read."""
    match = FRONT.match(text)
    if match is None:
        return {}, text
    fields = {}
    for line in match["fields"].split("\n"):
        field = FIELD.fullmatch(line.rstrip())
        if field and field["value"]:
            fields[field["name"].lower()] = field["value"].strip("'\"")
    return fields, text[match.end() :]
