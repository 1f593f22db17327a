"""Parses the XML in a model's answer piece by piece, with the standard library's expat.

`DocumentText` removes what models write around a document and expat rejects: prose, code fences, comments outside the
root. Document types are rejected, so no entity is expanded and nothing is fetched. `xml.etree` is not used because it
requires declared prefixes, and models write `<x:y>`. Linear in the length of the answer, however it is cut.
"""

from __future__ import annotations

import re
from typing import Any
from xml.parsers import expat

__all__ = ["TAG", "DocumentText", "XmlError", "XmlStreamParser", "XmlTree"]

NAME = r"[A-Za-z_:\u0080-\U0010ffff][\w:.\-\u0080-\U0010ffff]*+"
VALUE = r"""(?:"[^"<]*+"|'[^'<]*+')"""
SPECIAL = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
"""The opening of a comment, CDATA section or instruction -> its closing."""
SPECIAL_OPENING = re.compile("|".join(map(re.escape, SPECIAL)))
TAG = re.compile(rf"<!(?=[A-Za-z])|</?{NAME}(?:\s++[^\s=<>/\"']++\s*+=\s*+{VALUE})*+\s*+/?>")
"""A whole tag, or the beginning of a document type."""
MARKUP = re.compile(f"{SPECIAL_OPENING.pattern}|{TAG.pattern}")
"""Anything that is markup and not text."""
MAX_DEPTH = 200
"""Nesting depth of tags."""
MAX_TAG_LENGTH = 4096
"""Characters of a tag that arrives in pieces; each piece is searched from the start of the tag."""


class XmlError(ValueError):
    """The text is not the XML it should be."""


class _Element:
    __slots__ = ("parts", "tag", "text")

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.text: list[str] = []
        self.parts: list[Any] = []
        """The content, if it has a tag: dicts for tags, and the text between them."""

    def take_text(self) -> str:
        text = "".join(self.text)
        self.text.clear()
        return text


class XmlTree:
    """Receives the document; builds the dicts, and collects the changes: (path, value) pairs."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.is_closed = False
        """Whether the root tag is closed."""
        self.events = 0
        """How many tags and pieces of text have arrived."""
        self._open: list[_Element] = []
        self._changes: list[tuple[list[str], Any]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Receive an opening tag."""
        self.events += 1
        if len(self._open) >= MAX_DEPTH:
            raise XmlError(f"tags nest deeper than {MAX_DEPTH} levels")
        if self._open:
            self._add_text(self._open[-1])
        self._open.append(_Element(tag))

    def data(self, text: str) -> None:
        """Receive a piece of text."""
        self.events += 1
        self._open[-1].text.append(text)

    def end(self, tag: str) -> None:
        """Receive a closing tag."""
        self.events += 1
        element = self._open[-1]
        value: Any
        if element.parts:
            self._add_text(element)
            value = element.parts
        else:
            value = element.take_text() or None
            self._changes.append((self._path(), value))
        self._open.pop()
        if self._open:
            self._open[-1].parts.append({tag: value})
            return
        # LangChain returns an empty list for an empty document.
        is_blank = value is None or (isinstance(value, str) and not value.strip())
        self.root = {tag: [] if is_blank else value}
        self.is_closed = True

    def take_changes(self) -> list[tuple[list[str], Any]]:
        """Return the changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def check_end(self) -> None:
        """Raise `XmlError` unless the document is complete."""
        if self._open:
            raise XmlError(f"the tag {self._open[-1].tag!r} is never closed")
        if not self.is_closed:
            raise XmlError("no tag was found")

    def _path(self) -> list[str]:
        return [element.tag for element in self._open]

    def _add_text(self, element: _Element) -> None:
        """Add the text between tags as a part, unless it is white space."""
        text = element.take_text()
        if text.strip():
            element.parts.append(text)
            self._changes.append((self._path(), [text]))


class XmlStreamParser:
    """Parses text piece by piece; passes complete tags and text to the tree."""

    def __init__(self, tree: XmlTree) -> None:
        self._tree = tree
        self._document = DocumentText()
        self._unparsed_length = 0
        self._parser = parser = expat.ParserCreate()
        parser.StartElementHandler = tree.start
        parser.EndElementHandler = tree.end
        parser.CharacterDataHandler = tree.data
        parser.StartDoctypeDeclHandler = _refuse_document_type
        # From 2.6 on, expat may delay a tag that arrives in two pieces.
        if (set_deferral := getattr(parser, "SetReparseDeferralEnabled", None)) is not None:
            set_deferral(False)

    def feed(self, text: str) -> str:
        """Parse the next piece; return the text after the end of the document, if it is reached."""
        text = self._document.feed(text)
        position = 0
        while position < len(text) and not self._tree.is_closed:
            # Stop after each tag, which may be the last: expat rejects text after the document.
            end = text.find(">", position) + 1 or len(text)
            self._parse(text[position:end])
            position = end
        return text[position:]

    def _parse(self, text: str) -> None:
        events_before = self._tree.events
        try:
            self._parser.Parse(text.encode("utf-8", "surrogatepass"))
        except expat.ExpatError as error:
            raise XmlError(expat.ErrorString(error.code)) from error
        self._unparsed_length = (
            self._unparsed_length + len(text) if self._tree.events == events_before else 0
        )
        if self._unparsed_length > MAX_TAG_LENGTH:
            raise XmlError(f"a tag of more than {MAX_TAG_LENGTH} characters")


def _refuse_document_type(*_: object) -> None:
    raise XmlError("document types and entities are not read: leave out the <!...> part")


class DocumentText:
    """Filters text piece by piece: removes prose before the document, comments and instructions."""

    def __init__(self) -> None:
        self._tail = ""
        """The end of the text so far, which may be the beginning of markup."""
        self._closing = ""
        """The closing of the open comment, instruction or CDATA section; empty if none is open."""
        self._has_begun = False

    def feed(self, text: str) -> str:
        """Return the part of the next piece that belongs to the document."""
        text, self._tail = self._tail + text, ""
        document: list[str] = []
        position = 0
        while position < len(text):
            step = self._read_special if self._closing else self._read_text
            position = step(text, position, document)
        return "".join(document)

    def _read_special(self, text: str, position: int, document: list[str]) -> int:
        is_cdata = self._has_begun and self._closing == "]]>"
        end = text.find(self._closing, position)
        if end >= 0:
            end = position_after = end + len(self._closing)
            self._closing = ""
        else:
            end = max(position, len(text) - len(self._closing) + 1)
            position_after, self._tail = len(text), text[end:]
        if is_cdata:
            document.append(text[position:end])
        return position_after

    def _read_text(self, text: str, position: int, document: list[str]) -> int:
        match = (SPECIAL_OPENING if self._has_begun else MARKUP).search(text, position)
        if match is not None and match[0] not in SPECIAL:
            self._has_begun = True
            return match.start()
        end = self._uncut_length(text, position) if match is None else match.start()
        if self._has_begun:
            document.append(text[position:end])
        if match is None:
            self._tail = text[end:]
            return len(text)
        self._closing = SPECIAL[match[0]]
        if self._has_begun and match[0] == "<![CDATA[":
            document.append(match[0])
        return match.end()

    def _uncut_length(self, text: str, position: int) -> int:
        """Return the length of the text without an ending that the next piece may complete to markup."""
        last = text.rfind("<", position)
        tail = text[last:] if last >= 0 else ""
        if self._has_begun:
            is_cut = bool(tail) and any(opening.startswith(tail) for opening in SPECIAL)
        else:
            is_cut = 0 < len(tail) <= MAX_TAG_LENGTH
        return last if is_cut else len(text)
