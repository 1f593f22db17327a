"""A small XML tokenizer, fed piece by piece: tags, text, nothing that can be expanded or fetched. Linear.

There are no document types, no entities but the five that XML has and numbers, no namespaces; attributes are skipped.
Text before the first tag is prose; what follows the last closing tag is up to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

__all__ = ["Token", "XmlError", "XmlTokens"]

NAME = r"[A-Za-z_:\u0080-\U0010ffff][\w:.\-\u0080-\U0010ffff]*+"
VALUE = r"""(?:"[^"<]*+"|'[^'<]*+')"""
TAG = re.compile(rf"<(/?)({NAME})((?:\s++[^\s=<>/\"']++\s*+=\s*+{VALUE})*+)\s*+(/?)>")
CUT_TAG = re.compile(
    rf"""<(?:/?(?:{NAME}(?:\s(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+(?:"[^"<]*+|'[^'<]*+)?)?/?)?)?\Z"""
)
ENTITY = re.compile(r"&(?:#([0-9]{1,7}+)|#[xX]([0-9a-fA-F]{1,6}+)|([A-Za-z]{2,4}+));")
CUT_ENTITY = re.compile(r"&[#A-Za-z0-9]{0,10}+\Z")
ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
LONGEST_TAG = 4096
MARKS = frozenset("<>")
SPECIAL = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
"""What opens something that is no tag -> what closes it."""


class XmlError(ValueError):
    """The text is not the XML it should be."""


class Token(NamedTuple):
    """A piece of the document."""

    kind: Literal["open", "close", "empty", "text"]
    value: str


class XmlTokens:
    """Fed text; gives the tokens that are complete."""

    def __init__(self) -> None:
        self._held = ""
        self._closing = ""
        self._is_cdata = False
        self.is_inside = False
        """Whether a tag is open: set by the reader, who counts them. Outside, `<` may be prose."""

    def feed(self, text: str) -> Iterator[Token]:
        """Read on."""
        if self._is_tag_going_on(text):
            self._held += text
            return
        text, self._held = self._held + text, ""
        position = 0
        while position < len(text):
            if self._closing:
                start = position
                position = self._special(text, position)
                if self._is_cdata_text(text, start, position):
                    yield Token("text", self._cdata(text, start, position))
                self._leave(text, position)
            elif text[position] == "<":
                position, token = self._markup(text, position)
                if token is not None:
                    yield token
            else:
                position, content = self._content(text, position)
                if content:
                    yield Token("text", content)

    def _is_tag_going_on(self, text: str) -> bool:
        """Whether a tag was cut off and this cannot end it, so that it need not be looked at again."""
        is_tag = len(self._held) > 1 and self._held[0] == "<" and self._held[1] not in "!?"
        is_short = len(self._held) + len(text) <= LONGEST_TAG
        return is_tag and is_short and not self._closing and MARKS.isdisjoint(text)

    # -- comments, CDATA, instructions: everything up to their closing mark

    def _special(self, text: str, position: int) -> int:
        end = text.find(self._closing, position)
        if end >= 0:
            return end + len(self._closing)
        keep = min(len(self._closing) - 1, len(text) - position)
        self._held = text[len(text) - keep :] if keep else ""
        return len(text)

    def _is_cdata_text(self, text: str, start: int, position: int) -> bool:
        return self._is_cdata and position > start

    def _cdata(self, text: str, start: int, position: int) -> str:
        is_closed = not self._held and text.endswith(self._closing, start, position)
        return text[start : position - len(self._closing if is_closed else self._held)]

    def _leave(self, text: str, position: int) -> None:
        if not self._held and text.endswith(self._closing, 0, position):
            self._closing, self._is_cdata = "", False

    # -- tags

    def _markup(self, text: str, position: int) -> tuple[int, Token | None]:
        tag = TAG.match(text, position)
        if tag is not None:
            kind: Literal["open", "close", "empty"] = "close" if tag[1] else "open"
            return tag.end(), Token("empty" if tag[4] else kind, tag[2])
        for opening, closing in SPECIAL.items():
            if text.startswith(opening, position):
                self._closing, self._is_cdata = closing, opening == "<![CDATA["
                return position + len(opening), None
        if self._is_cut(text, position):
            self._held = text[position:]
            return len(text), None
        if text.startswith("<!", position) and text[position + 2 : position + 3].isalpha():
            raise XmlError("document types and entities are not read: leave out the <!...> part")
        if not self.is_inside:
            return position + 1, None
        raise XmlError(
            f"not a tag, or a longer one than can be: {text[position : position + 40]!r}"
        )

    def _is_cut(self, text: str, position: int) -> bool:
        """Whether the text ends in the middle of something that may still become a tag, a comment or the like."""
        length = len(text) - position
        if length <= 9 and any(opening.startswith(text[position:]) for opening in SPECIAL):
            return True
        return length <= LONGEST_TAG and CUT_TAG.match(text, position) is not None

    # -- text

    def _content(self, text: str, position: int) -> tuple[int, str]:
        end = text.find("<", position)
        end = len(text) if end < 0 else end
        if not self.is_inside:
            return end, ""
        content = text[position:end]
        if end == len(text) and (cut := CUT_ENTITY.search(content, max(0, len(content) - 12))):
            self._held, content = cut[0], content[: cut.start()]
        if "&" in content:
            content = _resolved(content)
        return end, content


def _resolved(content: str) -> str:
    parts = []
    position = 0
    while (ampersand := content.find("&", position)) >= 0:
        entity = ENTITY.match(content, ampersand)
        if entity is None:
            raise XmlError(f"& is written &amp;, not {content[ampersand : ampersand + 12]!r}")
        parts += [content[position:ampersand], _character(entity)]
        position = entity.end()
    return "".join([*parts, content[position:]])


def _character(entity: re.Match[str]) -> str:
    decimal, hexadecimal, name = entity.groups()
    if name is not None:
        if name not in ENTITIES:
            raise XmlError(f"entities are not expanded: {entity[0]!r}")
        return ENTITIES[name]
    number = int(decimal) if decimal else int(hexadecimal, 16)
    if not 0 < number < 0x110000 or 0xD800 <= number < 0xE000:
        raise XmlError(f"{entity[0]!r} is no character")
    return chr(number)
