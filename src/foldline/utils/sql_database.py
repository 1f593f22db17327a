"""`SQLDatabase`: a database that a model may query, by SQLAlchemy (extra `sql`). Read-only by default.

Read-only is enforced three times: by the first word of the one statement, by a read-only connection (SQLite,
PostgreSQL, MySQL), and by a rollback at the end. A database user without the right to write is better still.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils._short_repr import short_repr

__all__ = ["SQLDatabase"]

READ_ONLY = {
    "sqlite": "PRAGMA query_only = ON",
    "postgresql": "SET TRANSACTION READ ONLY",
    "mysql": "SET TRANSACTION READ ONLY",
}
"""Dialect -> the statement that makes a connection or a transaction read-only."""
READING_WORDS = (
    "select",
    "with",
    "explain",
    "show",
    "describe",
    "desc",
    "values",
    "table",
    "pragma",
)
"""The first words of statements that read."""
Fetch = Literal["all", "one", "cursor"]


def _sqlalchemy() -> Any:  # noqa: ANN401  an optional package
    try:
        import sqlalchemy  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError(
            'SQLDatabase needs SQLAlchemy: pip install "foldline[sql]"'
        ) from error
    return sqlalchemy


class SQLDatabase:
    """Describes the tables of a database to a model, and runs its statements.

    ```python
    from foldline.utils.sql_database import SQLDatabase

    database = SQLDatabase.from_uri("sqlite://")
    print(database.dialect, database.run("SELECT 1 + 1"))
    #> sqlite [(2,)]
    ```
    """

    __repr__ = short_repr

    def __init__(
        self,
        engine: Any,  # noqa: ANN401  sqlalchemy.Engine
        schema: str | None = None,
        metadata: Any | None = None,  # noqa: ANN401  sqlalchemy.MetaData
        ignore_tables: list[str] | None = None,
        include_tables: list[str] | None = None,
        sample_rows_in_table_info: int = 3,
        indexes_in_table_info: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        custom_table_info: dict[str, str] | None = None,
        view_support: bool = False,  # noqa: FBT001, FBT002
        max_string_length: int = 300,
        lazy_table_reflection: bool = False,  # noqa: FBT001, FBT002
        *,
        read_only: bool = True,
    ) -> None:
        """Use an engine; `read_only=False` lets statements change the database, as in LangChain."""
        if include_tables and ignore_tables:
            raise ValueError("Cannot specify both include_tables and ignore_tables")
        self._engine = engine
        self._schema = schema
        self._sql = _sqlalchemy()
        self._metadata = metadata or self._sql.MetaData()
        self._custom = custom_table_info or {}
        self._samples = sample_rows_in_table_info
        self._has_indexes = indexes_in_table_info
        self._longest = max_string_length
        self.read_only = read_only
        inspector = self._sql.inspect(engine)
        names = list(inspector.get_table_names(schema=schema))
        names += inspector.get_view_names(schema=schema) if view_support else []
        self._table_names = sorted(names)
        self._check(include_tables or (), "include_tables")
        self._check(ignore_tables or (), "ignore_tables")
        usable = set(include_tables) if include_tables else set(names) - set(ignore_tables or ())
        self._usable = sorted(usable)
        self._has_views = view_support

    @classmethod
    def from_uri(
        cls, database_uri: str, engine_args: dict[str, Any] | None = None, **kwargs: Any
    ) -> Self:
        """Connect to the database of a SQLAlchemy URL."""
        return cls(_sqlalchemy().create_engine(database_uri, **(engine_args or {})), **kwargs)

    @property
    def dialect(self) -> str:
        """The SQL dialect of the database."""
        return str(self._engine.dialect.name)

    def get_usable_table_names(self) -> Iterable[str]:
        """Return the names of the tables that may be used."""
        return list(self._usable)

    @property
    def table_info(self) -> str:
        """The CREATE statements of all usable tables, with some of their rows."""
        return self.get_table_info()

    def get_context(self) -> dict[str, Any]:
        """Return the variables for prompts."""
        return {"table_info": self.table_info, "table_names": ", ".join(self._usable)}

    def get_table_info(
        self,
        table_names: list[str] | None = None,
        get_col_comments: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> str:
        """Return the CREATE statements of tables, with some of their rows."""
        names = self._usable if table_names is None else table_names
        unknown = sorted(set(names) - set(self._usable))
        if unknown:
            raise ValueError(f"table_names {set(unknown)} not found in database")
        parts = [self._custom.get(name) or self._describe(name) for name in names]
        return "\n\n".join(parts)

    def get_table_info_no_throw(self, table_names: list[str] | None = None) -> str:
        """Return the CREATE statements of tables, or the text of an error for a model to read."""
        try:
            return self.get_table_info(table_names)
        except (ValueError, self._sql.exc.SQLAlchemyError) as error:
            return f"Error: {error}"

    def run(
        self,
        command: str | Any,  # noqa: ANN401  or an executable of SQLAlchemy's
        fetch: Fetch = "all",
        include_columns: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        *,
        parameters: dict[str, Any] | None = None,
        execution_options: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  text, or the cursor
        """Run one statement; return its rows as text, "" where there are none."""
        if fetch not in ("all", "one", "cursor"):
            raise UsageError("Fetch parameter must be either 'one', 'all', or 'cursor'")
        rows, columns, result = self._execute(command, fetch, parameters, execution_options)
        if fetch == "cursor":
            return result
        values: list[Any] = [tuple(self._shorten(value) for value in row) for row in rows]
        if include_columns:
            values = [dict(zip(columns, row, strict=True)) for row in values]
        return str(values) if values else ""

    def run_no_throw(self, command: str, fetch: Fetch = "all", **kwargs: Any) -> Any:  # noqa: ANN401
        """Run one statement; return its rows, or the text of an error for a model to read."""
        try:
            return self.run(command, fetch, **kwargs)
        except self._sql.exc.SQLAlchemyError as error:
            return f"Error: {error}"

    def _execute(
        self,
        command: Any,  # noqa: ANN401
        fetch: Fetch,
        parameters: dict[str, Any] | None,
        execution_options: dict[str, Any] | None,
    ) -> tuple[Sequence[Any], list[str], Any]:
        if self.read_only and isinstance(command, str):
            _check_reading(command)
        statement = self._sql.text(command) if isinstance(command, str) else command
        with self._engine.connect() as connection:
            if self.read_only and (rule := READ_ONLY.get(self.dialect)) is not None:
                connection.exec_driver_sql(rule)
            try:
                result = connection.execute(
                    statement, parameters or {}, execution_options=execution_options
                )
                if fetch == "cursor":
                    result = result.freeze()() if result.returns_rows else result
                    return [], [], result
                columns = list(result.keys()) if result.returns_rows else []
                rows = result.fetchall() if result.returns_rows else []
                if not self.read_only:
                    connection.commit()
                return rows[:1] if fetch == "one" else rows, columns, None
            finally:
                connection.rollback()
                if self.read_only and self.dialect == "sqlite":
                    connection.exec_driver_sql("PRAGMA query_only = OFF")

    def _describe(self, name: str) -> str:
        table = self._sql.Table(
            name, self._metadata, autoload_with=self._engine, schema=self._schema
        )
        text = str(self._sql.schema.CreateTable(table).compile(self._engine)).rstrip()
        extras = []
        if self._has_indexes:
            indexes = self._sql.inspect(self._engine).get_indexes(name, schema=self._schema)
            lines = [
                f"Name: {index['name']}, Columns: {index['column_names']}" for index in indexes
            ]
            extras.append("Table Indexes:\n" + "\n".join(lines))
        if self._samples:
            extras.append(self._sample(name, table))
        return text + ("\n\n/*\n" + "\n\n".join(extras) + "\n*/" if extras else "")

    def _sample(self, name: str, table: Any) -> str:  # noqa: ANN401
        rows, _, _ = self._execute(self._sql.select(table).limit(self._samples), "all", None, None)
        header = "\t".join(column.name for column in table.columns)
        lines = ["\t".join(str(value)[:100] for value in row) for row in rows]
        return f"{self._samples} rows from {name} table:\n{header}\n" + "\n".join(lines)

    def _shorten(self, value: Any) -> Any:  # noqa: ANN401  a value of any column
        if not isinstance(value, str) or self._longest <= 0 or len(value) <= self._longest:
            return value
        return value[: self._longest - 3].rsplit(" ", 1)[0] + "..."

    def _check(self, names: Iterable[str], option: str) -> None:
        missing = sorted(set(names) - set(self._table_names))
        if missing:
            raise ValueError(f"{option} {set(missing)} not found in database")


def _check_reading(command: str) -> None:
    text = command.strip().rstrip("; \n\t")
    first_word = text.lstrip("( \n").partition(" ")[0].partition("\n")[0].lower()
    if first_word not in READING_WORDS:
        raise UsageError(
            f"this database is read-only, and {first_word[:40]!r} does not begin a statement that reads: "
            "make it with read_only=False where statements may change it"
        )
    if ";" in text:
        raise UsageError(
            "this database is read-only and takes one statement at a time, without `;` in it: give texts that hold one "
            "as parameters"
        )
