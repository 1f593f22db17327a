"""Counts the usage of keys in the run log's tables, so that limits hold for all workers together.

A request reserves its estimated tokens and cost before it runs, and settles when it has ended. A minute is the last 60
seconds, a day is a UTC day. A request that exceeds a limit is refused with the time to wait.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from foldline._storage.database import Connection, Database
from foldline._storage.schema import LockNumber
from foldline.serve.errors import ServeError
from foldline.serve.keys import ApiKey

__all__ = ["QuotaReservation", "Quotas"]

MINUTE: Final = 60
DAY: Final = 86_400
ADD: Final = (
    "INSERT INTO serve_spending (owner, kind, slot, amount) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (owner, kind, slot) DO UPDATE SET amount = serve_spending.amount + excluded.amount"
)
USED: Final = (
    "SELECT COALESCE(SUM(amount), 0) FROM serve_spending WHERE owner = ? AND kind = ? AND slot > ?"
)
SLOTS: Final = "SELECT slot, amount FROM serve_spending WHERE owner = ? AND kind = ? AND slot > ? ORDER BY slot"
FORGET: Final = "DELETE FROM serve_spending WHERE owner = ? AND kind = ? AND slot <= ?"


@dataclass(frozen=True, slots=True)
class QuotaReservation:
    """The estimated usage that a request reserved before it ran."""

    key: ApiKey
    second: int
    tokens: float
    cost: float
    remaining: float | None
    """The rest of the day's budget in dollars, this reservation included; None without a budget."""


class Quotas:
    """Counts what keys use."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reserve(self, key: ApiKey, *, tokens: float, cost: float) -> QuotaReservation:
        """Reserve the estimated usage of a request; raise `ServeError` where it exceeds a limit."""

        def work(connection: Connection) -> QuotaReservation:
            connection.lock(LockNumber.SERVER, f"quota/{key.id}")
            now = int(time.time())
            _check_minute(connection, key, "requests", key.rpm, 1, now)
            _check_minute(connection, key, "tokens", key.tpm, tokens, now)
            remaining = _check_budget(connection, key, cost, now)
            if key.rpm is not None:
                connection.run(ADD, (key.id, "requests", now, 1))
            if key.tpm is not None:
                connection.run(ADD, (key.id, "tokens", now, tokens))
            if key.budget is not None:
                connection.run(ADD, (key.id, "cost", now // DAY, cost))
            return QuotaReservation(key, now, tokens, cost, remaining)

        return self._database.write(work)

    def settle(
        self, reservation: QuotaReservation, *, tokens: float | None, cost: float | None
    ) -> None:
        """Replace the reserved usage by the real one; None leaves the reservation."""
        key = reservation.key

        def work(connection: Connection) -> None:
            if key.tpm is not None and tokens is not None and tokens != reservation.tokens:
                change = tokens - reservation.tokens
                connection.run(ADD, (key.id, "tokens", reservation.second, change))
            if key.budget is not None and cost is not None and cost != reservation.cost:
                change = cost - reservation.cost
                connection.run(ADD, (key.id, "cost", reservation.second // DAY, change))

        if key.tpm is not None or key.budget is not None:
            self._database.write(work)

    def spent_today(self, key: ApiKey) -> float:
        """Return the dollars that a key has used or reserved today."""
        day = int(time.time()) // DAY
        return float(self._database.rows(USED, (key.id, "cost", day - 1))[0][0])


def _check_minute(
    connection: Connection, key: ApiKey, kind: str, limit: int | None, amount: float, now: int
) -> None:
    if limit is None:
        return
    start = now - MINUTE
    connection.run(FORGET, (key.id, kind, start))
    used = float(connection.rows(USED, (key.id, kind, start))[0][0])
    if used + amount <= limit:
        return
    if amount > limit:
        raise ServeError(
            "invalid_request",
            f"about {amount:.0f} tokens never fit this key's {limit} tokens per minute: send less",
        )
    free, wait = used, float(MINUTE)
    for slot, slot_amount in connection.rows(SLOTS, (key.id, kind, start)):
        free -= slot_amount
        if free + amount <= limit:
            wait = slot + MINUTE - now
            break
    raise ServeError(
        "rate_limit",
        f"this key may use {limit} {kind} per minute: try again in {max(1, wait):.0f} s",
        retry_after=max(1.0, wait),
    )


def _check_budget(connection: Connection, key: ApiKey, cost: float, now: int) -> float | None:
    if key.budget is None:
        return None
    used = float(connection.rows(USED, (key.id, "cost", now // DAY - 1))[0][0])
    remaining = key.budget - used
    if remaining <= 0 or cost > remaining:
        raise ServeError(
            "budget",
            f"this key's budget of {key.budget:g} dollars a day is used up ({used:.4f} spent or reserved): "
            "it is free again at midnight UTC",
            code="budget_exceeded",
        )
    return remaining
