"""`XMLOutputParser`: XML out of a model's answer, as nested dicts. No entity is expanded and nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from foldline.exceptions import OutputParserException
from foldline.messages import BaseMessage
from foldline.output_parsers._xml_stream import Token, XmlError, XmlTokens
from foldline.output_parsers.format_instructions import XML_FORMAT_INSTRUCTIONS
from foldline.output_parsers.json import shown
from foldline.output_parsers.string import text_of
from foldline.output_parsers.transform import BaseTransformOutputParser, Reader
from foldline.protocol.blocks import Json
from foldline.runnables.utils import AddableDict

__all__ = ["XMLOutputParser", "nested_element"]

DEEPEST = 200
ENCODING = re.compile(r"<([^>]*encoding[^>]*)>\n(.*)", re.MULTILINE | re.DOTALL)


class XMLOutputParser(BaseTransformOutputParser[dict[str, Any]]):
    """XML as dicts: a tag holds its text, or a list of what is in it; attributes are left out.

    ```python
    from foldline.output_parsers import XMLOutputParser

    print(XMLOutputParser().invoke("<film><title>Loom</title><year>1999</year></film>"))
    #> {'film': [{'title': 'Loom'}, {'year': '1999'}]}
    ```
    """

    tags: list[str] | None = None
    """The tags that the format instructions ask for."""
    encoding_matcher: re.Pattern[str] = ENCODING
    """Finds the document behind an encoding declaration; the usual one is understood without."""
    parser: Literal["defusedxml", "xml"] = "defusedxml"
    """Kept for LangChain's sake: there is one parser here, and it expands nothing."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Say that this parser can be written and read back."""
        return True

    @property
    def _type(self) -> str:
        return "xml"

    def get_format_instructions(self) -> str:
        """Say to the model to write XML, with the tags if there are some."""
        return XML_FORMAT_INSTRUCTIONS.format(tags=", ".join(self.tags or ["(none listed)"]))

    def parse(self, text: str) -> dict[str, Any]:
        """Read a text; prose and a code fence around the document are skipped."""
        if self.encoding_matcher is not ENCODING and (found := self.encoding_matcher.search(text)):
            text = found.group(2)
        tree = _Tree(is_strict=True)
        try:
            for _ in tree.feed(text):
                pass
            tree.check_end()
        except XmlError as error:
            raise _no_xml(text, error) from error
        return tree.root

    def _reader(self) -> Reader:
        is_plain = type(self).parse is XMLOutputParser.parse
        return _XmlReader() if is_plain else super()._reader()


def _no_xml(text: str, error: XmlError) -> OutputParserException:
    return OutputParserException(
        f"no XML in the model's answer ({error}): {shown(text)}", llm_output=text
    )


def nested_element(path: list[str], value: Json) -> AddableDict:
    """Put a value under a path of tags: `['a', 'b']` gives `{'a': [{'b': value}]}`.

    `value` may be text, None or an element (anything that has `tag` and `text`), which is put under its own tag.
    """
    if hasattr(value, "tag") and hasattr(value, "text"):
        path, value = [*path, str(value.tag)], value.text
    nested: Json = AddableDict({path[-1]: value})
    for tag in reversed(path[:-1]):
        nested = AddableDict({tag: [nested]})
    return AddableDict(nested)


class _Element:
    __slots__ = ("parts", "tag", "text")

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.text: list[str] = []
        self.parts: list[Any] = []
        """What is inside, once there is a tag among it: dicts, and text between them."""

    def take_text(self) -> str:
        text = "".join(self.text)
        self.text.clear()
        return text


class _Tree:
    """Builds the dicts, and says what is new: (path, value) pairs."""

    def __init__(self, *, is_strict: bool) -> None:
        self.root: dict[str, Any] = {}
        self._tokens = XmlTokens()
        self._open: list[_Element] = []
        self._is_strict = is_strict
        self._is_closed = False

    def feed(self, text: str) -> Iterator[tuple[list[str], Json]]:
        if self._is_closed and not self._is_strict:
            return
        for token in self._tokens.feed(text):
            if self._is_closed:
                if self._is_strict and token.kind != "text":
                    raise XmlError(f"another tag after the end of the document: {token.value!r}")
                continue
            yield from self._take(token)

    def check_end(self) -> None:
        if self._open:
            raise XmlError(f"the tag {self._open[-1].tag!r} is never closed")
        if not self._is_closed:
            raise XmlError("no tag was found")

    def _take(self, token: Token) -> Iterator[tuple[list[str], Json]]:
        if token.kind == "text":
            if self._open:
                self._open[-1].text.append(token.value)
            return
        if token.kind != "close":
            yield from self._begin(token.value)
        if token.kind != "open":
            yield from self._end(token.value)

    def _begin(self, tag: str) -> Iterator[tuple[list[str], Json]]:
        if len(self._open) >= DEEPEST:
            raise XmlError(f"tags nest deeper than {DEEPEST} levels")
        if self._open:
            yield from self._keep_text(self._open[-1])
        self._open.append(_Element(tag))
        self._tokens.is_inside = True

    def _keep_text(self, element: _Element) -> Iterator[tuple[list[str], Json]]:
        """Text beside tags is a part of its own; space is not."""
        text = element.take_text()
        if text.strip():
            element.parts.append(text)
            yield [e.tag for e in self._open], [text]

    def _end(self, tag: str) -> Iterator[tuple[list[str], Json]]:
        if not self._open or self._open[-1].tag != tag:
            opened = self._open[-1].tag if self._open else None
            raise XmlError(f"</{tag}> closes {opened!r}" if opened else f"</{tag}> closes nothing")
        element = self._open[-1]
        path = [e.tag for e in self._open]
        value: Json
        if element.parts:
            yield from self._keep_text(element)
            value = element.parts
        else:
            value = element.take_text() or None
            yield path, value
        self._open.pop()
        if self._open:
            self._open[-1].parts.append({tag: value})
            return
        # LangChain says an empty list for a document with nothing in it.
        is_blank = value is None or (isinstance(value, str) and not value.strip())
        self.root = {tag: [] if is_blank else value}
        self._is_closed, self._tokens.is_inside = True, False


class _XmlReader:
    def __init__(self) -> None:
        self._tree = _Tree(is_strict=False)
        self._pieces: list[str] = []

    def feed(self, piece: str | BaseMessage) -> Iterable[AddableDict]:
        text = text_of(piece)
        self._pieces.append(text)
        try:
            return [nested_element(path, value) for path, value in self._tree.feed(text)]
        except XmlError as error:
            raise _no_xml("".join(self._pieces), error) from error

    def finish(self) -> Iterable[AddableDict]:
        text = "".join(self._pieces)
        if not text.strip():
            return ()
        try:
            self._tree.check_end()
        except XmlError as error:
            raise _no_xml(text, error) from error
        return ()
