"""`QuotaLimiter`: the base of all limiters. A request reserves before it is sent and settles afterwards.

There are two queues. The store has one of processes ("callers"), so that a process with a thousand requests does not
shut out one with a single request; each process has one of its requests (`_entries`). Only the first of these asks the
store, for itself and for some after it (`BATCH`): a thousand waiting requests are one poll, not a thousand.

- Who asks, decides for others: permits go to the queue in its order, and not to whom asked. So no request is overtaken
  by a later one of its process, whichever thread or loop it waits in.
- Who asks may get stuck: its event loop is blocked, or it is suspended. So no lock is held while somebody waits or
  asks; `_is_asking` is a claim with a time on it, and after `STUCK_AFTER` seconds another request takes it over.
- Nothing is lost on the way. A request that is cancelled between a permit and its use returns it; a permit for which no
  request is left is returned; what a store did not take is sent with the next call. What cannot be reported any more
  (the process died) expires in the store with its slot, or its lease.
- What happened after a request (its usage, the limits a provider reported) is noted, and goes with the next poll: one
  round trip per request. Only when nobody polls, `flush` makes one of its own, because returned tokens may be what
  another process waits for.
- The wait is the store's estimate, and other processes change it. So it is cut into polls (`MAX_POLL`), and a request
  fails early only where the estimate cannot shrink: requests are never returned, tokens are.
"""

from __future__ import annotations

import logging
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from typing import ClassVar, Final
from uuid import uuid4

from foldline._io import ASYNC, BLOCKING, IO, Channel, mutex
from foldline._io.drive import drive
from foldline.exceptions import FoldlineError, RateLimitError, StoreError
from foldline.rate_limiters._headers import read_caps
from foldline.rate_limiters._state import Learn, Leave, Operation, Reply, Settle, Take, Taken
from foldline.rate_limiters.base import BaseRateLimiter
from foldline.rate_limiters.quotas import Rules
from foldline.utils._short_repr import short_repr

__all__ = ["Permit", "QuotaLimiter"]

logger: logging.Logger = logging.getLogger("foldline.rate_limiters")

BATCH: Final = 16
"""The maximum number of requests per call of the store; then another process has its turn."""
MAX_POLL: Final = 0.25
"""The maximum of seconds between two polls by the first request in the queue."""
MIN_POLL: Final = 0.001
STUCK_AFTER: Final = 5.0
"""Seconds after which another request asks the store if the first one does not."""
INITIAL_OUTPUT: Final = 500.0
"""The expected tokens of an answer before the first one."""
WEIGHT: Final = 0.2
"""The weight of the newest answer in the expected tokens of the next."""
MAX_HOLD: Final = 3600.0
"""The maximum of seconds for which a provider's Retry-After blocks all requests."""
MAX_NOTES: Final = 1000
"""How many operations are queued for a store that does not answer."""
SLOW_DOWN_STATUSES: Final = frozenset({429, 503, 529})


class Permit:
    """Permission to send one request; `settle` reports its actual usage."""

    __repr__ = short_repr

    __slots__ = ("_epoch", "_limiter", "_taken", "asked_at", "is_settled", "tokens")

    def __init__(
        self, limiter: QuotaLimiter, tokens: float, taken: Taken, epoch: str, asked_at: float
    ) -> None:
        self._limiter = limiter
        self._taken = taken
        self._epoch = epoch
        self.tokens: float = tokens
        """The reserved tokens."""
        self.asked_at: float = asked_at
        """The monotonic time of the request for it; it is counted from then on, or slightly later."""
        self.is_settled: bool = False

    def settle(self, tokens: float | None = None) -> None:
        """Report the tokens used; None keeps the reservation. The store is updated with the next request."""
        self._note(0.0 if tokens is None else tokens - self.tokens, unsent=False)

    def cancel(self) -> None:
        """Return it: nothing was sent."""
        self._note(-self.tokens, unsent=True)

    async def settle_now(self, tokens: float | None, io: IO) -> None:
        """Report the tokens used, and update the store."""
        self.settle(tokens)
        await self._limiter.flush(io)

    def _note(self, change: float, *, unsent: bool) -> None:
        if self.is_settled:
            return
        self.is_settled = True
        if change or unsent:
            self._limiter.note(Settle(self._taken, change, unsent, self._epoch))


class _Entry:
    """A request that waits for its permit."""

    __slots__ = ("channel", "permit", "tokens")

    def __init__(self, tokens: float) -> None:
        self.tokens = tokens
        self.permit: Permit | None = None
        self.channel: Channel | None = None

    def wake(self) -> None:
        if self.channel is not None:
            self.channel.put("look")


class QuotaLimiter(BaseRateLimiter):
    """Allows requests within limits: in memory, or together with other processes."""

    takes_reservations: ClassVar[bool] = True

    def __init__(
        self,
        rules: Rules,
        *,
        max_wait: float | None = None,
        learn: bool = True,
        reserve_max_tokens: bool = False,
    ) -> None:
        self.rules = rules
        self.max_wait = max_wait
        """The maximum of seconds that a request waits before `RateLimitError`."""
        self.learn = learn
        """Whether to respect the provider's rate-limit headers."""
        self.reserve_max_tokens = reserve_max_tokens
        """Whether a request reserves its max_tokens, as some providers count it, instead of the expected output."""
        self.expected_output: float = INITIAL_OUTPUT
        """The expected tokens of the next answer."""
        self._name = uuid4().hex[:12]
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = mutex()
        self._entries: dict[_Entry, None] = {}
        self._is_asking = False
        self._asked_at = -STUCK_AFTER
        self._notes: list[Operation] = []

    # -- implemented by a store

    @abstractmethod
    def _apply(self, operations: Sequence[Operation]) -> Reply:
        """Apply operations atomically; may wait for other processes, unless it `_is_quick`."""

    _is_quick: bool = False

    @property
    def _caller(self) -> str:
        return f"{self._name}-{self._pid}"

    # -- waiting

    async def enter(self, io: IO, tokens: float = 0.0, seconds: float | None = None) -> Permit:
        """Wait for a permit, at most `max_wait` or `seconds`, whichever is less; then raise `RateLimitError`."""
        if (refusal := self.rules.refusal(tokens)) is not None:
            raise RateLimitError(refusal)
        if self._pid != os.getpid():
            self._begin()  # a forked child has no waiting requests
        max_seconds = min(
            (limit for limit in (self.max_wait, seconds) if limit is not None), default=None
        )
        end = None if max_seconds is None else time.monotonic() + max_seconds
        entry = _Entry(tokens)
        with self._lock:
            self._entries[entry] = None
        try:
            while True:
                wait = await self._ask(entry, io)
                if entry.permit is not None:
                    return entry.permit
                await self._sleep(entry, wait, end, io)
                if entry.permit is not None:
                    return entry.permit
        except RateLimitError:
            self._give_up(entry)
            await self.flush(io)
            raise
        except BaseException:
            self._give_up(entry)
            raise

    async def _sleep(self, entry: _Entry, wait: float, end: float | None, io: IO) -> None:
        if entry.channel is None:
            entry.channel = io.channel()
        is_first = next(iter(self._entries), None) is entry
        poll = min(MAX_POLL, self.rules.poll) if is_first else STUCK_AFTER
        pause = max(MIN_POLL, min(wait, poll) if is_first else poll)
        if end is not None:
            remaining = end - time.monotonic()
            # Tokens may be returned before that; requests are not.
            is_sure = is_first and wait > remaining and not self.rules.counts_tokens
            if remaining <= 0 or is_sure:
                raise RateLimitError(
                    f"the rate limit leaves no room for this request for another {max(wait, 0):.3g} s, and it may "
                    f"wait {max(remaining, 0):.3g} s more: raise max_wait, or send less",
                    wait=wait,
                )
            pause = min(pause, remaining)
        if entry.permit is None:
            await entry.channel.get_within(pause)

    def _give_up(self, entry: _Entry) -> None:
        with self._lock:
            was_first = next(iter(self._entries), None) is entry
            self._entries.pop(entry, None)
            if not self._entries:
                self._notes.append(Leave())
        if entry.permit is not None:
            entry.permit.cancel()
        if was_first:
            self._wake_first()

    def _wake_first(self) -> None:
        with self._lock:
            first = next(iter(self._entries), None)
        if first is not None:
            first.wake()

    async def _ask(self, entry: _Entry, io: IO) -> float:
        """Ask the store for the first requests in the queue; return the seconds until the next poll."""
        with self._lock:
            is_first = next(iter(self._entries), None) is entry
            is_stuck = time.monotonic() - self._asked_at > STUCK_AFTER
            if self._is_asking and not is_stuck:
                return MAX_POLL  # its answer may be for this one, too
            if not is_first and not is_stuck:
                return STUCK_AFTER  # the first one asks for it, or wakes it when it is its turn
            self._is_asking = True
        try:
            return await self._serve(entry, io)
        finally:
            with self._lock:
                self._is_asking = False
            if entry.permit is not None or entry not in self._entries:
                self._wake_first()

    async def _serve(self, entry: _Entry, io: IO) -> float:
        while entry.permit is None:
            with self._lock:
                self._asked_at = time.monotonic()
                entries = list(islice(self._entries, BATCH))
                notes, self._notes = self._notes, []
            take = Take([waiting.tokens for waiting in entries])
            # A wish to leave the queue is outdated: this call waits in it again.
            notes = [note for note in notes if not isinstance(note, Leave)]
            reply = await self._send([*_aged(notes), take], io)
            self._assign_permits(reply, self._asked_at)
            if not reply.taken:
                return reply.wait
        return 0.0

    def _assign_permits(self, reply: Reply, asked_at: float) -> None:
        for tokens, taken in reply.taken:
            permit = Permit(self, tokens, taken, reply.epoch, asked_at)
            with self._lock:
                first = next(iter(self._entries), None)
                if first is not None:
                    del self._entries[first]
                    first.permit = permit
            if first is None:  # the waiting request was cancelled
                permit.cancel()
            else:
                first.wake()

    async def _send(self, operations: Sequence[Operation], io: IO) -> Reply:
        try:
            if self._is_quick:
                return self._apply(operations)
            reply: Reply = await io.call(self._apply, operations)
        except StoreError:
            with self._lock:  # sent again with the next call
                unsent = [
                    operation for operation in operations if isinstance(operation, Settle | Learn)
                ]
                self._notes[:0] = unsent[-MAX_NOTES:]
            raise
        return reply

    # -- after a request

    def note(self, operation: Operation) -> None:
        """Queue an operation for the next call of the store."""
        with self._lock:
            self._notes.append(operation)

    async def flush(self, io: IO) -> None:
        """Send queued operations to the store; a store that does not answer does not fail the model call."""
        with self._lock:
            first = next(iter(self._entries), None)
            notes: list[Operation] = []
            if first is None and not self._is_asking:
                notes, self._notes = self._notes, []
        if first is not None:
            first.wake()  # returned tokens may be enough for it
        if not notes:
            return
        try:
            await self._send(_aged(notes), io)
        except FoldlineError:
            logger.warning("a rate limiter could not be told what a request used", exc_info=True)

    def observe(
        self, headers: Mapping[str, str], *, status: int = 200, retry_after: float | None = None
    ) -> None:
        """Adapt to a provider's answer: its remaining quota, and how long to wait."""
        if not self.learn:
            return
        hold = min(retry_after or 0.0, MAX_HOLD) if status in SLOW_DOWN_STATUSES else 0.0
        caps = read_caps(headers)
        if caps or hold > 0:
            self.note(Learn(caps, hold, time.monotonic()))

    def estimate(self, input_tokens: int, max_tokens: int | None) -> float:
        """Return the expected tokens of a request: its input and the likely output."""
        expected = self.expected_output
        if max_tokens is not None:
            expected = max_tokens if self.reserve_max_tokens else min(expected, max_tokens)
        # Output beyond the limit is capped, so that the request waits for the full quota; a larger prompt never fits.
        return max(float(input_tokens), min(input_tokens + expected, self.rules.most_tokens))

    def observe_answer(self, output_tokens: int) -> None:
        """Update the expected tokens of the next answer."""
        self.expected_output += WEIGHT * (output_tokens - self.expected_output)

    # -- public

    def acquire(self, *, blocking: bool = True) -> bool:
        """Acquire permission for one request; with `blocking=False` return immediately whether there is one."""
        return drive(self._acquire(BLOCKING, wait=blocking))

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Acquire permission for one request; with `blocking=False` return immediately whether there is one."""
        return await self._acquire(ASYNC, wait=blocking)

    async def _acquire(self, io: IO, *, wait: bool) -> bool:
        if wait:
            await self.enter(io)
            return True
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            if self._entries:  # it would overtake them
                return False
            notes, self._notes = self._notes, []
        reply = await self._send([*_aged(notes), Take([0.0], waits=False)], io)
        return bool(reply.taken)

    @contextmanager
    def reserve(self, tokens: float = 0.0) -> Generator[Permit, None, None]:
        """Wait for permission to send a request of about this many tokens; call `settle` inside the block."""
        permit = drive(self.enter(BLOCKING, tokens))
        try:
            yield permit
        finally:
            drive(permit.settle_now(None, BLOCKING))

    @asynccontextmanager
    async def areserve(self, tokens: float = 0.0) -> AsyncGenerator[Permit, None]:
        """Wait for permission to send a request of about this many tokens; call `settle` inside the block."""
        permit = await self.enter(ASYNC, tokens)
        try:
            yield permit
        finally:
            await permit.settle_now(None, ASYNC)


def _aged(notes: Sequence[Operation]) -> list[Operation]:
    """Return operations with the times of `Learn` reduced by their age."""
    return [note.aged(time.monotonic()) if isinstance(note, Learn) else note for note in notes]
