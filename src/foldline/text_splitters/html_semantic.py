"""`HTMLSemanticPreservingSplitter`: cuts a page at its headings and leaves tables, lists and the like whole.

Beautiful Soup reads the page, because functions of yours may be given its tags. Texts come in the order of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from foldline.documents.base import Document
from foldline.documents.transformers import BaseDocumentTransformer
from foldline.exceptions import MissingExtraError, UsageError
from foldline.text_splitters.base import KeepSeparator, Span
from foldline.text_splitters.character import RecursiveCharacterTextSplitter
from foldline.utils._short_repr import short_repr

__all__ = ["HTMLSemanticPreservingSplitter"]

MEDIA: Final = {"images": "img", "videos": "video", "audio": "audio"}
NAMES: Final = {"img": "image", "video": "video", "audio": "audio"}
SPACES: Final = re.compile(r"\s+")
Handler = Callable[[Any], str]


class _Part(NamedTuple):
    """A text of the page, or what ends one part of it and begins the next."""

    text: str
    is_whole: bool = False
    header: str | None = None
    """The name under which a heading stands in the metadata."""


class HTMLSemanticPreservingSplitter(BaseDocumentTransformer):
    """Cuts HTML at headings, and longer parts by size; elements that are to be preserved are never cut."""

    __repr__ = short_repr

    def __init__(
        self,
        headers_to_split_on: list[tuple[str, str]],
        *,
        max_chunk_size: int = 1000,
        chunk_overlap: int = 0,
        separators: list[str] | None = None,
        elements_to_preserve: list[str] | None = None,
        preserve_links: bool = False,
        preserve_images: bool = False,
        preserve_videos: bool = False,
        preserve_audio: bool = False,
        custom_handlers: dict[str, Handler] | None = None,
        stopword_removal: bool = False,
        stopword_lang: str = "english",
        normalize_text: bool = False,
        external_metadata: dict[str, str] | None = None,
        allowlist_tags: list[str] | None = None,
        denylist_tags: list[str] | None = None,
        preserve_parent_metadata: bool = False,
        keep_separator: KeepSeparator = True,
    ) -> None:
        """Set the headings (`("h1", "Title")`), the sizes, and what becomes of links, pictures and tags."""
        self._soup = _library("bs4", "beautifulsoup4")
        self._headers = dict(headers_to_split_on)
        self._max_chunk_size = max_chunk_size
        self._preserved = frozenset(elements_to_preserve or ())
        self._handlers: dict[str, Handler] = {}
        flags = {"images": preserve_images, "videos": preserve_videos, "audio": preserve_audio}
        for kind, tag in MEDIA.items():
            if flags[kind]:
                self._handlers[tag] = _media
        if preserve_links:
            self._handlers["a"] = _link
        self._handlers |= custom_handlers or {}
        self._is_normalized = normalize_text
        self._stopwords = _stopwords(stopword_lang) if stopword_removal else frozenset[str]()
        self._metadata = dict(external_metadata or {})
        self._allowed = None if not allowlist_tags else {*allowlist_tags, *self._headers}
        self._denied = {tag for tag in denylist_tags or () if tag not in self._headers}
        self._keeps_parents = preserve_parent_metadata
        self._splitter = RecursiveCharacterTextSplitter(
            separators, keep_separator, chunk_size=max_chunk_size, chunk_overlap=chunk_overlap
        )

    def split_text(self, text: str) -> list[Document]:
        """Cut a page into documents; each says in its metadata under which heading it stands."""
        soup = self._soup.BeautifulSoup(text, "html.parser")
        if self._allowed is not None:
            for tag in soup.find_all(lambda tag: tag.name not in self._allowed):
                tag.decompose()
        for tag in soup.find_all(list(self._denied)) if self._denied else ():
            tag.decompose()
        documents: list[Document] = []
        parts: list[_Part] = []
        headers: dict[str, str] = {}
        for part in self._parts(soup):
            if part.header is None:
                parts.append(part)
                continue
            documents += self._documents(parts, headers)
            parts, headers = [], {part.header: part.text}
        return documents + self._documents(parts, headers)

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> list[Document]:
        """Cut documents of HTML into smaller ones."""
        pieces: list[Document] = []
        for document in documents:
            for piece in self.split_text(document.page_content):
                more = document.metadata if self._keeps_parents else {}
                pieces.append(Document(piece.page_content, metadata={**more, **piece.metadata}))
        return pieces

    # -- reading

    def _parts(self, element: Any) -> Iterator[_Part]:  # noqa: ANN401  Beautiful Soup's
        for child in element.children:
            if not self._is_tag(child):
                text = self._text_of(child)
                if text:
                    yield _Part(text)
            elif child.name in self._headers:
                yield _Part(child.get_text(strip=True), header=self._headers[child.name])
            elif child.name in self._preserved or child.name in self._handlers:
                yield _Part(self._text_of(child), is_whole=child.name in self._preserved)
            else:
                yield from self._parts(child)

    def _is_tag(self, element: object) -> bool:
        return isinstance(element, self._soup.Tag)

    def _text_of(self, element: Any) -> str:  # noqa: ANN401  Beautiful Soup's
        if not self._is_tag(element):
            is_text = type(element) is self._soup.NavigableString  # and no comment
            return self._clean(SPACES.sub(" ", str(element)).strip()) if is_text else ""
        if element.name in self._handlers:
            return self._handlers[element.name](element)
        texts = [self._text_of(child) for child in element.children]
        return " ".join(text for text in texts if text)

    def _clean(self, text: str) -> str:
        if self._is_normalized:
            text = SPACES.sub(" ", re.sub(r"[^\w\s]", "", text.lower())).strip()
        if self._stopwords:
            text = " ".join(word for word in text.split() if word not in self._stopwords)
        return text

    # -- cutting

    def _documents(self, parts: list[_Part], headers: dict[str, str]) -> list[Document]:
        pieces = [piece for piece in self._pieces(parts) if piece]
        return [Document(piece, metadata={**headers, **self._metadata}) for piece in pieces]

    def _pieces(self, parts: list[_Part]) -> Iterator[str]:
        """Give the texts of a part of the page; one that is too long is cut, but not inside what is whole."""
        text = " ".join(part.text for part in parts if part.text)
        if len(text) <= self._max_chunk_size:
            yield text
            return
        spans: list[Span] = []
        start = 0
        for part in parts:
            if part.is_whole and part.text:
                spans.append(Span(start, start + len(part.text)))
            start += len(part.text) + 1 if part.text else 0
        for span in self._splitter._spans(text):
            begin, end = (_behind(place, spans) for place in span)
            if begin < end:
                yield text[begin:end].strip()


def _behind(place: int, whole: list[Span]) -> int:
    """Return a place where a text may be cut: this one, or the end of the element that it is inside of."""
    return next((span.end for span in whole if span.start < place < span.end), place)


def _link(tag: Any) -> str:  # noqa: ANN401  Beautiful Soup's
    return f"[{tag.get_text(strip=True)}]({tag.get('href', '')})"


def _media(tag: Any) -> str:  # noqa: ANN401  Beautiful Soup's
    source = tag.get("src", "")
    return f"![{NAMES[tag.name]}:{source}]({source})"


def _stopwords(language: str) -> frozenset[str]:
    corpus = _library("nltk.corpus", "nltk")
    try:
        return frozenset(corpus.stopwords.words(language))
    except (LookupError, OSError) as error:
        raise UsageError(
            f'NLTK has no stopwords of {language!r}: nltk.download("stopwords"), or set NLTK_DATA to a folder that '
            "has them"
        ) from error


def _library(module: str, package: str) -> Any:  # noqa: ANN401  a module of theirs
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'HTMLSemanticPreservingSplitter needs the package "{package}": pip install {package}'
        ) from error
