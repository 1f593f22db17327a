"""Splitters of HTML by its headings: `HTMLHeaderTextSplitter`, `HTMLSectionSplitter`. Python's own parser reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from foldline.documents.base import Document
from foldline.text_splitters.character import RecursiveCharacterTextSplitter
from foldline.utils._short_repr import short_repr

__all__ = ["ElementType", "HTMLHeaderTextSplitter", "HTMLSectionSplitter"]

SILENT = frozenset({"script", "style", "template", "noscript", "head"})
"""Elements whose content is not shown to a reader."""
INLINE = frozenset(
    {
        "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "i", "kbd", "label", "mark", "q", "s",
       "samp",
        "small", "span", "strong", "sub", "sup", "time", "u", "var",
    }
)  # fmt: skip
"""Elements that do not begin a new text."""
SPACES = re.compile(r"\s+")


class ElementType(TypedDict):
    """A text of a page, and the headings above it."""

    url: str
    xpath: str
    content: str
    metadata: dict[str, str]


class _Text(TypedDict):
    tag: str
    depth: int
    content: str


class _Texts(HTMLParser):
    """Collects the texts of a page in order, each with its nearest block element and how deep that is."""

    VOID = frozenset(
        {
            "area",
            "base",
            "br",
            "col",
            "embed",
            "hr",
            "img",
            "input",
            "link",
            "meta",
            "source",
            "track",
            "wbr",
        }
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[_Text] = []
        self._open: list[str] = []
        self._pieces: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.VOID:
            if tag == "br":
                self._pieces.append(" ")
            return
        if tag not in INLINE:
            self._end_text()
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self._end_text()
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if SILENT.isdisjoint(self._open):
            self._pieces.append(data)

    def close(self) -> None:
        super().close()
        self._end_text()

    def _end_text(self) -> None:
        content = SPACES.sub(" ", "".join(self._pieces)).strip()
        self._pieces.clear()
        if content:
            blocks = [tag for tag in self._open if tag not in INLINE]
            tag = blocks[-1] if blocks else ""
            self.texts.append(_Text(tag=tag, depth=len(blocks), content=content))


def _texts(html: str) -> list[_Text]:
    parser = _Texts()
    parser.feed(html)
    parser.close()
    return parser.texts


class HTMLHeaderTextSplitter:
    """Splits a page at its headings: a document for each heading and for the text headings it.

    ```python
    from foldline.text_splitters import HTMLHeaderTextSplitter

    splitter = HTMLHeaderTextSplitter([("h1", "title")])
    for document in splitter.split_text("<h1>Cats</h1><p>They purr.</p>"):
        print(document.metadata, document.page_content)
        #> {'title': 'Cats'} Cats
        #> {'title': 'Cats'} They purr.
    ```
    """

    __repr__ = short_repr

    def __init__(
        self,
        headers_to_split_on: list[tuple[str, str]],
        return_each_element: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> None:
        """Set the elements that are headings, with their metadata keys: `[("h1", "title")]`."""
        self.headers_to_split_on = sorted(headers_to_split_on, key=lambda header: _level(header[0]))
        self.return_each_element = return_each_element

    def split_text(self, text: str) -> list[Document]:
        """Split a page."""
        names = dict(self.headers_to_split_on)
        headings: dict[str, tuple[str, int, int]] = {}
        documents: list[Document] = []
        lines: list[str] = []

        def metadata() -> dict[str, str]:
            return {names[tag]: content for tag, (content, _, _) in headings.items()}

        def end_section() -> None:
            if lines:
                documents.append(Document("  \n".join(lines), metadata=metadata()))
                lines.clear()

        for part in _texts(text):
            tag, depth = part["tag"], part["depth"]
            if tag in names:
                end_section()
                level = _level(tag)
                headings = {
                    key: heading
                    for key, heading in headings.items()
                    if heading[1] < level and heading[2] <= depth
                }
                headings[tag] = (part["content"], level, depth)
                documents.append(Document(part["content"], metadata=metadata()))
                continue
            if any(
                heading[2] > depth for heading in headings.values()
            ):  # the element around a heading has ended
                end_section()
                headings = {
                    key: heading for key, heading in headings.items() if heading[2] <= depth
                }
            lines.append(part["content"])
            if self.return_each_element:
                end_section()
        end_section()
        return documents

    def split_text_from_file(self, file: Any) -> list[Document]:  # noqa: ANN401  a path, or a file that is open
        """Split the page of a file."""
        return self.split_text(
            file.read() if hasattr(file, "read") else Path(file).read_text(encoding="utf-8")
        )


class HTMLSectionSplitter:
    """Splits a page into sections: a heading and all text up to the next one."""

    __repr__ = short_repr

    def __init__(self, headers_to_split_on: list[tuple[str, str]], **kwargs: Any) -> None:
        """Set the elements that are headings, with their metadata keys; other options are those of a splitter."""
        self.headers_to_split_on: dict[str, str] = dict(headers_to_split_on)
        self.kwargs = kwargs

    def split_text(self, text: str) -> list[Document]:
        """Split a page; text before the first heading is headings `#TITLE#`."""
        sections: list[tuple[str, str, list[str]]] = [("#TITLE#", "h1", [])]
        for part in _texts(text):
            if part["tag"] in self.headers_to_split_on:
                sections.append((part["content"], part["tag"], [part["content"]]))
            else:
                sections[-1][2].append(part["content"])
        return [
            Document("\n".join(lines), metadata={self.headers_to_split_on[tag]: title})
            for title, tag, lines in sections
            if lines and tag in self.headers_to_split_on
        ]

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """Split documents of HTML; sections that are too long are split further."""
        documents = list(documents)
        return self.create_documents(
            [document.page_content for document in documents],
            [document.metadata for document in documents],
        )

    def create_documents(
        self, texts: list[str], metadatas: list[dict[Any, Any]] | None = None
    ) -> list[Document]:
        """Split texts of HTML; sections that are too long are split further."""
        sections = [
            Document(section.page_content, metadata={**metadata, **section.metadata})
            for text, metadata in zip(texts, metadatas or [{}] * len(texts), strict=True)
            for section in self.split_text(text)
        ]
        return RecursiveCharacterTextSplitter(**self.kwargs).split_documents(sections)


def _level(tag: str) -> int:
    return int(tag[1:]) if tag[1:].isdigit() else 9999
