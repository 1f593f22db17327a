"""Assign citations to the text blocks of an answer.

Gemini's offsets are bytes of a numbered part; offsets of our citations are characters of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from foldline.messages.block_translators.google_genai import (
    translate_grounding_metadata_to_citations,
)
from foldline.providers.google._wire import dicts

__all__ = ["CitedText", "cite", "cite_finished"]

Note = dict[str, Any]


class CitedText:
    """A text block while it is streamed: its slices, and where each of Gemini's parts begins in it."""

    __slots__ = ("is_closed", "key", "notes", "reported", "slices", "starts", "supports")

    def __init__(self, key: int) -> None:
        self.key: int = key
        """The block's key in the event writer."""
        self.slices: list[str] = []
        self.starts: dict[int | None, int] = {}
        """Number of a part -> index of its first slice."""
        self.notes: list[Note] = []
        """The citations of the text so far."""
        self.supports: list[Any] = []
        """The sources already converted: Gemini may repeat them in several chunks."""
        self.reported: int = 0
        """How many of `notes` were returned by `take_new_notes`."""
        self.is_closed: bool = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.slices)

    def add(self, note: Note, part: int | None = None) -> None:
        """Add a citation; its offsets are bytes of a part, or of the entire text."""
        begin = self.starts.get(part, 0)
        before, text = "".join(self.slices[:begin]), "".join(self.slices[begin:])
        self.notes.append(_in_characters(note, before, text))

    def take_new_notes(self) -> list[Note]:
        """Return the citations added since the last call."""
        notes, self.reported = self.notes[self.reported :], len(self.notes)
        return notes


def cite_finished(text: CitedText, metadata: dict[str, Any], upcoming: Sequence[str]) -> None:
    """Add to a finished text the citations that are certainly its own; others may belong to upcoming text."""
    grounding = _dict(metadata.get("grounding_metadata"))
    for support in dicts(grounding.get("groundingSupports")):
        segment = _dict(support.get("segment"))
        part, quote = segment.get("partIndex"), segment.get("text")
        if type(part) is int:
            is_own = part in text.starts
        else:
            is_own = isinstance(quote, str) and bool(quote) and quote in text.text
            is_own = is_own and not any(str(quote) in later for later in upcoming)
        if is_own:
            _add_support(text, grounding, support, part if type(part) is int else None)


def cite(texts: list[CitedText], metadata: dict[str, Any]) -> None:
    """Add each citation to the text it belongs to."""
    texts = [text for text in texts if any(text.slices)]  # others have only a signature
    if not texts:
        return
    grounding = _dict(metadata.get("grounding_metadata"))
    for support in dicts(grounding.get("groundingSupports")):
        segment = _dict(support.get("segment"))
        part = segment.get("partIndex")
        part = part if type(part) is int else None
        text = _cited_text(texts, part, segment.get("text"))
        _add_support(text, grounding, support, part)
    citation_metadata = _dict(metadata.get("citation_metadata"))
    for source in dicts(
        citation_metadata.get("citationSources") or citation_metadata.get("citations")
    ):
        if source not in texts[-1].supports:
            texts[-1].supports.append(source)
            texts[-1].add(_citation(source))


def _add_support(
    text: CitedText, grounding: dict[str, Any], support: dict[str, Any], part: int | None
) -> None:
    if support in text.supports:
        return
    text.supports.append(support)
    for note in translate_grounding_metadata_to_citations(
        {**grounding, "groundingSupports": [support]}
    ):
        text.add(cast("Note", note), part)


def _cited_text(texts: list[CitedText], part: int | None, quote: object) -> CitedText:
    """Return the text of a segment: by its part, else the last text that contains its quote, else the last text."""
    for text in texts:
        if part in text.starts:
            return text
    if len(texts) > 1 and isinstance(quote, str):
        return next((text for text in reversed(texts) if quote in text.text), texts[-1])
    return texts[-1]


def _citation(source: dict[str, Any]) -> Note:
    fields = {
        "url": source.get("uri"),
        "title": source.get("title"),
        "start_index": source.get("startIndex"),
        "end_index": source.get("endIndex"),
    }
    note = {"type": "citation", **{name: value for name, value in fields.items() if value}}
    return {**note, "extras": {"license": source["license"]}} if source.get("license") else note


def _in_characters(note: Note, preceding: str, text: str) -> Note:
    """Convert the offsets of a citation from bytes of its part to characters of the block."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) == len(text) and not preceding:
        return note
    if preceding:
        note = {"start_index": 0, **note}  # a zero is not sent
    for name in ("start_index", "end_index"):
        if isinstance(offset := note.get(name), int):
            characters = len(raw[: max(offset, 0)].decode("utf-8", "ignore"))
            note = {**note, name: len(preceding) + characters}
    return note


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
