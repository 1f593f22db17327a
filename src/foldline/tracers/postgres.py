"""`PostgresTracer`: runs in a PostgreSQL database (extra `postgres`), of programs on any number of machines."""

from __future__ import annotations

from typing import Unpack

from foldline.exceptions import UsageError
from foldline.tracers._database_tracer import DatabaseTracer, TracerOptions
from foldline.utils._data_places import is_url
from foldline.utils._options import check_options

__all__ = ["PostgresTracer"]


class PostgresTracer(DatabaseTracer):
    """Writes every run into PostgreSQL; read it with `TraceStore`.

    `PostgresTracer("postgresql://user@host/name")` is what `FOLDLINE_TRACES=postgresql://user@host/name` attaches.
    """

    @check_options()
    def __init__(self, url: str, **options: Unpack[TracerOptions]) -> None:
        """Connect, and make the tables where they are not there; options are those of `TracerOptions`."""
        if not is_url(url):
            raise UsageError("PostgresTracer takes a URL: postgresql://user@host/name")
        super().__init__(url, **options)
