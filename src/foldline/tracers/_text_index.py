"""The full-text index of traces: FTS5 in a SQLite file, `tsvector` in PostgreSQL.

That of a file keeps no text of its own: what a run said is found again in its row, also to take it out. For PostgreSQL
words are split here, as its parser depends on the database's locale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from foldline._storage.database import Connection
from foldline.tracers._search_words import parse_search, split_words

__all__ = ["Fts5Index", "LexemeIndex", "Search", "TextIndex", "write_lexemes"]

MOST_POSITIONS: Final = 255
LAST_POSITION: Final = 16_383
MOST_BYTES: Final = 900_000
"""What one `tsvector` holds: places of one word, the last place, and bytes in all."""


@dataclass(frozen=True, slots=True)
class Search:
    """How the runs that hold the words of a search are selected."""

    source: str
    """What to select from: the table of runs as `runs`, or a join with it."""
    where: str
    values: list[Any]
    order: str
    """The column by which the newest come first, quickly."""


class TextIndex(Protocol):
    """The index of one kind of database; texts come with the `seq` of their run."""

    def exists(self, connection: Connection) -> bool:
        """Whether there is an index."""

    def add(self, connection: Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Put texts into the index."""

    def remove(self, connection: Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Take texts out of the index."""

    def search(self, connection: Connection, text: str) -> Search | None:
        """Return how to search for words: all of them, the last by its beginning, phrases in quotes as they are.

        None where there is no index for them.
        """

    def begin_deletion(self, connection: Connection) -> None:
        """Have what is deleted in this transaction overwritten, where the database can."""

    def end_deletion(self, connection: Connection) -> None:
        """Clean up after deletions, inside a transaction."""


class Fts5Index:
    """The index of a file; SQLite may be built without."""

    def exists(self, connection: Connection) -> bool:
        """Whether the file has one."""
        query = "SELECT 1 FROM sqlite_master WHERE name = 'foldline_run_words'"
        return connection.row(query) is not None

    def add(self, connection: Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Put texts into the index."""
        connection.each("INSERT INTO foldline_run_words (rowid, text) VALUES (?, ?)", texts)

    def remove(self, connection: Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Take texts out of the index."""
        connection.each(
            "INSERT INTO foldline_run_words (foldline_run_words, rowid, text) VALUES ('delete', ?, ?)",
            texts,
        )

    def search(self, connection: Connection, text: str) -> Search | None:
        """Return how to search for words."""
        parsed = parse_search(text)
        terms = [f'"{" ".join(phrase)}"' for phrase in parsed.phrases]
        if not terms or not self.exists(connection):
            return None
        if parsed.ends_open:
            terms[-1] += "*"
        return Search(
            "foldline_run_words CROSS JOIN foldline_runs AS runs ON runs.seq = foldline_run_words.rowid",
            "foldline_run_words MATCH ?",
            [" ".join(terms)],
            "foldline_run_words.rowid",
        )

    def begin_deletion(self, connection: Connection) -> None:
        """Have what is deleted overwritten."""
        connection.rows("PRAGMA secure_delete = ON")

    def end_deletion(self, connection: Connection) -> None:
        """Remove what was deleted from old segments of the index."""
        if self.exists(connection):
            connection.run(
                "INSERT INTO foldline_run_words (foldline_run_words) VALUES ('optimize')"
            )


class LexemeIndex:
    """The index in PostgreSQL."""

    def exists(self, connection: Connection) -> bool:
        """Whether there is one: always."""
        return True

    def add(self, connection: Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Put texts into the index."""
        connection.each(
            "INSERT INTO foldline_run_words (seq, lexemes) VALUES (?, CAST(? AS tsvector)) "
            "ON CONFLICT (seq) DO UPDATE SET lexemes = excluded.lexemes",
            [(seq, write_lexemes(text)) for seq, text in texts],
        )

    def remove(self, connection: Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Take texts out of the index."""
        connection.each(
            "DELETE FROM foldline_run_words WHERE seq = ?", [(seq,) for seq, _ in texts]
        )

    def search(self, connection: Connection, text: str) -> Search | None:
        """Return how to search for words."""
        parsed = parse_search(text)
        phrases = [words for phrase in parsed.phrases if (words := split_words(" ".join(phrase)))]
        if not phrases:
            return None
        terms = [" <-> ".join(f"'{word}'" for word in phrase) for phrase in phrases]
        if parsed.ends_open:
            terms[-1] += ":*"
        query = " & ".join(f"({term})" for term in terms)
        among = "SELECT seq FROM foldline_run_words WHERE lexemes @@ CAST(? AS tsquery)"
        return Search("foldline_runs AS runs", f"runs.seq IN ({among})", [query], "runs.seq")

    def begin_deletion(self, connection: Connection) -> None:
        """Do nothing: PostgreSQL overwrites when it vacuums."""

    def end_deletion(self, connection: Connection) -> None:
        """Do nothing: words leave with their rows."""


def write_lexemes(text: str) -> str:
    """Return the words of a text and their places as PostgreSQL reads a `tsvector`."""
    places: dict[str, list[int]] = {}
    size = 0
    for place, word in enumerate(split_words(text), 1):
        positions = places.get(word)
        if positions is None:
            size += len(word.encode()) + 4
            if size > MOST_BYTES:
                break
            places[word] = [min(place, LAST_POSITION)]
        elif len(positions) < MOST_POSITIONS and place <= LAST_POSITION:
            size += 2
            positions.append(place)
    return " ".join(f"'{word}':{','.join(map(str, at))}" for word, at in places.items())
