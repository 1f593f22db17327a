"""Where the sources of an answer belong: which text, and from which character to which.

Gemini counts bytes, in a part that it numbers; citations count characters, in a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from foldline.messages.block_translators.google_genai import (
    translate_grounding_metadata_to_citations,
)
from foldline.providers.google.wire import dicts

__all__ = ["StreamedText", "cite", "cite_finished"]

Note = dict[str, Any]


class StreamedText:
    """A block of text as it is said: its slices, and where in it each of Gemini's parts begins."""

    __slots__ = ("is_closed", "key", "notes", "slices", "starts", "supports", "told")

    def __init__(self, key: int) -> None:
        self.key: int = key
        """What the writer knows the block by."""
        self.slices: list[str] = []
        self.starts: dict[int | None, int] = {}
        """Number of a part -> how many slices came before it."""
        self.notes: list[Note] = []
        """The sources of the text, as far as they are known."""
        self.supports: list[Any] = []
        """What the notes were made of: Gemini may send it with several chunks."""
        self.told: int = 0
        """How many of them were told."""
        self.is_closed: bool = False

    @property
    def text(self) -> str:
        """What was said."""
        return "".join(self.slices)

    def add(self, note: Note, part: int | None = None) -> None:
        """Take a citation; its offsets are bytes of a part, or of the whole text."""
        begin = self.starts.get(part, 0)
        before, text = "".join(self.slices[:begin]), "".join(self.slices[begin:])
        self.notes.append(_in_characters(note, before, text))

    def untold(self) -> list[Note]:
        """Return the sources that were not told, and take them for told."""
        notes, self.told = self.notes[self.told :], len(self.notes)
        return notes


def cite_finished(text: StreamedText, metadata: dict[str, Any], upcoming: Sequence[str]) -> None:
    """Give a text that is over the citations that are known to be its own; others may be of what is upcoming."""
    grounding = _dict(metadata.get("grounding_metadata"))
    for support in dicts(grounding.get("groundingSupports")):
        segment = _dict(support.get("segment"))
        part, said = segment.get("partIndex"), segment.get("text")
        if type(part) is int:
            is_own = part in text.starts
        else:
            is_own = isinstance(said, str) and bool(said) and said in text.text
            is_own = is_own and not any(str(said) in later for later in upcoming)
        if is_own:
            _add_support(text, grounding, support, part if type(part) is int else None)


def cite(texts: list[StreamedText], metadata: dict[str, Any]) -> None:
    """Give each text the citations that are its own."""
    texts = [text for text in texts if any(text.slices)]  # some hold a signature alone
    if not texts:
        return
    grounding = _dict(metadata.get("grounding_metadata"))
    for support in dicts(grounding.get("groundingSupports")):
        segment = _dict(support.get("segment"))
        part = segment.get("partIndex")
        part = part if type(part) is int else None
        text = _meant(texts, part, segment.get("text"))
        _add_support(text, grounding, support, part)
    cited = _dict(metadata.get("citation_metadata"))
    for source in dicts(cited.get("citationSources") or cited.get("citations")):
        if source not in texts[-1].supports:
            texts[-1].supports.append(source)
            texts[-1].add(_citation(source))


def _add_support(
    text: StreamedText, grounding: dict[str, Any], support: dict[str, Any], part: int | None
) -> None:
    if support in text.supports:
        return
    text.supports.append(support)
    for note in translate_grounding_metadata_to_citations(
        {**grounding, "groundingSupports": [support]}
    ):
        text.add(cast("Note", note), part)


def _meant(texts: list[StreamedText], part: int | None, said: object) -> StreamedText:
    """Find the text that a segment is of: the part it names, else the last that says what it says, else the last."""
    for text in texts:
        if part in text.starts:
            return text
    if len(texts) > 1 and isinstance(said, str):
        return next((text for text in reversed(texts) if said in text.text), texts[-1])
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


def _in_characters(note: Note, before: str, text: str) -> Note:
    """Count where a citation begins and ends in characters of the block; Gemini counts bytes of the part."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) == len(text) and not before:
        return note
    if before:
        note = {"start_index": 0, **note}  # a zero is not sent
    for name in ("start_index", "end_index"):
        if isinstance(at := note.get(name), int):
            inside = len(raw[: max(at, 0)].decode("utf-8", "ignore"))
            note = {**note, name: len(before) + inside}
    return note


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
