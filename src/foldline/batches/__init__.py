"""Jobs over many inputs: a model, a chain or embeddings run once for each, live or by the provider's batch API.

`model.batch_job(rows, store="jobs.db")` makes one; `BatchJob.resume("jobs.db")` continues it in another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazy_exports

if TYPE_CHECKING:
    from foldline.batches.job import BatchJob
    from foldline.batches.options import BatchOptions
    from foldline.batches.ray import RayExecutor
    from foldline.batches.records import BatchReport, BatchResult, RejectedRow
    from foldline.batches.rows import read_rows, write_rows

__all__ = [
    "BatchJob",
    "BatchOptions",
    "BatchReport",
    "BatchResult",
    "RayExecutor",
    "RejectedRow",
    "read_rows",
    "write_rows",
]

__getattr__ = lazy_exports(
    __name__,
    {
        ".job": "BatchJob",
        ".options": "BatchOptions",
        ".ray": "RayExecutor",
        ".records": "BatchReport BatchResult RejectedRow",
        ".rows": "read_rows write_rows",
    },
)
