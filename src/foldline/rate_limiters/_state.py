"""The state of a limiter: usage, and waiting callers. Pure; the time is a parameter.

`redis.lua` is the same for Redis, which runs it atomically in one round trip (it says why it is written twice);
`tests/rate_limiters/test_state.py` compares the two.

Usage is counted in slots of a quota's period, and expires when its slot has completely left the period. Waiting callers
(one per process) form a queue. Each poll serves the queue from its front: permits of another caller are kept until that
caller polls. A caller that has not polled for `LEASE` seconds is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from foldline.rate_limiters.quotas import COUNTED_SLOTS, Quota, Rules

__all__ = [
    "LEASE",
    "Cap",
    "Learn",
    "Leave",
    "Operation",
    "Reply",
    "Restore",
    "Settle",
    "State",
    "Take",
    "Taken",
    "Waiter",
    "apply",
]

LEASE: Final = 2.0
"""Seconds after which a waiting caller that does not poll is removed."""
CALLER_LIFETIME: Final = 60.0
"""Seconds for which a caller counts as sharing the limits."""
NEVER: Final = 1e9
EPSILON: Final = 1e-9

Taken = dict[str, int]
"""Key of a quota -> the slot in which the usage was counted."""


@dataclass(slots=True)
class Cap:
    """The remaining quota that a provider reported: `remaining` of `limit`, full again after `reset` seconds."""

    limit: float
    remaining: float
    reset: float
    at: float = 0.0
    taken: float = 0.0

    def room(self, now: float) -> float:
        """Return the amount available now: the remaining quota, plus its recovery, minus later usage."""
        recovered = min(1.0, max(0.0, now - self.at) / self.reset) if self.reset > 0 else 1.0
        return self.remaining + (self.limit - self.remaining) * recovered - self.taken

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until an amount is available."""
        missing = min(amount, self.limit) - self.room(now)
        if missing <= EPSILON or now >= self.at + self.reset:
            return 0.0
        speed = (self.limit - self.remaining) / self.reset
        end = self.at + self.reset - now
        return min(end, missing / speed) if speed > 0 else end


@dataclass(slots=True)
class Reply:
    """The result of a poll: the usage of each allowed request, or the seconds until one is allowed."""

    taken: list[tuple[float, Taken]] = field(default_factory=list)
    """The tokens, and their slots, of each request that is allowed now."""
    wait: float = 0.0
    callers: int = 1
    """How many callers share the limits."""
    epoch: str = ""
    """The id of the state; it changes if the state is lost."""
    now: float = 0.0
    used: list[tuple[str, int, float]] = field(default_factory=list)
    """The usage of all callers (key of a quota, age in slots, amount), if it was requested."""


@dataclass(slots=True)
class Waiter:
    """A caller in the queue, with the tokens of each of its next requests."""

    caller: str
    demands: list[float]
    at: float


@dataclass(slots=True)
class State:
    """The state that callers share."""

    used: dict[str, dict[int, float]] = field(default_factory=dict)
    """Key of a quota -> slot -> usage."""
    line: list[Waiter] = field(default_factory=list)
    kept: dict[str, list[float]] = field(default_factory=dict)
    """Caller -> the tokens of its requests that are allowed as soon as it polls."""
    seen: dict[str, float] = field(default_factory=dict)
    hold: float = 0.0
    """The time until which no request is allowed, by a provider's Retry-After."""
    caps: dict[str, Cap] = field(default_factory=dict)
    bucket: float = 0.0
    bucket_at: float | None = None

    # -- operations

    def take(
        self, rules: Rules, caller: str, demands: list[float], now: float, *, waits: bool = True
    ) -> Reply:
        """Allow requests in the order of the queue; others wait in it, unless `waits` is False."""
        self._forget(rules, caller, now)
        self.seen[caller] = now
        reply = Reply(now=now)
        for tokens in self.kept.pop(caller, [])[: len(demands)]:
            reply.taken.append((tokens, self._count(rules, tokens, now)))
        remaining = demands[len(reply.taken) :]
        waiter_of_caller = next((waiter for waiter in self.line if waiter.caller == caller), None)
        if waiter_of_caller is not None and (reply.taken or not remaining or not waits):
            self.line.remove(waiter_of_caller)  # its turn is over: it is appended again below
            waiter_of_caller = None
        if not waits:
            self._take_at_once(rules, remaining, reply, now)
        elif remaining:
            if waiter_of_caller is None:
                waiter_of_caller = Waiter(caller, [], now)
                self.line.append(waiter_of_caller)
            waiter_of_caller.demands, waiter_of_caller.at = remaining, now
        self._serve(rules, caller, reply, now)
        reply.wait = 0.0 if reply.taken or not self.line else self._wait(rules, now)
        reply.callers = max(1, len(self.seen))
        return reply

    def settle(
        self, rules: Rules, taken: Taken, change: float, now: float, *, unsent: bool
    ) -> None:
        """Correct the tokens of a finished request; one that was never sent is fully returned."""
        for quota in rules.quotas:
            amount = change if quota.kind == "tokens" else float(-unsent)
            part = taken.get(quota.key)
            if not amount or part is None:
                continue
            parts = self.used.setdefault(quota.key, {})
            if amount > 0:  # providers count additional tokens when they are generated
                part = int(now / quota.part)
            elif part not in parts:
                continue
            parts[part] = max(0.0, parts.get(part, 0.0) + amount)

    def learn(self, caps: dict[str, Cap], hold: float, now: float) -> None:
        """Store the limits that a provider reported: the remaining quota, and how long to wait."""
        for kind, cap in caps.items():
            self.caps[kind] = Cap(cap.limit, cap.remaining, cap.reset, now)
        if hold > 0:
            self.hold = max(self.hold, now + hold)

    def leave(self, caller: str) -> None:
        """Remove a caller from the queue, and return its kept permits."""
        self.line = [waiter for waiter in self.line if waiter.caller != caller]
        self.kept.pop(caller, None)

    def restore(self, rules: Rules, parts: list[tuple[str, int, float]], now: float) -> None:
        """Count usage that this state does not know of: key, age in slots, amount."""
        lengths = {quota.key: quota.part for quota in rules.quotas}
        for key, age, amount in parts:
            if key in lengths and age <= COUNTED_SLOTS:
                part = int(now / lengths[key]) - age
                counts = self.used.setdefault(key, {})
                counts[part] = counts.get(part, 0.0) + amount

    def ages(self, rules: Rules, now: float) -> list[tuple[str, int, float]]:
        """Return the usage in the form of `restore`."""
        lengths = {quota.key: quota.part for quota in rules.quotas}
        return [
            (key, int(now / lengths[key]) - part, amount)
            for key, parts in self.used.items()
            if key in lengths
            for part, amount in parts.items()
        ]

    # -- helpers

    def _forget(self, rules: Rules, caller: str, now: float) -> None:
        for quota in rules.quotas:
            oldest = int(now / quota.part) - COUNTED_SLOTS
            parts = self.used.get(quota.key)
            if parts and min(parts) < oldest:
                self.used[quota.key] = {
                    part: amount for part, amount in parts.items() if part >= oldest
                }
        expired = [
            waiter.caller
            for waiter in self.line
            if waiter.caller != caller and now - waiter.at > LEASE
        ]
        expired += [
            other
            for other in self.kept
            if other != caller and now - self.seen.get(other, -NEVER) > LEASE
        ]
        for other in expired:
            self.leave(other)
        self.seen = {
            other: seen_at
            for other, seen_at in self.seen.items()
            if now - seen_at <= CALLER_LIFETIME
        }
        if rules.rate:
            elapsed = 0.0 if self.bucket_at is None else max(0.0, now - self.bucket_at)
            self.bucket = min(rules.size, self.bucket + elapsed * rules.rate)
            self.bucket_at = now

    def _serve(self, rules: Rules, caller: str, reply: Reply, now: float) -> None:
        while self.line:
            waiter = self.line[0]
            tokens = waiter.demands[0]
            if self._wait_for(rules, tokens, now) > 0:
                return
            waiter.demands.pop(0)
            if not waiter.demands:
                self.line.pop(0)
            if waiter.caller == caller:
                reply.taken.append((tokens, self._count(rules, tokens, now)))
            else:
                self.kept.setdefault(waiter.caller, []).append(tokens)
            self._draw(rules, tokens)

    def _take_at_once(self, rules: Rules, demands: list[float], reply: Reply, now: float) -> None:
        for tokens in demands:
            if self.line or self._wait_for(rules, tokens, now) > 0:
                return
            reply.taken.append((tokens, self._count(rules, tokens, now)))
            self._draw(rules, tokens)

    def _count(self, rules: Rules, tokens: float, now: float) -> Taken:
        """Count a request in the current slot."""
        taken: Taken = {}
        for quota in rules.quotas:
            part = taken[quota.key] = int(now / quota.part)
            parts = self.used.setdefault(quota.key, {})
            parts[part] = parts.get(part, 0.0) + quota.cost(tokens)
        return taken

    def _draw(self, rules: Rules, tokens: float) -> None:
        if rules.rate:
            self.bucket -= 1
        for kind, cap in self.caps.items():
            cap.taken += 1 if kind == "requests" else tokens

    def _wait(self, rules: Rules, now: float) -> float:
        return self._wait_for(rules, self.line[0].demands[0], now)

    def _wait_for(self, rules: Rules, tokens: float, now: float) -> float:
        """Return the seconds until a request with this many tokens is allowed; 0 if it is now."""
        waits = [max(0.0, self.hold - now)]
        waits += [self._quota_wait(quota, tokens, now) for quota in rules.quotas]
        if rules.rate and self.bucket < 1 - EPSILON:
            waits.append((1 - self.bucket) / rules.rate)
        for kind, cap in self.caps.items():
            amount = 1 if kind == "requests" else tokens
            waits.append(cap.wait(amount, now))
        return max(waits)

    def _quota_wait(self, quota: Quota, tokens: float, now: float) -> float:
        parts = self.used.get(quota.key, {})
        reserved = sum(
            quota.cost(kept_tokens) for demands in self.kept.values() for kept_tokens in demands
        )
        excess = sum(parts.values()) + reserved + quota.cost(tokens) - quota.limit
        if excess <= EPSILON:
            return 0.0
        for part in sorted(parts):
            excess -= parts[part]
            if excess <= EPSILON:
                return max(EPSILON, (part + COUNTED_SLOTS + 1) * quota.part - now)
        return float(quota.part)


# -- operations as values


@dataclass(frozen=True, slots=True)
class Take:
    """Allow requests with these numbers of tokens."""

    demands: list[float]
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Settle:
    """Correct the tokens of a finished request."""

    taken: Taken
    change: float
    unsent: bool = False
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class Learn:
    """Store the limits that a provider reported."""

    caps: dict[str, Cap]
    hold: float = 0.0
    at: float | None = None
    """The monotonic time of the report; None for now."""

    def aged(self, now: float) -> Learn:
        """Return the report with its times reduced by its age."""
        if self.at is None:
            return self
        age = max(0.0, now - self.at)
        caps = {
            kind: replace(cap, reset=max(0.0, cap.reset - age)) for kind, cap in self.caps.items()
        }
        return Learn(caps, max(0.0, self.hold - age))


@dataclass(frozen=True, slots=True)
class Leave:
    """Remove the caller from the queue."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Count usage that the state does not know of."""

    parts: list[tuple[str, int, float]]


Operation = Take | Settle | Learn | Leave | Restore


def apply(
    state: State, rules: Rules, caller: str, operations: Sequence[Operation], now: float
) -> Reply:
    """Apply a caller's operations in order; return the reply to its `Take`, if there is one."""
    reply = Reply(now=now)
    for operation in operations:
        match operation:
            case Take(demands, waits):
                reply = state.take(rules, caller, list(demands), now, waits=waits)
            case Settle(taken, change, unsent):
                state.settle(rules, taken, change, now, unsent=unsent)
            case Learn(caps, hold):
                state.learn(caps, hold, now)
            case Leave():
                state.leave(caller)
            case Restore(parts):
                state.restore(rules, parts, now)
            case _:
                assert_never(operation)
    return reply
