"""`Quota`: how much of what in how long a time; and the rules that a limiter is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.exceptions import UsageError

__all__ = ["KEPT", "SLOTS", "Quota", "Rules", "make_rules"]

Kind = Literal["requests", "tokens"]
SLOTS: Final = 60
"""The parts of a quota's time that are counted one by one."""
KEPT: Final = SLOTS + 1
"""The parts behind the present one that count: what is sent up to a part late still passes no limit."""
MINUTE: Final = 60.0
DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Quota:
    """So many requests or tokens in any stretch of so many seconds."""

    kind: Kind
    limit: float
    seconds: float

    def __post_init__(self) -> None:
        if self.kind not in ("requests", "tokens"):
            raise UsageError(f"Quota({self.kind!r}, …): the kind is 'requests' or 'tokens'")
        least = 1 if self.kind == "requests" else 0
        is_number = not isinstance(self.limit, bool) and isinstance(self.limit, int | float)
        if not is_number or not least <= self.limit < float("inf") or not self.limit:
            raise UsageError(f"Quota({self.kind!r}, {self.limit!r}, …): a number from 1")
        if not 0 < self.seconds < float("inf"):
            raise UsageError(f"Quota(…, seconds={self.seconds!r}): a number above 0")

    @property
    def key(self) -> str:
        """The name of its counts."""
        return f"{self.kind}/{self.seconds:g}"

    @property
    def part(self) -> float:
        """Seconds of one of the parts that are counted."""
        return self.seconds / SLOTS

    def cost(self, tokens: float) -> float:
        """Return what a request with so many tokens takes of it."""
        return 1 if self.kind == "requests" else tokens


@dataclass(frozen=True, slots=True)
class Rules:
    """What a limiter holds callers to."""

    quotas: tuple[Quota, ...] = ()
    rate: float = 0.0
    """Requests per second of a bucket; 0 for no bucket."""
    size: float = 1.0
    """The most that the bucket holds."""

    @property
    def counts_tokens(self) -> bool:
        """Whether it matters how many tokens a request has."""
        return any(quota.kind == "tokens" for quota in self.quotas)

    @property
    def most_tokens(self) -> float:
        """The most tokens that one request can have."""
        limits = [quota.limit for quota in self.quotas if quota.kind == "tokens"]
        return min(limits, default=float("inf"))

    @property
    def look(self) -> float:
        """Seconds after which it is worth to look again."""
        return min((quota.part for quota in self.quotas), default=1.0)

    def share(self, part: float) -> Rules:
        """Return the rules for a part of the callers; at least one request stays."""
        quotas = tuple(replace(quota, limit=max(1.0, quota.limit * part)) for quota in self.quotas)
        return replace(self, quotas=quotas, rate=self.rate * part)

    def refusal(self, tokens: float) -> str | None:
        """Return why a request could never be let through; None where it could."""
        for quota in self.quotas:
            if quota.cost(tokens) > quota.limit:
                return (
                    f"a request of about {tokens:.0f} tokens never fits {quota.limit:g} {quota.kind} "
                    f"in {quota.seconds:g} s: send less, or raise the limit"
                )
        return None


def make_rules(
    *,
    requests_per_second: float | None,
    max_bucket_size: float,
    requests_per_minute: float | None,
    tokens_per_minute: float | None,
    requests_per_day: float | None,
    tokens_per_day: float | None,
    quotas: Iterable[Quota],
) -> Rules:
    """Return the rules that a limiter's arguments mean; without any, LangChain's: one request a second."""
    named: Sequence[tuple[Kind, float | None, float]] = (
        ("requests", requests_per_minute, MINUTE),
        ("tokens", tokens_per_minute, MINUTE),
        ("requests", requests_per_day, DAY),
        ("tokens", tokens_per_day, DAY),
    )
    found = [Quota(kind, limit, seconds) for kind, limit, seconds in named if limit is not None]
    found += quotas
    keys = [quota.key for quota in found]
    if len(set(keys)) < len(keys):
        raise UsageError("two limits of one kind for the same time: give one of them")
    if requests_per_second is None:
        requests_per_second = 0 if found else 1
    elif requests_per_second <= 0:
        raise UsageError("requests_per_second must be above 0")
    if max_bucket_size < 1:
        raise UsageError("requests_per_second must be above 0 and max_bucket_size at least 1")
    return Rules(tuple(found), requests_per_second, max_bucket_size)
