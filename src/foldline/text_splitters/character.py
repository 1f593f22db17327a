"""Splitters by characters: at one separator, or at the first of several that makes the chunks small_parts enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Self

from foldline._traceback import entry_point
from foldline.exceptions import UsageError
from foldline.text_splitters.base import KeepSeparator, Span, TextSplitter
from foldline.text_splitters.languages import SEPARATORS, Language

__all__ = ["CharacterTextSplitter", "RecursiveCharacterTextSplitter"]

Pattern = re.Pattern[str]


class CharacterTextSplitter(TextSplitter):
    """Splits at one separator only: a part longer than `chunk_size` is not split.

    ```python
    from foldline.text_splitters import CharacterTextSplitter

    print(CharacterTextSplitter(separator=" ", chunk_size=8, chunk_overlap=0).split_text("a bb ccc dddd"))
    #> ['a bb ccc', 'dddd']
    ```
    """

    def __init__(
        self,
        separator: str = "\n\n",
        is_separator_regex: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        **kwargs: Any,
    ) -> None:
        """Set the separator; an empty one splits anywhere."""
        super().__init__(**kwargs)
        self._separator = separator
        self._is_separator_regex = is_separator_regex
        self._pattern = pattern_of(separator, is_regex=is_separator_regex)

    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks."""
        return [text[span.start : span.end] for span in self._spans(text)]

    def _spans(self, text: str) -> Iterator[Span]:
        parts = parts_of(text, Span(0, len(text)), self._pattern, self._keep_separator)
        return self._merged(text, parts)


class RecursiveCharacterTextSplitter(TextSplitter):
    """Splits at paragraphs; where those are too long, at lines, then at words, then anywhere.

    ```python
    from foldline.text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(chunk_size=12, chunk_overlap=0)
    print(splitter.split_text("One two three four"))
    #> ['One two', 'three four']
    ```
    """

    def __init__(
        self,
        separators: list[str] | None = None,
        keep_separator: KeepSeparator = True,  # noqa: FBT002  LangChain's signature
        is_separator_regex: bool = False,  # noqa: FBT001, FBT002
        **kwargs: Any,
    ) -> None:
        """Set the separators, the coarsest first."""
        super().__init__(keep_separator=keep_separator, **kwargs)
        self._separators = separators or ["\n\n", "\n", " ", ""]
        self._is_separator_regex = is_separator_regex
        self._patterns = [
            pattern_of(separator, is_regex=is_separator_regex) for separator in self._separators
        ]

    @classmethod
    @entry_point
    def from_language(cls, language: Language | str, **kwargs: Any) -> Self:
        """Make a splitter for source text: it splits before functions and classes, headings, or tags."""
        separators = cls.get_separators_for_language(language)
        return cls(separators=separators, is_separator_regex=True, **kwargs)

    @staticmethod
    def get_separators_for_language(language: Language | str) -> list[str]:
        """Return the separators of a language, as regular expressions."""
        try:
            return list(SEPARATORS[Language(language)])
        except (ValueError, KeyError) as error:
            languages = ", ".join(item.value for item in SEPARATORS)
            raise UsageError(
                f"there are no separators for {language!r}, only for {languages}"
            ) from error

    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks."""
        return [text[span.start : span.end] for span in self._spans(text)]

    def _spans(self, text: str) -> Iterator[Span]:
        return self._cut(text, Span(0, len(text)), self._patterns)

    def _cut(self, text: str, span: Span, patterns: list[Pattern | None]) -> Iterator[Span]:
        pattern, finer = _first_that_cuts(text, span, patterns)
        if pattern is None and self._length_function is len:
            yield from self._cut_anywhere(text, span)
            return
        small_parts: list[Span] = []
        for part in parts_of(text, span, pattern, self._keep_separator):
            if self._length_function(text[part.start : part.end]) < self._chunk_size:
                small_parts.append(part)
                continue
            yield from self._merged(text, small_parts)
            small_parts = []
            if finer:
                yield from self._cut(text, part, finer)
            else:
                yield part
        yield from self._merged(text, small_parts)

    def _cut_anywhere(self, text: str, span: Span) -> Iterator[Span]:
        """Split every `chunk_size` characters, like merging single characters but faster."""
        step = max(1, self._chunk_size - self._chunk_overlap)
        start = span.start
        while start < span.end:
            end = min(start + self._chunk_size, span.end)
            yield from self._finished(text, start, end)
            if end == span.end:
                return
            start += step


def parts_of(text: str, span: Span, pattern: Pattern | None, keep: KeepSeparator) -> Iterator[Span]:
    """Split a span at a separator (without one: into characters); empty parts are omitted."""
    if pattern is None:
        yield from (Span(place, place + 1) for place in range(*span))
        return
    start = span.start
    for match in pattern.finditer(text, span.start, span.end):
        end = match.end() if keep == "end" else match.start()
        if end > start:
            yield Span(start, end)
        start = match.end() if keep in ("end", False) else match.start()
    if span.end > start:
        yield Span(start, span.end)


def _first_that_cuts(
    text: str, span: Span, patterns: list[Pattern | None]
) -> tuple[Pattern | None, list[Pattern | None]]:
    for place, pattern in enumerate(patterns):
        if pattern is None:
            return None, []
        if pattern.search(text, span.start, span.end):
            return pattern, patterns[place + 1 :]
    return patterns[-1], []


def pattern_of(separator: str, *, is_regex: bool) -> Pattern | None:
    """Return what finds a separator; None for the empty one, which is between all characters."""
    if not separator:
        return None
    try:
        return re.compile(separator if is_regex else re.escape(separator))
    except re.error as error:
        raise UsageError(
            f"the separator {separator!r} is not a regular expression: {error}"
        ) from error
