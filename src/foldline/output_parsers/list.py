"""Parsers of lists: comma-separated, numbered, markdown. While a list streams, items are emitted once complete."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from foldline.messages import BaseMessage
from foldline.output_parsers._csv import CsvReader
from foldline.output_parsers.string import text_of
from foldline.output_parsers.transform import BaseTransformOutputParser, Reader

__all__ = [
    "CommaSeparatedListOutputParser",
    "ListOutputParser",
    "MarkdownListOutputParser",
    "NumberedListOutputParser",
    "droplastn",
]

T = TypeVar("T")
Texts = list[str]

NUMBERED = r"\d+\.\s([^\n]+)"
MARKDOWN = r"^\s*[-*]\s([^\n]+)$"
LINEAR_PATTERNS = {
    NUMBERED: re.compile(r"(?<!\d)\d++\.\s([^\n]++)"),
    MARKDOWN: re.compile(r"^[^\S\n]*+[-*]\s([^\n]++)$", re.MULTILINE),
}
"""LangChain's patterns -> the same without backtracking, so that matching is linear."""


def droplastn(iter: Iterator[T], n: int) -> Iterator[T]:
    """Return all items but the last n."""
    buffer: deque[T] = deque()
    for item in iter:
        buffer.append(item)
        if len(buffer) > n:
            yield buffer.popleft()


@lru_cache(maxsize=64)
def _compile(pattern: str) -> re.Pattern[str]:
    return LINEAR_PATTERNS.get(pattern) or re.compile(pattern, re.MULTILINE)


class ListOutputParser(BaseTransformOutputParser[Texts]):
    """A parser of a list of texts. A subclass implements `parse`, and `parse_iter` if a pattern finds the items."""

    @property
    def _type(self) -> str:
        return "list"

    @abstractmethod
    def parse(self, text: str) -> Texts:
        """Parse a list."""

    def parse_iter(self, text: str) -> Iterator[re.Match[str]]:
        """Find the items, each as the first group of a match."""
        raise NotImplementedError(f"{type(self).__name__} has no pattern that finds items")

    def _reader(self) -> Reader:
        return _ListReader(self)


class _ListReader:
    """Reads the list of any parser; emits all items but the last, which may be incomplete."""

    def __init__(self, parser: ListOutputParser) -> None:
        self._parser = parser
        self._text = ""

    def feed(self, piece: str | BaseMessage) -> Iterable[Texts]:
        self._text += text_of(piece)
        try:
            matches = list(droplastn(self._parser.parse_iter(self._text), 1))
        except NotImplementedError:
            items = self._parser.parse(self._text)
            if len(items) > 1:
                self._text = items[-1]
                return [[item] for item in items[:-1]]
            return ()
        if matches:
            self._text = self._text[matches[-1].end() :]
        return [[match.group(1)] for match in matches]

    def finish(self) -> Iterable[Texts]:
        return [[item] for item in self._parser.parse(self._text)]


class CommaSeparatedListOutputParser(ListOutputParser):
    """Parses values between commas; a value with a comma must be in double quotes.

    ```python
    from foldline.output_parsers import CommaSeparatedListOutputParser

    print(CommaSeparatedListOutputParser().invoke('red, "dark, blue", green'))
    #> ['red', 'dark, blue', 'green']
    ```
    """

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: this parser can be dumped and loaded."""
        return True

    @property
    def _type(self) -> str:
        return "comma-separated-list"

    def get_format_instructions(self) -> str:
        """Return instructions for the model to write values between commas."""
        return "Answer with a list of values separated by commas and nothing else, such as: red, green, blue"

    def parse(self, text: str) -> Texts:
        """Parse a list."""
        reader = CsvReader()
        return [*reader.feed(text), *reader.finish()]

    def _reader(self) -> Reader:
        is_plain = type(self).parse is CommaSeparatedListOutputParser.parse
        return _CommaReader() if is_plain else super()._reader()


class _CommaReader:
    def __init__(self) -> None:
        self._csv = CsvReader()

    def feed(self, piece: str | BaseMessage) -> Iterable[Texts]:
        return [[value] for value in self._csv.feed(text_of(piece))]

    def finish(self) -> Iterable[Texts]:
        return [[value] for value in self._csv.finish()]


class _PatternList(ListOutputParser):
    """Parses items that a pattern finds, one per line."""

    pattern: str
    """Finds an item: its first group."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: this parser can be dumped and loaded."""
        return True

    def parse(self, text: str) -> Texts:
        """Parse a list."""
        return [match.group(1) for match in self.parse_iter(text)]

    def parse_iter(self, text: str) -> Iterator[re.Match[str]]:
        """Find the items."""
        return _compile(self.pattern).finditer(text)

    def _reader(self) -> Reader:
        cls = type(self)
        is_plain = cls.parse is _PatternList.parse and cls.parse_iter is _PatternList.parse_iter
        if is_plain and self.pattern in LINEAR_PATTERNS:
            return _LineReader(LINEAR_PATTERNS[self.pattern])
        return super()._reader()


class _LineReader:
    """Reads items line by line and emits each when its line is complete.

    A line is matched together with the previous one, which may contain the marker of an item on the next line.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._pieces: list[str] = []

    def feed(self, piece: str | BaseMessage) -> Iterable[Texts]:
        text = text_of(piece)
        self._pieces.append(text)
        if "\n" not in text:
            return ()
        buffer = "".join(self._pieces)
        end = buffer.rfind("\n")
        matches = list(self._pattern.finditer(buffer, 0, end))
        next_start = matches[-1].end() if matches else 0
        next_start = max(next_start, buffer.rfind("\n", 0, end) + 1)
        self._pieces = [buffer[next_start:]]
        return [[match.group(1)] for match in matches]

    def finish(self) -> Iterable[Texts]:
        return [[match.group(1)] for match in self._pattern.finditer("".join(self._pieces))]


class NumberedListOutputParser(_PatternList):
    """Parses items after `1.`, `2.` and so on.

    ```python
    from foldline.output_parsers import NumberedListOutputParser

    print(NumberedListOutputParser().invoke("Colours: 1. red"))
    #> ['red']
    ```
    """

    pattern: str = NUMBERED
    """Finds an item: its first group."""

    @property
    def _type(self) -> str:
        return "numbered-list"

    def get_format_instructions(self) -> str:
        """Return instructions for the model to write a numbered list."""
        return "Answer with a numbered list, one item on each line, such as:\n\n1. red\n2. green\n3. blue"


class MarkdownListOutputParser(_PatternList):
    """Parses items after `-` or `*`.

    ```python
    from foldline.output_parsers import MarkdownListOutputParser

    print(MarkdownListOutputParser().invoke("- red"))
    #> ['red']
    ```
    """

    pattern: str = MARKDOWN
    """Finds an item: its first group."""

    @property
    def _type(self) -> str:
        return "markdown-list"

    def get_format_instructions(self) -> str:
        """Return instructions for the model to write a markdown list."""
        return (
            "Answer with a markdown list, one item on each line, such as:\n\n- red\n- green\n- blue"
        )
