"""Splitters named for one language: the recursive splitter with that language's separators."""

from __future__ import annotations

from typing import Any, ClassVar

from foldline.text_splitters.character import RecursiveCharacterTextSplitter
from foldline.text_splitters.languages import Language

__all__ = ["LatexTextSplitter", "MarkdownTextSplitter", "PythonCodeTextSplitter"]


class _SourceSplitter(RecursiveCharacterTextSplitter):
    language: ClassVar[Language]

    def __init__(self, **kwargs: Any) -> None:
        separators = self.get_separators_for_language(self.language)
        super().__init__(separators=separators, is_separator_regex=True, **kwargs)


class MarkdownTextSplitter(_SourceSplitter):
    """Splits Markdown at headings, code blocks and rules first."""

    language = Language.MARKDOWN


class PythonCodeTextSplitter(_SourceSplitter):
    """Splits Python at classes and functions first."""

    language = Language.PYTHON


class LatexTextSplitter(_SourceSplitter):
    """Splits LaTeX at chapters, sections and environments first."""

    language = Language.LATEX
