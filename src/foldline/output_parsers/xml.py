"""`XMLOutputParser`: the XML in a model's answer as nested dicts. No entity is expanded and nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from foldline.exceptions import OutputParserException
from foldline.messages import BaseMessage
from foldline.output_parsers._xml_stream import TAG, XmlError, XmlStreamParser, XmlTree
from foldline.output_parsers.format_instructions import XML_FORMAT_INSTRUCTIONS
from foldline.output_parsers.json import shorten
from foldline.output_parsers.string import text_of
from foldline.output_parsers.transform import BaseTransformOutputParser, Reader
from foldline.runnables.utils import AddableDict

__all__ = ["XMLOutputParser", "nested_element"]

ENCODING = re.compile(r"<([^>]*encoding[^>]*)>\n(.*)", re.MULTILINE | re.DOTALL)


class XMLOutputParser(BaseTransformOutputParser[dict[str, Any]]):
    """Parses XML as dicts: a tag holds its text, or a list of its content; attributes are ignored.

    ```python
    from foldline.output_parsers import XMLOutputParser

    print(XMLOutputParser().invoke("<film><title>Loom</title><year>1999</year></film>"))
    #> {'film': [{'title': 'Loom'}, {'year': '1999'}]}
    ```
    """

    tags: list[str] | None = None
    """The tags that the format instructions ask for."""
    encoding_matcher: re.Pattern[str] = ENCODING
    """Finds the document after an encoding declaration; a usual declaration is handled without it."""
    parser: Literal["defusedxml", "xml"] = "defusedxml"
    """Accepted for compatibility with LangChain: foldline has one parser, which expands no entities."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: this parser can be dumped and loaded."""
        return True

    @property
    def _type(self) -> str:
        return "xml"

    def get_format_instructions(self) -> str:
        """Return instructions for the model to write XML, with the tags if there are some."""
        return XML_FORMAT_INSTRUCTIONS.format(tags=", ".join(self.tags or ["(none listed)"]))

    def parse(self, text: str) -> dict[str, Any]:
        """Parse a text; prose and a code fence around the document are skipped."""
        if self.encoding_matcher is not ENCODING and (match := self.encoding_matcher.search(text)):
            text = match.group(2)
        tree = XmlTree()
        try:
            remainder = XmlStreamParser(tree).feed(text)
            tree.check_end()
            if (extra_tag := TAG.search(remainder)) is not None:
                raise XmlError(f"another tag after the end of the document: {extra_tag[0]!r}")
        except XmlError as error:
            raise _no_xml_error(text, error) from error
        return tree.root

    def _reader(self) -> Reader:
        is_plain = type(self).parse is XMLOutputParser.parse
        return _XmlReader() if is_plain else super()._reader()


def _no_xml_error(text: str, error: XmlError) -> OutputParserException:
    return OutputParserException(
        f"Failed to parse XML from the model's answer ({error}): {shorten(text)}", llm_output=text
    )


def nested_element(path: list[str], value: object) -> AddableDict:
    """Put a value under a path of tags: `['a', 'b']` makes `{'a': [{'b': value}]}`.

    `value` may be text, None or an element (anything that has `tag` and `text`), which is put under its own tag.
    """
    if hasattr(value, "tag") and hasattr(value, "text"):
        path, value = [*path, str(value.tag)], value.text
    nested: Any = AddableDict({path[-1]: value})
    for tag in reversed(path[:-1]):
        nested = AddableDict({tag: [nested]})
    return AddableDict(nested)


class _XmlReader:
    def __init__(self) -> None:
        self._tree = XmlTree()
        self._stream_parser = XmlStreamParser(self._tree)
        self._pieces: list[str] = []

    def feed(self, piece: str | BaseMessage) -> Iterable[AddableDict]:
        text = text_of(piece)
        self._pieces.append(text)
        if self._tree.is_closed:
            return ()
        try:
            self._stream_parser.feed(text)
        except XmlError as error:
            raise _no_xml_error("".join(self._pieces), error) from error
        return [nested_element(path, value) for path, value in self._tree.take_changes()]

    def finish(self) -> Iterable[AddableDict]:
        text = "".join(self._pieces)
        if not text.strip():
            return ()
        try:
            self._tree.check_end()
        except XmlError as error:
            raise _no_xml_error(text, error) from error
        return ()
