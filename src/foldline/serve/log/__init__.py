"""The run log: runs and their numbered events, threads, keys and what they used, in SQLite or PostgreSQL."""
