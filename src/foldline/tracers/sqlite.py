"""`SQLiteTracer`: runs in one SQLite file, safe under many threads and processes."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from foldline.exceptions import UsageError
from foldline.tracers._database_tracer import DatabaseTracer, TracerOptions
from foldline.utils._data_places import is_url, place_name
from foldline.utils._options import check_options

__all__ = ["SQLiteTracer"]


class SQLiteTracer(DatabaseTracer):
    """Writes every run into a SQLite file; read it with `TraceStore`.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.runnables import RunnableLambda
    from foldline.tracers import SQLiteTracer, TraceStore

    path = Path(tempfile.mkdtemp()) / "traces.db"
    with SQLiteTracer(path) as tracer:
        RunnableLambda(lambda x: x + 1).with_config(run_name="add").invoke(1, {"callbacks": [tracer]})
    run = TraceStore(path).recent()[0]
    print(run.name, run.inputs, run.outputs)
    #> add {'input': 1} {'output': 2}
    ```
    """

    @check_options()
    def __init__(self, path: str | Path, **options: Unpack[TracerOptions]) -> None:
        """Open or make the file; options are those of `TracerOptions`."""
        if is_url(path):
            raise UsageError(
                f"SQLiteTracer takes a path: write PostgresTracer({place_name(path)!r}), or tracing.enable(...)"
            )
        super().__init__(Path(path), **options)

    @property
    def path(self) -> Path:
        """Where the traces are."""
        return Path(self.place)
