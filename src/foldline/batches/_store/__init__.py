"""The store of a job: its inputs, items, parts and counts in a SQLite file or a PostgreSQL database."""
