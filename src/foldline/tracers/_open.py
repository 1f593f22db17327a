"""`open_tracer`: the tracer into a file or a database, whichever a place names."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from foldline.exceptions import StoreError
from foldline.tracers._database_tracer import DatabaseTracer, TracerOptions
from foldline.tracers.postgres import PostgresTracer
from foldline.tracers.sqlite import SQLiteTracer
from foldline.utils._data_places import TracePlace, is_url
from foldline.utils._private_files import make_private_folder

__all__ = ["make_folder", "open_tracer"]


def open_tracer(place: TracePlace, **options: Unpack[TracerOptions]) -> DatabaseTracer:
    """Return a tracer into a PostgreSQL database, by its URL, or into a file, whose folder is made."""
    if is_url(place):
        return PostgresTracer(str(place), **options)
    make_folder(Path(place))
    return SQLiteTracer(place, **options)


def make_folder(path: Path) -> None:
    """Make the folder of a file, for its owner alone."""
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise StoreError(
            f"{path.parent}: cannot be made: {error.strerror}; set FOLDLINE_DATA_DIR to a folder you may write to"
        ) from error
