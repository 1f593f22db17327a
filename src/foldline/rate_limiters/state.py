"""What callers have taken, and who waits: the book-keeping of a limiter, pure; time is handed in.

`redis.lua` says the same for Redis; `tests/rate_limiters/test_state.py` holds one against the other.

What is taken is counted in parts of a quota's time, and is free again when its part has left that time whole. Callers
that wait (a process each) stand in a line. Whoever looks serves the line from its front: what another caller gets is
kept for it until it looks itself. A caller that has not looked for `LEASE` seconds has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from foldline.rate_limiters.quotas import KEPT, Quota, Rules

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
"""Seconds after which a caller that waits and does not look is taken for gone."""
SEEN: Final = 60.0
"""Seconds for which a caller counts as one of those who share the limits."""
NEVER: Final = 1e9
EPSILON: Final = 1e-9

Taken = dict[str, int]
"""Key of a quota -> the part of time in which it was taken."""


@dataclass(slots=True)
class Cap:
    """What a provider said is left: `remaining` of `limit`, which is full again after `reset` seconds."""

    limit: float
    remaining: float
    reset: float
    at: float = 0.0
    taken: float = 0.0

    def room(self, now: float) -> float:
        """Return what may be taken now: what was left, what has come back since, less what was taken since."""
        part = min(1.0, max(0.0, now - self.at) / self.reset) if self.reset > 0 else 1.0
        return self.remaining + (self.limit - self.remaining) * part - self.taken

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until an amount may be taken."""
        missing = min(amount, self.limit) - self.room(now)
        if missing <= EPSILON or now >= self.at + self.reset:
            return 0.0
        speed = (self.limit - self.remaining) / self.reset
        end = self.at + self.reset - now
        return min(end, missing / speed) if speed > 0 else end


@dataclass(slots=True)
class Reply:
    """What a look brought: for each request that may go, what it took; else how long until one may."""

    taken: list[tuple[float, Taken]] = field(default_factory=list)
    """Tokens, and where they were counted, of each request that may go now."""
    wait: float = 0.0
    callers: int = 1
    """How many callers share the limits."""
    epoch: str = ""
    """Which state this is: another one has begun anew."""
    now: float = 0.0
    used: list[tuple[str, int, float]] = field(default_factory=list)
    """What all callers have taken (key of a quota, age in parts, amount), where that was asked for."""


@dataclass(slots=True)
class Waiter:
    """A caller in the line: the tokens of each of its next requests."""

    caller: str
    demands: list[float]
    at: float


@dataclass(slots=True)
class State:
    """Everything that callers share."""

    used: dict[str, dict[int, float]] = field(default_factory=dict)
    """Key of a quota -> part of time -> what was taken in it."""
    line: list[Waiter] = field(default_factory=list)
    kept: dict[str, list[float]] = field(default_factory=dict)
    """Caller -> the tokens of requests that it may make as soon as it looks."""
    seen: dict[str, float] = field(default_factory=dict)
    hold: float = 0.0
    """Until when nothing is let through: a provider said so."""
    caps: dict[str, Cap] = field(default_factory=dict)
    bucket: float = 0.0
    bucket_at: float | None = None

    # -- what callers ask

    def take(
        self, rules: Rules, caller: str, demands: list[float], now: float, *, waits: bool = True
    ) -> Reply:
        """Let requests through, in the order of the line; who gets none waits in it, unless `waits` is False."""
        self._forget(rules, caller, now)
        self.seen[caller] = now
        reply = Reply(now=now)
        for tokens in self.kept.pop(caller, [])[: len(demands)]:
            reply.taken.append((tokens, self._count(rules, tokens, now)))
        left = demands[len(reply.taken) :]
        own = next((waiter for waiter in self.line if waiter.caller == caller), None)
        if own is not None and (reply.taken or not left or not waits):
            self.line.remove(own)  # its turn is over: it goes to the end
            own = None
        if not waits:
            self._take_at_once(rules, left, reply, now)
        elif left:
            if own is None:
                own = Waiter(caller, [], now)
                self.line.append(own)
            own.demands, own.at = left, now
        self._serve(rules, caller, reply, now)
        reply.wait = 0.0 if reply.taken or not self.line else self._wait(rules, now)
        reply.callers = max(1, len(self.seen))
        return reply

    def settle(
        self, rules: Rules, taken: Taken, change: float, now: float, *, unsent: bool
    ) -> None:
        """Correct the tokens of a request that is over; one that was never sent is given back whole."""
        for quota in rules.quotas:
            amount = change if quota.kind == "tokens" else float(-unsent)
            part = taken.get(quota.key)
            if not amount or part is None:
                continue
            parts = self.used.setdefault(quota.key, {})
            if amount > 0:  # the provider counts it when it is made
                part = int(now / quota.part)
            elif part not in parts:
                continue
            parts[part] = max(0.0, parts.get(part, 0.0) + amount)

    def learn(self, caps: dict[str, Cap], hold: float, now: float) -> None:
        """Take what a provider said of its limits: what is left, and how long to wait."""
        for kind, cap in caps.items():
            self.caps[kind] = Cap(cap.limit, cap.remaining, cap.reset, now)
        if hold > 0:
            self.hold = max(self.hold, now + hold)

    def leave(self, caller: str) -> None:
        """Take a caller out of the line, and give back what was kept for it."""
        self.line = [waiter for waiter in self.line if waiter.caller != caller]
        self.kept.pop(caller, None)

    def restore(self, rules: Rules, parts: list[tuple[str, int, float]], now: float) -> None:
        """Count what was taken while this state did not hear of it: key, age in parts, amount."""
        lengths = {quota.key: quota.part for quota in rules.quotas}
        for key, age, amount in parts:
            if key in lengths and age <= KEPT:
                part = int(now / lengths[key]) - age
                counts = self.used.setdefault(key, {})
                counts[part] = counts.get(part, 0.0) + amount

    def ages(self, rules: Rules, now: float) -> list[tuple[str, int, float]]:
        """Return what was taken, as `restore` wants it."""
        lengths = {quota.key: quota.part for quota in rules.quotas}
        return [
            (key, int(now / lengths[key]) - part, amount)
            for key, parts in self.used.items()
            if key in lengths
            for part, amount in parts.items()
        ]

    # -- the parts of it

    def _forget(self, rules: Rules, caller: str, now: float) -> None:
        for quota in rules.quotas:
            oldest = int(now / quota.part) - KEPT
            parts = self.used.get(quota.key)
            if parts and min(parts) < oldest:
                self.used[quota.key] = {
                    part: amount for part, amount in parts.items() if part >= oldest
                }
        gone = [one.caller for one in self.line if one.caller != caller and now - one.at > LEASE]
        gone += [
            one for one in self.kept if one != caller and now - self.seen.get(one, -NEVER) > LEASE
        ]
        for one in gone:
            self.leave(one)
        self.seen = {one: at for one, at in self.seen.items() if now - at <= SEEN}
        if rules.rate:
            since = 0.0 if self.bucket_at is None else max(0.0, now - self.bucket_at)
            self.bucket = min(rules.size, self.bucket + since * rules.rate)
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
        """Count a request where it is made: in the part of time that it is now."""
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
        """Return the seconds until a request of so many tokens fits; 0 where it does now."""
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
        kept = sum(quota.cost(one) for some in self.kept.values() for one in some)
        over = sum(parts.values()) + kept + quota.cost(tokens) - quota.limit
        if over <= EPSILON:
            return 0.0
        for part in sorted(parts):
            over -= parts[part]
            if over <= EPSILON:
                return max(EPSILON, (part + KEPT + 1) * quota.part - now)
        return float(quota.part)


# -- what a store is asked, as values


@dataclass(frozen=True, slots=True)
class Take:
    """Let requests through that have so many tokens each."""

    demands: list[float]
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Settle:
    """Correct the tokens of a request that is over."""

    taken: Taken
    change: float
    unsent: bool = False
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class Learn:
    """Take what a provider said of its limits."""

    caps: dict[str, Cap]
    hold: float = 0.0
    at: float | None = None
    """When it was said, by the monotonic clock; None for just now."""

    def aged(self, now: float) -> Learn:
        """Return what is left of it now."""
        if self.at is None:
            return self
        age = max(0.0, now - self.at)
        caps = {
            kind: replace(cap, reset=max(0.0, cap.reset - age)) for kind, cap in self.caps.items()
        }
        return Learn(caps, max(0.0, self.hold - age))


@dataclass(frozen=True, slots=True)
class Leave:
    """Take the caller out of the line."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Count what was taken while the state did not hear of it."""

    parts: list[tuple[str, int, float]]


Operation = Take | Settle | Learn | Leave | Restore


def apply(
    state: State, rules: Rules, caller: str, operations: Sequence[Operation], now: float
) -> Reply:
    """Do what a caller asks, in its order; return what came of its `Take`, if there is one."""
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
