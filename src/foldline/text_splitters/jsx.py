"""`JSFrameworkTextSplitter`: cuts the source of React, Vue and Svelte at statements and at the tags it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from foldline.text_splitters.base import Span
from foldline.text_splitters.character import RecursiveCharacterTextSplitter, pattern_of

__all__ = ["JSFrameworkTextSplitter"]

TAG: Final = re.compile(r"<\s*([a-zA-Z0-9]+)[^>]*>")
DECLARATIONS: Final = ("const", "let", "var")
ANYWHERE: Final = ("class", "if", "for", "while", "switch", "case", "default")
STATEMENTS: Final = [
    "\nexport ", " export ", "\nfunction ", "\nasync function ", " async function ",
    *(f"\n{word} " for word in DECLARATIONS), *(f"{mark}{word} " for word in ANYWHERE for mark in "\n "),
]  # fmt: skip
LAST: Final = ["<>", "\n\n", "&&\n", "||\n"]


class JSFrameworkTextSplitter(RecursiveCharacterTextSplitter):
    """Cuts before statements of JavaScript, then before the tags that a text has."""

    def __init__(
        self,
        separators: list[str] | None = None,
        chunk_size: int = 2000,
        chunk_overlap: int = 0,
        **kwargs: Any,
    ) -> None:
        """Set separators that come before all others."""
        super().__init__(chunk_size=chunk_size, chunk_overlap=chunk_overlap, **kwargs)
        self._separators = separators or []

    def split_text(self, text: str) -> list[str]:
        """Cut a text into pieces."""
        return [text[span.start : span.end] for span in self._spans(text)]

    def _spans(self, text: str) -> Iterator[Span]:
        tags = [f"<{tag}" for tag in dict.fromkeys(TAG.findall(text))]
        separators = [*self._separators, *STATEMENTS, *tags, *LAST]
        patterns = [
            pattern_of(separator, is_regex=self._is_separator_regex) for separator in separators
        ]
        return self._cut(text, Span(0, len(text)), patterns)
