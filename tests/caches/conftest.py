from __future__ import annotations

from tests.servers.databases import redis_server

__all__ = ["redis_server"]
