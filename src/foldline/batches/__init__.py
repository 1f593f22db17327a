"""Jobs over many inputs: a model, a chain or embeddings run once for each, live or by the provider's batch API.

`model.batch_job(rows, store="jobs.db")` makes one; `BatchJob.resume("jobs.db")` continues it in another process.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.batches.job import BatchJob as BatchJob
    from foldline.batches.options import BatchOptions as BatchOptions
    from foldline.batches.ray import RayExecutor as RayExecutor
    from foldline.batches.records import (
        BatchReport as BatchReport,
        BatchResult as BatchResult,
        RejectedRow as RejectedRow,
    )
    from foldline.batches.rows import read_rows as read_rows, write_rows as write_rows
