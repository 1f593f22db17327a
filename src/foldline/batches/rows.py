"""Reads and writes rows of files, one at a time: JSON lines, CSV, Parquet (extra `parquet`).

A line that is not JSON does not stop the reading: it becomes a `RejectedRow`, which the job lists.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from foldline.batches.records import RejectedRow
from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils._surrogates import has_surrogates

__all__ = ["read_rows", "write_rows"]

Row = Mapping[str, Any]
ROWS_AT_ONCE: Final = 1024
"""Rows of a Parquet file in memory."""
EXCERPT_LENGTH: Final = 200
LARGEST_CELL: Final = 2**27


def read_rows(path: str | Path) -> Iterator[Any]:
    """Yield the rows of a .jsonl, .csv or .parquet file; invalid ones as `RejectedRow`.

    ```python
    import tempfile
    from pathlib import Path

    from foldline.batches import read_rows

    file = Path(tempfile.mkdtemp(), "rows.jsonl")
    file.write_text(chr(10).join(['{"topic": "rain"}', "no json"]))
    print([type(row).__name__ for row in read_rows(file)])
    #> ['dict', 'RejectedRow']
    ```
    """
    file = Path(path)
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise UsageError(
            f"{file.name}: rows are read from {', '.join(READERS)}; name the file after what it holds, or give the "
            "rows themselves (any iterable)"
        )
    if not file.is_file():
        raise UsageError(f"there is no file {str(file)!r}: check its path")
    return reader(file)


def write_rows(rows: Iterable[Row], path: str | Path) -> int:
    """Write rows to a .jsonl, .csv or .parquet file, completely or not at all; return how many."""
    file = Path(path)
    writer = WRITERS.get(file.suffix.lower())
    if writer is None:
        raise UsageError(f"{file.name}: rows are written to {', '.join(WRITERS)}: rename it")
    temporary = file.with_name(f".{file.name}.part")
    try:
        count = writer(iter(rows), temporary)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _read_jsonl(file: Path) -> Iterator[Any]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                excerpt = line[:EXCERPT_LENGTH].decode("utf-8", "replace").rstrip("\n")
                yield RejectedRow(f"{file.name}, line {number}", f"no JSON: {error}", excerpt)


def _read_csv(file: Path) -> Iterator[Any]:
    csv.field_size_limit(LARGEST_CELL)
    with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as text:
        reader = csv.DictReader(text, strict=True)
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                yield RejectedRow(f"{file.name}, line {reader.line_num}", f"no CSV: {error}")
                continue
            if row is None:
                return
            place = f"{file.name}, line {reader.line_num}"
            values = list(row.values())
            if None in row or None in values:
                yield RejectedRow(
                    place,
                    "another number of columns than the first line",
                    str(values)[:EXCERPT_LENGTH],
                )
            elif any(has_surrogates(value) for value in values):
                yield RejectedRow(place, "not UTF-8")
            else:
                yield row


def _read_parquet(file: Path) -> Iterator[Any]:
    parquet = _pyarrow()[1]
    with parquet.ParquetFile(file) as source:
        for batch in source.iter_batches(batch_size=ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _write_jsonl(rows: Iterator[Row], file: Path) -> int:
    count = 0
    with file.open("w", encoding="utf-8", newline="\n") as lines:
        for row in rows:
            text = json.dumps(row, ensure_ascii=False)
            lines.write(json.dumps(row) if has_surrogates(text) else text)
            lines.write("\n")
            count += 1
    return count


def _write_csv(rows: Iterator[Row], file: Path) -> int:
    with file.open("w", encoding="utf-8", newline="") as text:
        first = next(rows, None)
        if first is None:
            return 0
        writer = csv.DictWriter(text, list(first))
        writer.writeheader()
        writer.writerow(_flat(first))
        count = 1
        for row in rows:
            writer.writerow(_flat(row))
            count += 1
    return count


def _flat(row: Row) -> dict[str, Any]:
    """Return a row with its lists and dicts as JSON text, for the cells of a table."""
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
        for name, value in row.items()
    }


def _write_parquet(rows: Iterator[Row], file: Path) -> int:
    pyarrow, parquet = _pyarrow()
    count = 0
    writer: Any = None
    try:
        while group := [_flat(row) for row in islice(rows, ROWS_AT_ONCE)]:
            schema = None if writer is None else writer.schema
            if schema is None:
                schema = _parquet_schema(pyarrow, group[0])
                writer = parquet.ParquetWriter(file, schema)
            with _explained(file):
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
            count += len(group)
        if writer is None:
            parquet.write_table(pyarrow.table({}), file)
    finally:
        if writer is not None:
            writer.close()
    return count


@contextmanager
def _explained(file: Path) -> Generator[None, None, None]:
    try:
        yield
    except (TypeError, ValueError) as error:  # pyarrow's own errors are these
        raise UsageError(f"{file.name}: the rows have no one type for a column: {error}") from error


def _parquet_schema(pyarrow: ModuleType, row: Row) -> object:
    """Return the schema of results; all rows have the same columns, though cells of the first may be empty."""
    kinds = {"number": pyarrow.int64(), "attempts": pyarrow.int64(), "input_tokens": pyarrow.int64(),
             "output_tokens": pyarrow.int64(), "cost": pyarrow.float64()}  # fmt: skip
    return pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in row])


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415  an extra
        import pyarrow.parquet as parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            'Parquet files need the package "pyarrow": pip install "foldline[parquet]"'
        ) from error
    return pyarrow, parquet


READERS: Final[dict[str, Callable[[Path], Iterator[Any]]]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
WRITERS: Final[dict[str, Callable[[Iterator[Row], Path], int]]] = {
    ".jsonl": _write_jsonl,
    ".ndjson": _write_jsonl,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
