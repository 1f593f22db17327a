"""Holds in the run log: what model calls under way may take of a key's limits, so that they hold for all workers.

A call holds its estimate before it is sent; when it has ended, its hold is replaced by what it took, in
`serve_spending`. Both are sums of one snapshot, so no amount is missed between the two tables. The table is a kind of
its own: workers of the previous version, which do not know it, may use the same log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from foldline._storage.database import Connection
from foldline._storage.schema import LockNumber, Schema
from foldline.serve._keys import ApiKey

__all__ = [
    "COST",
    "DAY",
    "MINUTE",
    "SCHEMA",
    "TOKENS",
    "Hold",
    "Used",
    "add_hold",
    "lock_key",
    "read_used",
    "seconds_until_free",
    "settle_hold",
    "settle_worker",
]

SCHEMA: Final = Schema(
    kind="serve_holds",
    tables=("serve_holds",),
    create="""
    CREATE TABLE serve_holds (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, kind TEXT NOT NULL, amount {real} NOT NULL, slot {big} NOT NULL,
        worker TEXT NOT NULL, run TEXT NOT NULL
    );
    CREATE INDEX serve_holds_by_owner ON serve_holds (owner, kind);
    CREATE INDEX serve_holds_by_worker ON serve_holds (worker)
    """,
)
"""`slot` is the day of a cost, and the second of tokens, as in `serve_spending`."""
MINUTE: Final = 60
DAY: Final = 86_400
TOKENS: Final = "tokens"
COST: Final = "cost"
ADD_HOLD: Final = (
    "INSERT INTO serve_holds (id, owner, kind, amount, slot, worker, run) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
ADD_SPENT: Final = (
    "INSERT INTO serve_spending (owner, kind, slot, amount) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (owner, kind, slot) DO UPDATE SET amount = serve_spending.amount + excluded.amount"
)
USED: Final = (
    "SELECT kind, 0, COALESCE(SUM(amount), 0) FROM serve_spending "
    "WHERE owner = ? AND (kind = 'cost' AND slot = ? OR kind = 'tokens' AND slot > ?) GROUP BY kind "
    "UNION ALL SELECT kind, 1, COALESCE(SUM(amount), 0) FROM serve_holds "
    "WHERE owner = ? AND (kind = 'tokens' OR slot = ?) AND id NOT IN (?, ?) GROUP BY kind"
)
"""A call counts for the tokens of a minute as long as it runs, and for the day on which it began."""
DELETE_HOLD: Final = (
    "DELETE FROM serve_holds WHERE id IN (?, ?) RETURNING owner, kind, slot, amount"
)
DELETE_WORKER: Final = (
    "DELETE FROM serve_holds WHERE worker = ? RETURNING owner, kind, slot, amount"
)
SLOTS: Final = "SELECT slot, amount FROM serve_spending WHERE owner = ? AND kind = 'tokens' AND slot > ? ORDER BY slot"
FORGET: Final = "DELETE FROM serve_spending WHERE owner = ? AND kind = 'tokens' AND slot <= ?"


@dataclass(frozen=True, slots=True)
class Hold:
    """What one model call may take; None where the key has no such limit."""

    id: str
    tokens: float | None
    cost: float | None

    @property
    def rows(self) -> tuple[str, str]:
        """The ids of its rows: one for each kind of limit."""
        return f"{self.id}/{TOKENS}", f"{self.id}/{COST}"


@dataclass(slots=True)
class Used:
    """What a key has used of a limit: what is settled, and what calls under way hold."""

    settled: float = 0.0
    held: float = 0.0

    @property
    def total(self) -> float:
        """Both together."""
        return self.settled + self.held


def lock_key(connection: Connection, owner: str) -> None:
    """Let no other worker hold or count for a key until the transaction ends."""
    # Workers of the previous version take a lock of this name when they reserve.
    connection.lock(LockNumber.SERVER, f"quota/{owner}")


def read_used(
    connection: Connection, owner: str, now: int, without: Hold | None = None
) -> dict[str, Used]:
    """Return what a key has used today, and of the last minute's tokens."""
    rows = without.rows if without is not None else ("", "")
    day = now // DAY
    used = {TOKENS: Used(), COST: Used()}
    for kind, is_held, amount in connection.rows(
        USED, (owner, day, now - MINUTE, owner, day, *rows)
    ):
        if is_held:
            used[kind].held = float(amount)
        else:
            used[kind].settled = float(amount)
    return used


def add_hold(
    connection: Connection, key: ApiKey, hold: Hold, *, worker: str, run: str, now: int
) -> None:
    """Write a hold that fits."""
    tokens_row, cost_row = hold.rows
    if hold.tokens:
        connection.run(FORGET, (key.id, now - MINUTE))
        connection.run(ADD_HOLD, (tokens_row, key.id, TOKENS, hold.tokens, now, worker, run))
    if hold.cost:
        connection.run(ADD_HOLD, (cost_row, key.id, COST, hold.cost, now // DAY, worker, run))


def settle_hold(
    connection: Connection, hold: Hold, *, tokens: float | None, cost: float | None, now: int
) -> None:
    """Replace a hold by what the call took; None where it is unknown: the estimate then counts.

    A hold that is gone was settled before, so a repeat counts nothing twice.
    """
    amounts = {TOKENS: tokens, COST: cost}
    rows = connection.rows(DELETE_HOLD, hold.rows)
    _add_spent(
        connection,
        (
            (owner, kind, slot, amount if amounts[kind] is None else amounts[kind])
            for owner, kind, slot, amount in rows
        ),
        now,
    )


def settle_worker(connection: Connection, worker: str, now: int) -> int:
    """Settle the holds of a worker that has ended, at their estimates; return how many rows."""
    rows = connection.rows(DELETE_WORKER, (worker,))
    _add_spent(connection, rows, now)
    return len(rows)


def _add_spent(connection: Connection, rows: Iterable[tuple[object, ...]], now: int) -> None:
    # In one order everywhere: no two transactions wait for each other.
    for owner, kind, slot, amount in sorted(rows, key=lambda row: (str(row[0]), str(row[1]))):
        if amount:
            connection.run(ADD_SPENT, (owner, kind, now if kind == TOKENS else slot, amount))


def seconds_until_free(connection: Connection, owner: str, *, excess: float, now: int) -> float:
    """Return after how many seconds so many of the last minute's tokens do not count any more."""
    for slot, amount in connection.rows(SLOTS, (owner, now - MINUTE)):
        excess -= float(amount)
        if excess <= 0:
            return float(max(1, int(slot) + MINUTE - now))
    return float(MINUTE)
