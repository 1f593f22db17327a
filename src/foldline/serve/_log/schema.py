"""The tables of the server's log: runs, events, threads, keys, spending, workers.

They keep their names, and a change adds before it removes: workers of this version and of the one before it may use one
log at the same time, so that a server can be updated worker by worker.
"""

from __future__ import annotations

from typing import Final

from foldline._storage.schema import Schema
from foldline._storage.workers import SCHEMA as WORKERS
from foldline.serve._log.answers import SCHEMA as ANSWERS
from foldline.serve._log.holds import SCHEMA as HOLDS
from foldline.serve._log.requests import SCHEMA as REQUESTS

__all__ = ["SCHEMA"]

SCHEMA: Final = Schema(
    kind="serve",
    needs=(WORKERS, ANSWERS, REQUESTS, HOLDS),
    tables=(
        "serve_runs",
        "serve_events",
        "serve_threads",
        "serve_keys",
        "serve_spending",
        "serve_workers",
    ),
    create="""
    CREATE TABLE serve_runs (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, app TEXT NOT NULL, wire TEXT NOT NULL, thread TEXT,
        status TEXT NOT NULL, created {real} NOT NULL, finished {real}, worker TEXT NOT NULL,
        stop_asked INTEGER NOT NULL DEFAULT 0, last_seq {big} NOT NULL DEFAULT 0, request TEXT NOT NULL, result TEXT
    );
    CREATE INDEX serve_runs_by_thread ON serve_runs (owner, thread, created);
    CREATE INDEX serve_runs_by_status ON serve_runs (status, worker);
    CREATE INDEX serve_runs_by_time ON serve_runs (created);
    CREATE TABLE serve_events (
        run TEXT NOT NULL, seq {big} NOT NULL, last {big} NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, seq)
    );
    CREATE TABLE serve_threads (
        owner TEXT NOT NULL, id TEXT NOT NULL, app TEXT, created {real} NOT NULL, metadata TEXT NOT NULL,
        PRIMARY KEY (owner, id)
    );
    CREATE TABLE serve_keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, settings TEXT NOT NULL,
        created {real} NOT NULL
    );
    CREATE TABLE serve_spending (
        owner TEXT NOT NULL, kind TEXT NOT NULL, slot {big} NOT NULL, amount {real} NOT NULL,
        PRIMARY KEY (owner, kind, slot)
    );
    CREATE TABLE serve_workers (id TEXT PRIMARY KEY, beat {real} NOT NULL)
    """,
)
"""A row of `serve_events` holds several events: `data` is a JSON array of those from `seq` to `last`."""
