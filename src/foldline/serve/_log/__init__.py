"""The run log: runs and their numbered events, threads, keys and their usage, in SQLite or PostgreSQL."""
