"""`RedisRateLimiter`: limits shared by many machines, stored in Redis (extra `redis`).

Every call is one script (`redis.lua`), which Redis runs atomically and with its own clock, so that machines with
different clocks share one limit. Every limiter also stores its own counts: if Redis loses the state, they are sent
again; if Redis is unreachable, it may continue with a local limit (`LocalLimit`).
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from foldline._io.locks import mutex
from foldline._storage.redis import RedisClient, RedisServer
from foldline.exceptions import StoreError, UsageError
from foldline.rate_limiters._state import (
    CALLER_LIFETIME,
    EPSILON,
    LEASE,
    Learn,
    Leave,
    Operation,
    Reply,
    Restore,
    Settle,
    State,
    Take,
    apply,
)
from foldline.rate_limiters.limiter import QuotaLimiter
from foldline.rate_limiters.quotas import COUNTED_SLOTS, SLOTS, Quota, Rules, make_rules

__all__ = ["LocalLimit", "RedisRateLimiter"]

logger: logging.Logger = logging.getLogger("foldline.rate_limiters")

GRACE: Final = 2.0
"""Seconds without permits after Redis lost its state, so that all processes can send their counts."""
RETRY_SECONDS: Final = 1.0
"""Seconds after which an unreachable server is tried again."""
CLOCK_DRIFT: Final = 0.05
"""Seconds by which the server's clock may run ahead of ours."""
LOCAL: Final = "local"
Part = tuple[str, int, float]
"""Key of a quota, slot (or age in slots), amount."""


@dataclass(frozen=True, slots=True)
class LocalLimit:
    """If Redis is unreachable, each process continues alone with a share of the limits."""

    share: float | None = None
    """The share of one process; None for an equal share among the processes seen last."""

    def __post_init__(self) -> None:
        if self.share is not None and not 0 < self.share <= 1:
            raise UsageError(f"LocalLimit(share={self.share!r}): a number above 0, up to 1")


class RedisRateLimiter(QuotaLimiter):
    """Limits shared by all processes with the same `key`.

    ```python {test="skip: needs a Redis server"}
    limiter = RedisRateLimiter(
        "redis://127.0.0.1:6379/0", key="openai:gpt-5", requests_per_minute=500, tokens_per_minute=200_000
    )
    model = ChatOpenAI(model="gpt-5", rate_limiter=limiter)
    ```
    """

    def __init__(
        self,
        redis_: str | RedisClient = "redis://127.0.0.1:6379/0",
        *,
        key: str = "foldline:rate",
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
        on_unreachable: Literal["fail"] | LocalLimit = "fail",
        timeout: float = 2.0,
    ) -> None:
        """Apply every limit that is passed, together with all processes of the same key.

        `on_unreachable` is what happens if Redis does not answer within `timeout` seconds: "fail" raises `StoreError`;
        `LocalLimit()` continues with a share of the limits, and reports to Redis when it is back.
        """
        rules = make_rules(
            requests_per_second=requests_per_second,
            max_bucket_size=max_bucket_size,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            requests_per_day=requests_per_day,
            tokens_per_day=tokens_per_day,
            quotas=quotas,
        )
        if on_unreachable != "fail" and not isinstance(on_unreachable, LocalLimit):
            raise UsageError("on_unreachable is 'fail' or LocalLimit(...)")
        self.on_unreachable = on_unreachable
        self._server = RedisServer(redis_, timeout=timeout)
        self._key = f"{key}:quotas"
        self._mirror = _Mirror(rules)
        super().__init__(
            rules, max_wait=max_wait, learn=learn, reserve_max_tokens=reserve_max_tokens
        )

    def _begin(self) -> None:
        super()._begin()
        self._mirror.begin()

    def close(self) -> None:
        """Close unused connections."""
        self._server.close()

    def _apply(self, operations: Sequence[Operation]) -> Reply:
        mirror = self._mirror
        if mirror.is_local and time.monotonic() < mirror.retry_at:
            return self._apply_locally(operations)
        try:
            reply = self._ask_server(operations)
        except StoreError:
            if self.on_unreachable == "fail":
                raise
            if not mirror.is_local:
                logger.warning(
                    "Redis is unreachable: a rate limiter continues with its own share",
                    exc_info=True,
                )
            mirror.go_local(RETRY_SECONDS)
            return self._apply_locally(operations)
        mirror.go_remote()
        return reply

    def _ask_server(self, operations: Sequence[Operation]) -> Reply:
        mirror = self._mirror
        asked_at = time.monotonic()
        unreported = mirror.take_unreported()
        if unreported:
            operations = [Restore(mirror.aged(unreported)), *operations]
        try:
            reply = self._run(operations)
        except BaseException:
            mirror.put_back(unreported)
            raise
        lost = mirror.follow(reply, operations, asked_at, unreported)
        if lost:  # Redis lost the state with our counts: send them again
            self._run([Restore(lost)])
        return reply

    def _run(self, operations: Sequence[Operation]) -> Reply:
        mirror = self._mirror
        longest = max((quota.seconds for quota in self.rules.quotas), default=60.0)
        request: dict[str, Any] = {
            "rules": _encode_rules(self.rules),
            "caller": self._caller,
            "ops": [_encode(operation) for operation in operations],
            "epoch": mirror.epoch,
            "grace": GRACE,
            "counts": self.on_unreachable != "fail",
            "ttl": int(longest * (COUNTED_SLOTS + 1) / SLOTS * 1000) + 60_000,
        }
        if mirror.epoch:
            server_now, received_at = mirror.server_time
            request["bound"] = server_now + (time.monotonic() - received_at) + CLOCK_DRIFT
        with self._server.client() as client:
            answer = json.loads(
                client.register_script(_script())([self._key], [json.dumps(request)])
            )
        taken = [
            (tokens, {key: int(part) for key, part in slots.items()})
            for tokens, slots in answer["taken"] or ()
        ]
        used = [(key, int(age), float(amount)) for key, age, amount in answer.get("used") or ()]
        callers = max(1, answer["callers"])
        return Reply(taken, answer["wait"], callers, answer["epoch"], float(answer["now"]), used)

    def _apply_locally(self, operations: Sequence[Operation]) -> Reply:
        share = self.on_unreachable.share if isinstance(self.on_unreachable, LocalLimit) else None
        return self._mirror.apply(operations, share)


class _Mirror:
    """The counts of this process: for the time without Redis, and to send them again."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._state = State()
        self.begin()

    def begin(self) -> None:
        """Reset all counts; a forked child has used nothing."""
        self._pid = os.getpid()
        self._lock = mutex()
        self._state = State()
        """The usage of this process that Redis knows of."""
        self._local: State | None = None
        """The state while Redis is unreachable."""
        self._fleet: list[Part] = []
        """Key, slot of our time and amount of all processes' usage when Redis last answered."""
        self._unreported: list[Part] = []
        """Key, slot of our time and amount of the usage while Redis was unreachable."""
        self.epoch = ""
        self.server_time = (0.0, 0.0)
        """The time of Redis, and our monotonic time when it was received."""
        self.is_local = False
        self.retry_at = 0.0
        self._callers = 1

    def go_local(self, seconds: float) -> None:
        """Continue without Redis for some seconds."""
        self.is_local = True
        self.retry_at = time.monotonic() + seconds

    def go_remote(self) -> None:
        """Continue with Redis: discard the local state."""
        self.is_local = False
        self._local = None

    def apply(self, operations: Sequence[Operation], share: float | None) -> Reply:
        """Apply operations with a share of the limits."""
        part = share or 1 / self._callers
        rules = self._rules.share(part)
        with self._lock:
            now = time.monotonic()
            local = self._local = self._local or self._open_local(part)
            before = _counts(local)
            reply = apply(local, rules, LOCAL, self._local_operations(operations), now)
            reply.epoch = LOCAL
            for key, amount in _counts(local).items():
                if change := amount - before.get(key, 0.0):
                    self._unreported.append((*key, change))
        return reply

    def _open_local(self, share: float) -> State:
        """Return a local state that starts with our share of all processes' usage."""
        local = State()
        for key, part, amount in self._fleet:
            parts = local.used.setdefault(key, {})
            parts[part] = parts.get(part, 0.0) + amount * share
        for key, part, amount in self._unreported:  # of a time without Redis that has just ended
            parts = local.used.setdefault(key, {})
            parts[part] = parts.get(part, 0.0) + amount
        return local

    def _local_operations(self, operations: Sequence[Operation]) -> list[Operation]:
        """Return operations without those that correct counts in Redis."""
        return [
            operation
            for operation in operations
            if not isinstance(operation, Settle) or operation.epoch == LOCAL
        ]

    def take_unreported(self) -> list[Part]:
        """Return the usage that Redis does not know of, and mark it as reported."""
        with self._lock:
            rows, self._unreported = self._unreported, []
        return rows

    def put_back(self, rows: list[Part]) -> None:
        """Restore usage that could not be reported."""
        with self._lock:
            self._unreported[:0] = rows

    def aged(self, rows: Iterable[Part]) -> list[Part]:
        """Return counts for `Restore`: with their age instead of their slot."""
        lengths = {quota.key: quota.part for quota in self._rules.quotas}
        now = time.monotonic()
        return [(key, max(0, int(now / lengths[key]) - part), amount) for key, part, amount in rows]

    def follow(
        self, reply: Reply, operations: Sequence[Operation], asked_at: float, reported: list[Part]
    ) -> list[Part]:
        """Count the permits of Redis; if Redis lost its state, return the counts to send again."""
        with self._lock:
            is_lost = self.epoch not in ("", reply.epoch)
            lost = self._state.ages(self._rules, time.monotonic()) if is_lost else []
            self.epoch, self._callers = reply.epoch, reply.callers
            self.server_time = (reply.now, asked_at)
            for tokens, _ in reply.taken:
                self._state._count(self._rules, tokens, time.monotonic())
            now = time.monotonic()
            for key, part, amount in reported:
                parts = self._state.used.setdefault(key, {})
                parts[part] = max(0.0, parts.get(part, 0.0) + amount)
            lengths = {quota.key: quota.part for quota in self._rules.quotas}
            self._fleet = [(key, int(now / lengths[key]) - age, n) for key, age, n in reply.used]
            for operation in operations:
                if isinstance(operation, Settle):
                    self._settle(operation, now)
            self._state._forget(self._rules, LOCAL, now)
        return lost

    def _settle(self, settle: Settle, now: float) -> None:
        """Correct the newest counts: only Redis knows which ones the request had."""
        for quota in self._rules.quotas:
            amount = settle.change if quota.kind == "tokens" else float(-settle.unsent)
            parts = self._state.used.get(quota.key, {})
            for part in sorted(parts, reverse=True):
                change = max(-parts[part], amount)
                parts[part] += change
                amount -= change
                if not amount:
                    break


def _counts(state: State) -> dict[tuple[str, int], float]:
    return {
        (key, part): amount for key, parts in state.used.items() for part, amount in parts.items()
    }


@cache
def _script() -> str:
    return Path(__file__).with_name("redis.lua").read_text(encoding="utf-8")


def _encode_rules(rules: Rules) -> dict[str, Any]:
    quotas = [
        {"key": quota.key, "kind": quota.kind, "limit": quota.limit, "part": quota.part}
        for quota in rules.quotas
    ]
    numbers = {
        "kept": COUNTED_SLOTS,
        "lease": LEASE,
        "seen": CALLER_LIFETIME,
        "epsilon": EPSILON,
    }
    return {"quotas": quotas, "rate": rules.rate, "size": rules.size, **numbers}


NAMES: Final = {Take: "take", Settle: "settle", Learn: "learn", Leave: "leave", Restore: "restore"}


def _encode(operation: Operation) -> dict[str, Any]:
    return {"op": NAMES[type(operation)], **asdict(operation)}
