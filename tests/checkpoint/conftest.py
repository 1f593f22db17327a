from __future__ import annotations

from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
