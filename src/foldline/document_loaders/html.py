"""`HTMLLoader`: the text of a page, without scripts and tags; its title is metadata.

Python's own parser keeps no tree, so the time depends on the length of a page and not on its depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from foldline.document_loaders._source import OneFileLoader, decode_text, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.document_loaders.markdown import refuse_unstructured
from foldline.documents.base import Document

__all__ = [
    "BSHTMLLoader",
    "HTMLLoader",
    "UnstructuredHTMLLoader",
]

SILENT = frozenset({"script", "style", "template", "noscript", "svg", "iframe", "object", "canvas"})
"""Elements whose content is not shown to a reader."""
BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption figure footer "
        "form h1 h2 h3 h4 h5 h6 header hgroup hr li main nav ol p pre section summary table tbody tfoot thead tr ul",
    )
)
"""Elements that begin a new line."""
PARAGRAPHS = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "table", "ul", "ol", "section"}
)
"""Those with an empty line around them."""
CELLS = frozenset({"td", "th"})
CHARSET = re.compile(
    rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([A-Za-z0-9._-]{1,40})""", re.IGNORECASE
)
DESCRIPTIONS = ("description", "og:description")


class _Page(HTMLParser):
    """Collects the text of a page, its title, language and description."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.metadata: dict[str, str] = {}
        self._pieces: list[str] = []
        self._silent: list[str] = []
        self._preformatted = 0
        self._is_in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "html" and attributes.get("lang"):
            self.metadata["language"] = str(attributes["lang"])
        elif tag == "title" and not self.title and not self._silent:
            self._is_in_title = True
        elif (
            tag == "meta"
            and (attributes.get("name") or attributes.get("property") or "").lower() in DESCRIPTIONS
        ):
            self.metadata.setdefault("description", str(attributes.get("content") or ""))
        if tag in SILENT:
            self._silent.append(tag)
        if tag == "br" and not self._silent:
            self._pieces.append("\n")
        elif tag in CELLS and not self._silent:
            self._add("\t")
        elif tag in BLOCKS:
            self._is_in_title = False  # an unclosed title ends here
            self._break(tag)
            if tag == "li":
                self._add("- ")
        self._preformatted += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._is_in_title = False
        if tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        if tag in BLOCKS:
            self._break(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # `<script/>` is not self-closing in HTML; an SVG element may be.
        self.handle_starttag(tag, attrs)
        if tag in SILENT - {"script", "style"}:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self._is_in_title:
            self.title += data
        elif not self._silent:
            self._add(data if self._preformatted else re.sub(r"\s+", " ", data))

    def _add(self, text: str) -> None:
        is_after_space = not self._pieces or self._pieces[-1][-1] in " \t\n"
        if is_after_space and not self._preformatted:
            text = text.lstrip(" \t")
        if text:
            self._pieces.append(text)

    def _break(self, tag: str) -> None:
        """Begin a line or a paragraph, unless one has begun already."""
        if self._silent:
            return
        missing = (2 if tag in PARAGRAPHS else 1) - self._newlines()
        if missing > 0:
            self._pieces.append("\n" * missing)

    def _newlines(self) -> int:
        ending = "".join(self._pieces[-2:])
        return len(ending) - len(ending.rstrip("\n"))

    def text(self) -> str:
        """Return the text: no space at the ends of lines, at most one empty line."""
        joined = re.sub(r"[ \t]+(?=\n)", "", "".join(self._pieces))
        return re.sub(r"\n{3,}", "\n\n", joined).strip()


def html_document(html: str, metadata: dict[str, Any]) -> Document:
    """Return the text of a page as a document, its title, language and description in the metadata."""
    page = _Page()
    page.feed(html)
    page.close()
    fields = {"title": " ".join(page.title.split()), **page.metadata}
    return Document(page.text(), metadata={**metadata, **{k: v for k, v in fields.items() if v}})


def html_charset(data: bytes) -> str | None:
    """Return the encoding that a page names in its first kilobytes."""
    match = CHARSET.search(data[:4096])
    return match[1].decode("ascii") if match else None


class HTMLLoader(OneFileLoader):
    """Loads the text of a page, without scripts and tags.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import HTMLLoader

    file = Path(tempfile.mkdtemp()) / "page.html"
    file.write_text("<title>Owls</title><p>They <b>hunt</b>.</p><script>alert(1)</script>")
    document = HTMLLoader(file).load()[0]
    print(document.metadata["title"], "|", document.page_content)
    #> Owls | They hunt.
    ```
    """

    suffixes = (".html", ".htm", ".xhtml")

    def __init__(self, file_path: PathLike, *, encoding: str | None = None) -> None:
        """Load `file_path`, in the given encoding, the one that it names, or UTF-8."""
        super().__init__(file_path)
        self.encoding = encoding

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Return the one document of a blob."""
        source, data = source_of(blob), read_blob(blob)
        charset = self.encoding or html_charset(data)
        text = decode_text(data, source, charset, autodetect=self.encoding is None)
        yield html_document(text, {**blob.metadata, "source": source})


class BSHTMLLoader(HTMLLoader):
    """`HTMLLoader` under LangChain's name; it needs no Beautiful Soup and refuses the options for it."""

    def __init__(
        self,
        file_path: PathLike,
        open_encoding: str | None = None,
        **options: Any,
    ) -> None:
        refuse_unstructured(self, {k: v for k, v in options.items() if v})
        super().__init__(file_path, encoding=open_encoding)


class UnstructuredHTMLLoader(HTMLLoader):
    """`HTMLLoader` under LangChain's name; options of the `unstructured` package are refused."""

    def __init__(self, file_path: PathLike, mode: str = "single", **options: Any) -> None:
        refuse_unstructured(self, options if mode == "single" else {**options, "mode": mode})
        super().__init__(file_path)
