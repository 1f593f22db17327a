"""Traces in PostgreSQL (extra `postgres`), in the schema `foldline_traces`; words as `tsvector`.

Batches of several programs are written one after the other, as in a file: so a `seq` that is seen later is greater.
Words are split here and not by PostgreSQL, whose parser depends on the database's locale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from foldline._io.locks import mutex
from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline._storage.schema import LockNumber
from foldline.exceptions import StoreError
from foldline.tracers._columns import LOSSES_TABLE, NEW_IN_VERSION_3, VERSION, WAITING_INDEX
from foldline.tracers._database import Cursor, Search, Session, Statements
from foldline.tracers._search_words import parse_search, split_words
from foldline.utils.data_places import place_name

__all__ = ["PostgresTraces"]

T = TypeVar("T")
LOCK = int(LockNumber.TRACES)
SCHEMA = f"""
CREATE TABLE runs (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    trace_id TEXT NOT NULL,
    parent_run_id TEXT,
    name TEXT NOT NULL,
    run_type TEXT NOT NULL,
    start_time DOUBLE PRECISION NOT NULL,
    first_token_time DOUBLE PRECISION,
    end_time DOUBLE PRECISION,
    provider TEXT,
    model TEXT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    total_tokens BIGINT,
    cost DOUBLE PRECISION,
    session_id TEXT,
    thread_id TEXT,
    user_id TEXT,
    error_class TEXT,
    status TEXT,
    incomplete INTEGER,
    question TEXT,
    answer TEXT,
    revision TEXT,
    config TEXT,
    usage TEXT,
    tags TEXT,
    error_message TEXT,
    interrupts TEXT,
    error TEXT,
    form TEXT,
    events TEXT,
    extra TEXT NOT NULL,
    inputs TEXT NOT NULL,
    outputs TEXT,
    request TEXT
);
CREATE INDEX runs_by_trace ON runs (trace_id);
CREATE INDEX runs_by_time ON runs (start_time);
CREATE INDEX roots_by_time ON runs (start_time) WHERE parent_run_id IS NULL;
CREATE INDEX runs_by_error ON runs (start_time) WHERE error_class IS NOT NULL;
CREATE INDEX calls_by_model ON runs (model, start_time) INCLUDE
    (end_time, first_token_time, input_tokens, output_tokens, cost, error_class) WHERE model IS NOT NULL;
CREATE INDEX runs_by_thread ON runs (thread_id, start_time) WHERE thread_id IS NOT NULL;
CREATE INDEX runs_by_session ON runs (session_id, start_time) WHERE session_id IS NOT NULL;
CREATE INDEX runs_by_user ON runs (user_id, start_time) WHERE user_id IS NOT NULL;
CREATE INDEX runs_under_way ON runs (start_time) WHERE end_time IS NULL;
{WAITING_INDEX};
{LOSSES_TABLE};
CREATE TABLE tags (tag TEXT NOT NULL, run_id TEXT NOT NULL, PRIMARY KEY (tag, run_id));
CREATE TABLE forms (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE scores (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value DOUBLE PRECISION,
    comment TEXT,
    author TEXT,
    time DOUBLE PRECISION NOT NULL
);
CREATE INDEX scores_by_run ON scores (run_id);
CREATE TABLE unindexed (seq BIGINT PRIMARY KEY);
CREATE TABLE indexed_to (seq BIGINT NOT NULL);
INSERT INTO indexed_to VALUES (0);
CREATE TABLE words (seq BIGINT PRIMARY KEY, lexemes TSVECTOR NOT NULL);
CREATE INDEX words_by_lexeme ON words USING gin (lexemes);
CREATE TABLE foldline_schema (version INTEGER NOT NULL)
"""
MIGRATIONS: tuple[str, ...] = (
    ";".join(
        [
            *(f"ALTER TABLE runs ADD COLUMN {name} {kind}" for name, kind in NEW_IN_VERSION_3),
            WAITING_INDEX,
            LOSSES_TABLE,
        ]
    ),
)
"""From version n to n + 1, beginning with version 2, the first that PostgreSQL has."""
MOST_POSITIONS = 255
LAST_POSITION = 16_383
MOST_BYTES = 900_000
"""What one `tsvector` holds: places of one word, the last place, and bytes in all."""
SIZE = (
    "SELECT coalesce(sum(pg_column_size(inputs) + coalesce(pg_column_size(outputs), 0) + "
    "coalesce(pg_column_size(request), 0) + pg_column_size(extra) + coalesce(pg_column_size(events), 0) + "
    "coalesce(pg_column_size(error), 0) + 500), 0), "
    "(SELECT coalesce(sum(pg_column_size(lexemes)), 0) FROM words) FROM runs"
)
"""Of the rows as they are stored; the 500 are for the short columns and their indexes."""


class PostgresTraces:
    """The traces of one database."""

    def __init__(self, url: str) -> None:
        self.name = place_name(url)
        self._url = url
        self._lock = mutex()
        self._server: PostgresServer | None = None

    def exists(self) -> bool:
        """Whether the database has traces."""
        if self._server is not None:
            return True
        server = self._connect()
        try:
            return server.run(_read_version) > 0
        finally:
            server.close()

    def session(self) -> Session:
        """Return itself: connections are kept, and any thread may use them."""
        return _PostgresSession(self._open)

    def close(self) -> None:
        """Close idle connections."""
        if self._server is not None:
            self._server.close()

    def _connect(self) -> PostgresServer:
        try:
            return PostgresServer(self._url, "SELECT 1")
        except StoreError as error:
            raise StoreError(f"{self.name}: {error}") from error

    def _open(self) -> PostgresServer:
        with self._lock:
            if self._server is None:
                server = self._connect()
                if server.run(_read_version) != VERSION:
                    server.run(self._upgrade)
                self._server = server
            return self._server

    def _upgrade(self, connection: PostgresConnection) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        version = _read_version(connection)  # another process may have been first
        if version > VERSION:
            raise StoreError(
                f"{self.name}: the traces are of version {version} and this foldline writes version {VERSION}: "
                "upgrade foldline"
            )
        connection.execute("CREATE SCHEMA IF NOT EXISTS foldline_traces")
        connection.execute(USE_SCHEMA)
        if version == 0:
            connection.execute(SCHEMA)
            connection.execute("INSERT INTO foldline_schema VALUES (%s)", (VERSION,))
            return
        for script in MIGRATIONS[version - 2 :]:
            connection.execute(script)
        connection.execute("UPDATE foldline_schema SET version = %s", (VERSION,))

    # -- the full-text index

    def has_index(self, statements: Statements) -> bool:
        """Whether there is an index: always."""
        return True

    def add_words(self, statements: Statements, texts: Iterable[tuple[int, str]]) -> None:
        """Put texts into the index."""
        statements.executemany(
            "INSERT INTO words (seq, lexemes) VALUES (?, CAST(? AS tsvector)) "
            "ON CONFLICT (seq) DO UPDATE SET lexemes = excluded.lexemes",
            [(seq, write_lexemes(text)) for seq, text in texts],
        )

    def remove_words(self, statements: Statements, texts: Iterable[tuple[int, str]]) -> None:
        """Take texts out of the index."""
        statements.executemany("DELETE FROM words WHERE seq = ?", [(seq,) for seq, _ in texts])

    def search(self, statements: Statements, text: str) -> Search | None:
        """Return how to search for words: all of them, the last by its beginning, phrases in quotes as they are."""
        parsed = parse_search(text)
        phrases = [words for phrase in parsed.phrases if (words := split_words(" ".join(phrase)))]
        if not phrases:
            return None
        terms = [" <-> ".join(f"'{word}'" for word in phrase) for phrase in phrases]
        if parsed.ends_open:
            terms[-1] += ":*"
        query = " & ".join(f"({term})" for term in terms)
        where = "runs.seq IN (SELECT seq FROM words WHERE lexemes @@ CAST(? AS tsquery))"
        return Search("runs", where, [query], "runs.seq")

    # -- deletion and size

    def begin_deletion(self, statements: Statements) -> None:
        """Do nothing: PostgreSQL overwrites when it vacuums."""

    def end_deletion(self, statements: Statements) -> None:
        """Do nothing: words leave with their rows."""

    def used_bytes(self) -> int:
        """Return about how many bytes the runs take; the files of a database shrink by its own rules."""
        sizes = self.session().read(lambda statements: statements.execute(SIZE).fetchone())
        return int(sum(sizes))

    def shrink(self) -> None:
        """Have the space of what was deleted used again."""
        connection = self._open().connect()
        try:
            for table in ("runs", "tags", "forms", "scores", "words", "losses"):
                connection.execute(f"VACUUM foldline_traces.{table}")
        finally:
            connection.close()


USE_SCHEMA = "SET LOCAL search_path TO foldline_traces"
BEGIN_WRITING = f"{USE_SCHEMA}; SELECT pg_advisory_xact_lock({LOCK})"


def _read_version(connection: PostgresConnection) -> int:
    # Not `to_regclass`, which does not see at once what another session has made.
    has_table = "SELECT 1 FROM pg_tables WHERE schemaname = 'foldline_traces' AND tablename = 'foldline_schema'"
    if connection.execute(has_table).fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM foldline_traces.foldline_schema").fetchone()
    return int(row[0])


class _PostgresSession:
    """Work in transactions of a shared server object, which keeps the connections."""

    def __init__(self, open_server: Callable[[], PostgresServer]) -> None:
        self._open_server = open_server

    def read(self, work: Callable[[Statements], T]) -> T:
        """Do work that changes nothing."""
        return self._run(USE_SCHEMA, work)

    def write(self, work: Callable[[Statements], T]) -> T:
        """Do work in one transaction, while no other program writes."""
        return self._run(BEGIN_WRITING, work)

    def _run(self, begin: str, work: Callable[[Statements], T]) -> T:
        def run(connection: PostgresConnection) -> T:
            connection.execute(begin)
            return work(_PostgresStatements(connection))

        return self._open_server().run(run)

    def close(self) -> None:
        """Do nothing: the connections are shared."""


class _PostgresStatements:
    """Statements with `?`, for psycopg; values without what PostgreSQL cannot hold."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        cursor: Cursor = self._connection.execute(_percent(statement), _clean(values))
        return cursor

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        with self._connection.cursor() as cursor:
            return cursor.executemany(_percent(statement), [_clean(row) for row in rows])


def _percent(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


def _clean(values: Sequence[Any]) -> list[Any]:
    """Replace NUL, which PostgreSQL's texts cannot hold."""
    return [
        value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value
        for value in values
    ]


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
