"""`Quota`: an amount of requests or tokens per period; and the rules of a limiter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.exceptions import UsageError

__all__ = [
    "Quota",
]

Kind = Literal["requests", "tokens"]
SLOTS: Final = 60
"""The number of slots into which a quota's period is divided."""
COUNTED_SLOTS: Final = SLOTS + 1
"""How many slots before the current one are counted: one more, for requests that are sent slightly late."""
MINUTE: Final = 60.0
DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of requests or tokens in any period of `seconds`."""

    kind: Kind
    limit: float
    seconds: float

    def __post_init__(self) -> None:
        if self.kind not in ("requests", "tokens"):
            raise UsageError(f"Quota({self.kind!r}, …): the kind is 'requests' or 'tokens'")
        minimum = 1 if self.kind == "requests" else 0
        is_number = not isinstance(self.limit, bool) and isinstance(self.limit, int | float)
        if not is_number or not minimum <= self.limit < float("inf") or not self.limit:
            raise UsageError(f"Quota({self.kind!r}, {self.limit!r}, …): a number from 1")
        if not 0 < self.seconds < float("inf"):
            raise UsageError(f"Quota(…, seconds={self.seconds!r}): a number above 0")

    @property
    def key(self) -> str:
        """The key of its counts."""
        return f"{self.kind}/{self.seconds:g}"

    @property
    def part(self) -> float:
        """The length of a slot in seconds."""
        return self.seconds / SLOTS

    def cost(self, tokens: float) -> float:
        """Return the amount that a request with this many tokens uses."""
        return 1 if self.kind == "requests" else tokens


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of a limiter."""

    quotas: tuple[Quota, ...] = ()
    rate: float = 0.0
    """Requests per second of a bucket; 0 for no bucket."""
    size: float = 1.0
    """The capacity of the bucket."""

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens are limited."""
        return any(quota.kind == "tokens" for quota in self.quotas)

    @property
    def most_tokens(self) -> float:
        """The maximum tokens of one request."""
        limits = [quota.limit for quota in self.quotas if quota.kind == "tokens"]
        return min(limits, default=float("inf"))

    @property
    def poll(self) -> float:
        """Seconds after which polling again is useful."""
        return min((quota.part for quota in self.quotas), default=1.0)

    def share(self, fraction: float) -> Rules:
        """Return the rules for a fraction of the callers; at least one request is allowed."""
        quotas = tuple(
            replace(quota, limit=max(1.0, quota.limit * fraction)) for quota in self.quotas
        )
        return replace(self, quotas=quotas, rate=self.rate * fraction)

    def refusal(self, tokens: float) -> str | None:
        """Return why a request can never be allowed, or None."""
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
    """Return the rules for a limiter's arguments; without any, LangChain's default of one request per second."""
    limits: Sequence[tuple[Kind, float | None, float]] = (
        ("requests", requests_per_minute, MINUTE),
        ("tokens", tokens_per_minute, MINUTE),
        ("requests", requests_per_day, DAY),
        ("tokens", tokens_per_day, DAY),
    )
    all_quotas = [
        Quota(kind, limit, seconds) for kind, limit, seconds in limits if limit is not None
    ]
    all_quotas += quotas
    keys = [quota.key for quota in all_quotas]
    if len(set(keys)) < len(keys):
        raise UsageError("two limits of one kind for the same time: give one of them")
    if requests_per_second is None:
        requests_per_second = 0 if all_quotas else 1
    elif requests_per_second <= 0:
        raise UsageError("requests_per_second must be above 0")
    if max_bucket_size < 1:
        raise UsageError("requests_per_second must be above 0 and max_bucket_size at least 1")
    return Rules(tuple(all_quotas), requests_per_second, max_bucket_size)
