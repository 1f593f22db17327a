"""Where a job is kept: one job of a SQLite file or a PostgreSQL database, with its inputs, items, parts and counts."""

from __future__ import annotations

from foldline.batches.store.job_store import JobStore

__all__ = ["JobStore"]
