"""`SQLiteRateLimiter`: limits for the processes of one machine, stored in a SQLite file.

Time is the machine's monotonic clock, which its processes share and which cannot be set. It restarts with the machine:
then the elapsed time is that of the wall clock, but at least zero.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline._storage.schema import Schema
from foldline.rate_limiters._state import Cap, Operation, Reply, State, Waiter, apply
from foldline.rate_limiters.limiter import QuotaLimiter
from foldline.rate_limiters.quotas import Quota, make_rules

__all__ = ["SQLiteRateLimiter"]

SCHEMA = Schema(
    kind="rate_limits",
    tables=("foldline_rate_limits",),
    create="CREATE TABLE foldline_rate_limits (key TEXT PRIMARY KEY, state TEXT NOT NULL)",
)
READ = "SELECT state FROM foldline_rate_limits WHERE key = ?"
WRITE = "INSERT INTO foldline_rate_limits VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET state = excluded.state"


class SQLiteRateLimiter(QuotaLimiter):
    """Limits shared by all processes with the same file and `key`.

    ```python
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from foldline.rate_limiters import SQLiteRateLimiter

    with TemporaryDirectory() as folder:
        limiter = SQLiteRateLimiter(Path(folder) / "limits.db", requests_per_minute=2)
        print([limiter.acquire(blocking=False) for _ in range(3)])
        #> [True, True, False]
        limiter.close()
    ```
    """

    def __init__(
        self,
        path: str | Path,
        *,
        key: str = "default",
        requests_per_second: float | None = None,
        max_bucket_size: float = 1,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        requests_per_day: float | None = None,
        tokens_per_day: float | None = None,
        quotas: Iterable[Quota] = (),
        max_wait: float | None = None,
        learn: bool = True,
        reserve_max_tokens: bool = False,
    ) -> None:
        """Apply every limit that is passed, together with all processes of the same file and key."""
        rules = make_rules(
            requests_per_second=requests_per_second,
            max_bucket_size=max_bucket_size,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            requests_per_day=requests_per_day,
            tokens_per_day=tokens_per_day,
            quotas=quotas,
        )
        super().__init__(
            rules, max_wait=max_wait, learn=learn, reserve_max_tokens=reserve_max_tokens
        )
        self._key = key
        self._database = open_database(path, SCHEMA, is_durable=False)

    def close(self) -> None:
        """Close the file; the next request opens it again."""
        self._database.close()

    def _apply(self, operations: Sequence[Operation]) -> Reply:
        def work(connection: Connection) -> Reply:
            row = connection.row(READ, (self._key,))
            data = json.loads(row[0]) if row else {}
            clock = _clock(data.get("clock"), time.monotonic(), time.time())
            state = _decode(data)
            reply = apply(state, self.rules, self._caller, operations, clock["now"])
            text = json.dumps({**asdict(state), "clock": clock})
            connection.run(WRITE, (self._key, text))
            return reply

        return self._database.write(work)


def _clock(last: dict[str, float] | None, monotonic: float, wall: float) -> dict[str, float]:
    """Return the time of the state: by the monotonic clock, or the wall clock after a restart of the machine."""
    if last is None:
        return {"now": 0.0, "monotonic": monotonic, "wall": wall}
    elapsed = monotonic - last["monotonic"]
    if elapsed < 0:
        elapsed = max(0.0, wall - last["wall"])
    return {"now": last["now"] + elapsed, "monotonic": monotonic, "wall": wall}


def _decode(data: dict[str, Any]) -> State:
    state = State()
    if not data:
        return state
    for key, parts in data["used"].items():
        state.used[key] = {int(part): amount for part, amount in parts.items()}
    state.line = [Waiter(**waiter) for waiter in data["line"]]
    state.caps = {kind: Cap(**cap) for kind, cap in data["caps"].items()}
    state.kept, state.seen, state.hold = data["kept"], data["seen"], data["hold"]
    state.bucket, state.bucket_at = data["bucket"], data["bucket_at"]
    return state
