"""Counts the requests of keys in the run log's tables, so that their limit holds for all workers together.

A minute is the last 60 seconds. A request over the limit is refused with the time to wait. Budgets and tokens are
counted for every model call: see `ledger`.
"""

from __future__ import annotations

import time
from typing import Final

from foldline._storage.database import Connection, Database
from foldline.serve._keys import ApiKey
from foldline.serve._log.holds import ADD_SPENT, COST, MINUTE, lock_key, read_used
from foldline.serve.errors import ServeError

__all__ = ["Quotas"]

REQUESTS: Final = (
    "SELECT slot, amount FROM serve_spending WHERE owner = ? AND kind = 'requests' AND slot > ? "
    "ORDER BY slot"
)
FORGET: Final = "DELETE FROM serve_spending WHERE owner = ? AND kind = 'requests' AND slot <= ?"


class Quotas:
    """Counts the requests of keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count_request(self, key: ApiKey) -> None:
        """Count a request; raise `ServeError` where it exceeds the requests per minute."""
        limit = key.rpm
        if limit is None:
            return

        def work(connection: Connection) -> None:
            lock_key(connection, key.id)
            now = int(time.time())
            connection.run(FORGET, (key.id, now - MINUTE))
            slots = connection.rows(REQUESTS, (key.id, now - MINUTE))
            excess = sum(float(amount) for _, amount in slots) + 1 - limit
            if excess > 0:
                raise _too_many(limit, slots, excess, now)
            connection.run(ADD_SPENT, (key.id, "requests", now, 1))

        self._database.write(work)

    def spent_today(self, key: ApiKey) -> float:
        """Return the dollars that a key has used today, or that its calls under way hold."""
        now = int(time.time())
        return self._database.read(lambda connection: read_used(connection, key.id, now))[
            COST
        ].total


def _too_many(limit: int, slots: list[tuple[int, float]], excess: float, now: int) -> ServeError:
    wait = float(MINUTE)
    for slot, amount in slots:
        excess -= float(amount)
        if excess <= 0:
            wait = float(max(1, int(slot) + MINUTE - now))
            break
    return ServeError(
        "rate_limit",
        f"this key may use {limit} requests per minute: try again in {wait:.0f} s",
        retry_after=wait,
    )
