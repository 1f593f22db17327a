"""`RedisRateLimiter`: limits for a fleet, kept in Redis (extra `redis`).

All that is asked is one script (`redis.lua`) that Redis runs whole, on its own clock, so that machines whose clocks
differ share one limit. Every limiter keeps its own part of the counts too: where Redis has lost the state, it tells it
again; where Redis is gone, it may go on with a limit of its own (`LocalLimit`).
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
from foldline.rate_limiters.limiter import QuotaLimiter
from foldline.rate_limiters.quotas import KEPT, SLOTS, Quota, Rules, make_rules
from foldline.rate_limiters.state import (
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

__all__ = ["LocalLimit", "RedisRateLimiter"]

logger: logging.Logger = logging.getLogger("foldline.rate_limiters")

GRACE: Final = 2.0
"""Seconds for which nothing is let through after Redis lost its state, so that all can tell what they have taken."""
AGAIN: Final = 1.0
"""Seconds after which a server that was gone is asked again."""
DRIFT: Final = 0.05
"""Seconds that the server's clock may have gone further than ours."""
LOCAL: Final = "local"
Part = tuple[str, int, float]
"""Key of a quota, part of time (or age in parts), amount."""


@dataclass(frozen=True, slots=True)
class LocalLimit:
    """Where Redis is gone, each process goes on by itself, with its share of the limits."""

    share: float | None = None
    """The share of one process; None for an equal part among those who were seen last."""

    def __post_init__(self) -> None:
        if self.share is not None and not 0 < self.share <= 1:
            raise UsageError(f"LocalLimit(share={self.share!r}): a number above 0, up to 1")


class RedisRateLimiter(QuotaLimiter):
    """Limits that all processes with the same `key` share.

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
        """Hold to every limit that is given, together with the fleet.

        `on_unreachable` says what happens where Redis does not answer within `timeout` seconds: "fail" raises
        `StoreError`; `LocalLimit()` goes on with a share of the limits, and tells Redis when it is back.
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
        """Close connections that nobody uses."""
        self._server.close()

    def _apply(self, operations: Sequence[Operation]) -> Reply:
        mirror = self._mirror
        if mirror.is_local and time.monotonic() < mirror.ask_again:
            return self._apply_locally(operations)
        try:
            reply = self._ask_server(operations)
        except StoreError:
            if self.on_unreachable == "fail":
                raise
            if not mirror.is_local:
                logger.warning(
                    "Redis is gone: a rate limiter goes on with its own share", exc_info=True
                )
            mirror.go_local(AGAIN)
            return self._apply_locally(operations)
        mirror.go_back()
        return reply

    def _ask_server(self, operations: Sequence[Operation]) -> Reply:
        mirror = self._mirror
        asked_at = time.monotonic()
        untold = mirror.take_untold()
        if untold:
            operations = [Restore(mirror.aged(untold)), *operations]
        try:
            reply = self._run(operations)
        except BaseException:
            mirror.put_back(untold)
            raise
        lost = mirror.follow(reply, operations, asked_at, untold)
        if lost:  # the state that our counts were in is gone: they are told to the new one
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
            "ttl": int(longest * (KEPT + 1) / SLOTS * 1000) + 60_000,
        }
        if mirror.epoch:
            server_now, heard_at = mirror.heard
            request["bound"] = server_now + (time.monotonic() - heard_at) + DRIFT
        with self._server.client() as client:
            answer = json.loads(
                client.register_script(_script())([self._key], [json.dumps(request)])
            )
        taken = [
            (tokens, {key: int(part) for key, part in at.items()})
            for tokens, at in answer["taken"] or ()
        ]
        used = [(key, int(age), float(amount)) for key, age, amount in answer.get("used") or ()]
        callers = max(1, answer["callers"])
        return Reply(taken, answer["wait"], callers, answer["epoch"], float(answer["now"]), used)

    def _apply_locally(self, operations: Sequence[Operation]) -> Reply:
        share = self.on_unreachable.share if isinstance(self.on_unreachable, LocalLimit) else None
        return self._mirror.apply(operations, share)


class _Mirror:
    """What this process has taken, by itself: for the time without Redis, and to tell it again."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._state = State()
        self.begin()

    def begin(self) -> None:
        """Forget what belongs to another process; a forked child has taken nothing."""
        self._pid = os.getpid()
        self._lock = mutex()
        self._state = State()
        """What Redis knows that this process has taken."""
        self._local: State | None = None
        """The books of the time without Redis."""
        self._fleet: list[Part] = []
        """Key, part of our time and amount of what all had taken when Redis last answered."""
        self._untold: list[Part] = []
        """Key, part of our time and amount of what was taken while Redis was gone."""
        self.epoch = ""
        self.heard = (0.0, 0.0)
        """The time that Redis said, and when that was by our clock."""
        self.is_local = False
        self.ask_again = 0.0
        self._callers = 1

    def go_local(self, seconds: float) -> None:
        """Go on without Redis for a while."""
        self.is_local = True
        self.ask_again = time.monotonic() + seconds

    def go_back(self) -> None:
        """Go on with Redis: the books of the time without it are closed."""
        self.is_local = False
        self._local = None

    def apply(self, operations: Sequence[Operation], share: float | None) -> Reply:
        """Do what is asked with a share of the limits."""
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
                    self._untold.append((*key, change))
        return reply

    def _open_local(self, share: float) -> State:
        """Open books in which our share of what all have taken is taken: what is left of it is left of the limit."""
        local = State()
        for key, part, amount in self._fleet:
            parts = local.used.setdefault(key, {})
            parts[part] = parts.get(part, 0.0) + amount * share
        for key, part, amount in self._untold:  # of a time without Redis that has just ended
            parts = local.used.setdefault(key, {})
            parts[part] = parts.get(part, 0.0) + amount
        return local

    def _local_operations(self, operations: Sequence[Operation]) -> list[Operation]:
        """Leave out what speaks of counts in Redis."""
        return [one for one in operations if not isinstance(one, Settle) or one.epoch == LOCAL]

    def take_untold(self) -> list[Part]:
        """Return what Redis has not heard of, and count it as told."""
        with self._lock:
            rows, self._untold = self._untold, []
        return rows

    def put_back(self, rows: list[Part]) -> None:
        """Keep what Redis could not be told."""
        with self._lock:
            self._untold[:0] = rows

    def aged(self, rows: Iterable[Part]) -> list[Part]:
        """Return counts as `Restore` wants them: with their age for their part of time."""
        lengths = {quota.key: quota.part for quota in self._rules.quotas}
        now = time.monotonic()
        return [(key, max(0, int(now / lengths[key]) - part), amount) for key, part, amount in rows]

    def follow(
        self, reply: Reply, operations: Sequence[Operation], asked_at: float, told: list[Part]
    ) -> list[Part]:
        """Count here what Redis let through; return all that it knew before where it had to begin anew."""
        with self._lock:
            is_lost = self.epoch not in ("", reply.epoch)
            lost = self._state.ages(self._rules, time.monotonic()) if is_lost else []
            self.epoch, self._callers = reply.epoch, reply.callers
            self.heard = (reply.now, asked_at)
            for tokens, _ in reply.taken:
                self._state._count(self._rules, tokens, time.monotonic())
            now = time.monotonic()
            for key, part, amount in told:
                parts = self._state.used.setdefault(key, {})
                parts[part] = max(0.0, parts.get(part, 0.0) + amount)
            lengths = {quota.key: quota.part for quota in self._rules.quotas}
            self._fleet = [(key, int(now / lengths[key]) - age, n) for key, age, n in reply.used]
            for one in operations:
                if isinstance(one, Settle):
                    self._settle(one, now)
            self._state._forget(self._rules, LOCAL, now)
        return lost

    def _settle(self, settle: Settle, now: float) -> None:
        """Correct the newest counts: which of them it was, only Redis knows."""
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
        {"key": one.key, "kind": one.kind, "limit": one.limit, "part": one.part}
        for one in rules.quotas
    ]
    return {"quotas": quotas, "rate": rules.rate, "size": rules.size}


NAMES: Final = {Take: "take", Settle: "settle", Learn: "learn", Leave: "leave", Restore: "restore"}


def _encode(operation: Operation) -> dict[str, Any]:
    return {"op": NAMES[type(operation)], **asdict(operation)}
