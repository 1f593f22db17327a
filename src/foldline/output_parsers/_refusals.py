"""Refusals in parsers: those that read JSON or calls raise `ModelRefusalError`, at the end of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline.messages import AIMessageChunk, BaseMessage
from foldline.messages._refusal import has_refusal, raise_if_refused
from foldline.messages.ai_chunk import is_text_slice
from foldline.outputs import ChatGeneration, Generation

__all__ = ["RefusalReader", "check_refusal"]


def check_refusal(result: Sequence[Generation], *, partial: bool = False) -> None:
    """Raise `ModelRefusalError` if the first candidate is a refusal; while it streams, its words still grow."""
    if not partial and isinstance(result[0], ChatGeneration):
        raise_if_refused(result[0].message)


class RefusalReader:
    """Collects the chunks of a refusal."""

    __slots__ = ("_total",)

    def __init__(self) -> None:
        self._total: Any = None

    def feed(self, piece: str | BaseMessage) -> None:
        """Add a piece of an answer."""
        if type(piece) is AIMessageChunk and is_text_slice(piece):
            return  # as most are
        if isinstance(piece, BaseMessage) and has_refusal(piece):
            self._total = piece if self._total is None else self._total + piece

    def finish(self) -> None:
        """Raise `ModelRefusalError` if the answer was a refusal."""
        if self._total is not None:
            raise_if_refused(self._total)
