"""Words: the phrases that a search looks for, and how the words of a run are spelled in an index."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

__all__ = ["Phrases", "parse_search", "split_words"]

WORD = re.compile(r"[^\W_]+", re.UNICODE)
QUOTED = re.compile(r'"([^"]+)"|([^"]+)')
LONGEST_WORD = 200
"""Characters; a longer word is found by these."""


class Phrases(NamedTuple):
    """A parsed search: all of the phrases must occur, each with its words in sequence."""

    phrases: list[list[str]]
    ends_open: bool
    """Whether the last word is the beginning of one."""


def parse_search(text: str) -> Phrases:
    """Return the phrases of a search: what stands in quotes, and each other word alone."""
    phrases: list[list[str]] = []
    for quoted, plain in QUOTED.findall(text):
        if quoted:
            phrases.append(WORD.findall(quoted))
        else:
            phrases += [WORD.findall(word) for word in plain.split()]
    return Phrases([phrase for phrase in phrases if phrase], not text.rstrip().endswith('"'))


def split_words(text: str) -> list[str]:
    """Return the words of a text as an index spells them: small letters, without accents."""
    plain = unicodedata.normalize("NFKD", text.lower())
    if not plain.isascii():
        plain = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return [word[:LONGEST_WORD] for word in WORD.findall(plain)]
