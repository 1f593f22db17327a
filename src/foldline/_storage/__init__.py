"""The database drivers behind stores, caches, histories and traces: connections, migrations, errors."""
