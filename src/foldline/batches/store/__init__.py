"""Where a job is kept: one job of a SQLite file or a PostgreSQL database, with its inputs, items, parts and counts."""
