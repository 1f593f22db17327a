"""`XMLOutputParser`: XML out of a model's answer, as nested dicts. No entity is expanded and nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from foldline.exceptions import OutputParserException
from foldline.messages import BaseMessage
from foldline.output_parsers._xml_stream import TAG, XmlError, XmlFeed, XmlTree
from foldline.output_parsers.format_instructions import XML_FORMAT_INSTRUCTIONS
from foldline.output_parsers.json import shown
from foldline.output_parsers.string import text_of
from foldline.output_parsers.transform import BaseTransformOutputParser, Reader
from foldline.runnables.utils import AddableDict

__all__ = ["XMLOutputParser", "nested_element"]

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
        tree = XmlTree()
        try:
            remainder = XmlFeed(tree).feed(text)
            tree.check_end()
            if (extra_tag := TAG.search(remainder)) is not None:
                raise XmlError(f"another tag after the end of the document: {extra_tag[0]!r}")
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


def nested_element(path: list[str], value: object) -> AddableDict:
    """Put a value under a path of tags: `['a', 'b']` gives `{'a': [{'b': value}]}`.

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
        self._feed = XmlFeed(self._tree)
        self._pieces: list[str] = []

    def feed(self, piece: str | BaseMessage) -> Iterable[AddableDict]:
        text = text_of(piece)
        self._pieces.append(text)
        if self._tree.is_closed:
            return ()
        try:
            self._feed.feed(text)
        except XmlError as error:
            raise _no_xml("".join(self._pieces), error) from error
        return [nested_element(path, value) for path, value in self._tree.take_changes()]

    def finish(self) -> Iterable[AddableDict]:
        text = "".join(self._pieces)
        if not text.strip():
            return ()
        try:
            self._tree.check_end()
        except XmlError as error:
            raise _no_xml(text, error) from error
        return ()
