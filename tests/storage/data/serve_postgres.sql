-- The tables of a run log in PostgreSQL as foldline made them before they had a version.
CREATE TABLE serve_runs ( id TEXT PRIMARY KEY, owner TEXT NOT NULL, app TEXT NOT NULL, wire TEXT NOT NULL, thread TEXT, status TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, finished DOUBLE PRECISION, worker TEXT NOT NULL, stop_asked INTEGER NOT NULL DEFAULT 0, last_seq BIGINT NOT NULL DEFAULT 0, request TEXT NOT NULL, result TEXT );
CREATE INDEX serve_runs_by_thread ON serve_runs (owner, thread, created);
CREATE INDEX serve_runs_by_status ON serve_runs (status, worker);
CREATE INDEX serve_runs_by_time ON serve_runs (created);
CREATE TABLE serve_events ( run TEXT NOT NULL, seq BIGINT NOT NULL, last BIGINT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, seq) );
CREATE TABLE serve_threads ( owner TEXT NOT NULL, id TEXT NOT NULL, app TEXT, created DOUBLE PRECISION NOT NULL, metadata TEXT NOT NULL, PRIMARY KEY (owner, id) );
CREATE TABLE serve_keys ( id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, settings TEXT NOT NULL, created DOUBLE PRECISION NOT NULL );
CREATE TABLE serve_spending ( owner TEXT NOT NULL, kind TEXT NOT NULL, slot BIGINT NOT NULL, amount DOUBLE PRECISION NOT NULL, PRIMARY KEY (owner, kind, slot) );
CREATE TABLE serve_workers (id TEXT PRIMARY KEY, beat DOUBLE PRECISION NOT NULL);
