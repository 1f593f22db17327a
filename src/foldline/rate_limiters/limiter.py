"""`QuotaLimiter`: the body of every limiter of ours. A request reserves before it is sent and settles after.

Requests of one process wait in a line of their own. Its first one asks the store for itself and for those behind it;
the store has a line of processes. Nobody holds anything while they sleep: where the first one is stuck (a blocked event
loop), one from behind asks in its place.
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
from foldline.rate_limiters.base import BaseRateLimiter
from foldline.rate_limiters.headers import read_caps
from foldline.rate_limiters.quotas import Rules
from foldline.rate_limiters.state import Learn, Leave, Operation, Reply, Settle, Take, Taken
from foldline.utils.short_repr import short_repr

__all__ = ["Permit", "QuotaLimiter"]

logger: logging.Logger = logging.getLogger("foldline.rate_limiters")

BATCH: Final = 16
"""Requests that are asked for at once; another process has its turn after them."""
LONGEST_LOOK: Final = 0.25
"""Seconds between two looks of the first one in the line."""
SHORTEST_LOOK: Final = 0.001
BEHIND: Final = 5.0
"""Seconds after which one from behind asks in the place of a first one that does not."""
FIRST_ANSWER: Final = 500.0
"""Tokens that an answer is taken to have before one was seen."""
WEIGHT: Final = 0.2
"""How much the newest answer counts in what the next is taken to have."""
LONGEST_HOLD: Final = 3600.0
"""Seconds that a provider may stop everybody for."""
MOST_NOTES: Final = 1000
"""What is kept for a store that does not answer."""
SLOW_DOWN: Final = frozenset({429, 503, 529})


class Permit:
    """Leave to send one request; `settle` says what it really used."""

    __repr__ = short_repr

    __slots__ = ("_epoch", "_limiter", "_taken", "asked_at", "is_settled", "tokens")

    def __init__(
        self, limiter: QuotaLimiter, tokens: float, taken: Taken, epoch: str, asked_at: float
    ) -> None:
        self._limiter = limiter
        self._taken = taken
        self._epoch = epoch
        self.tokens: float = tokens
        """What was reserved."""
        self.asked_at: float = asked_at
        """When it was asked for, by the monotonic clock: it is counted from then on, or a little later."""
        self.is_settled: bool = False

    def settle(self, tokens: float | None = None) -> None:
        """Say how many tokens it was; None keeps what was reserved. The store hears of it with the next request."""
        self._note(0.0 if tokens is None else tokens - self.tokens, unsent=False)

    def cancel(self) -> None:
        """Give it back: nothing was sent."""
        self._note(-self.tokens, unsent=True)

    async def settle_now(self, tokens: float | None, io: IO) -> None:
        """Say how many tokens it was, and let the store know."""
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
    """Lets requests through as the limits allow: in memory, or together with other processes."""

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
        """Seconds that a request waits at most; then `RateLimitError`."""
        self.learn = learn
        """Whether rate-limit headers of the provider are heeded."""
        self.reserve_max_tokens = reserve_max_tokens
        """Whether a request reserves all it may answer, as some providers count it, and not what it likely will."""
        self.expected_output: float = FIRST_ANSWER
        """Tokens that the next answer is taken to have."""
        self._name = uuid4().hex[:12]
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = mutex()
        self._entries: dict[_Entry, None] = {}
        self._is_asking = False
        self._asked_at = -BEHIND
        self._notes: list[Operation] = []

    # -- what a store writes

    @abstractmethod
    def _apply(self, operations: Sequence[Operation]) -> Reply:
        """Do what is asked, as a whole; it may wait for other processes, unless it `_is_quick`."""

    _is_quick: bool = False

    @property
    def _caller(self) -> str:
        return f"{self._name}-{self._pid}"

    # -- waiting

    async def enter(self, io: IO, tokens: float = 0.0, seconds: float | None = None) -> Permit:
        """Wait for a permit, `max_wait` seconds at most, or `seconds` where that is less; then `RateLimitError`."""
        if (refusal := self.rules.refusal(tokens)) is not None:
            raise RateLimitError(refusal)
        if self._pid != os.getpid():
            self._begin()  # nobody waits in a child that was forked
        patience = min((one for one in (self.max_wait, seconds) if one is not None), default=None)
        end = None if patience is None else time.monotonic() + patience
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
        look = min(LONGEST_LOOK, self.rules.look) if is_first else BEHIND
        pause = max(SHORTEST_LOOK, min(wait, look) if is_first else look)
        if end is not None:
            left = end - time.monotonic()
            # Tokens may be given back before that; requests are not.
            is_sure = is_first and wait > left and not self.rules.counts_tokens
            if left <= 0 or is_sure:
                raise RateLimitError(
                    f"the rate limit leaves no room for this request for another {max(wait, 0):.3g} s, and it may "
                    f"wait {max(left, 0):.3g} s more: raise max_wait, or send less",
                    wait=wait,
                )
            pause = min(pause, left)
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
        """Ask the store for the first ones in the line; return the seconds until it is worth to ask again."""
        with self._lock:
            is_first = next(iter(self._entries), None) is entry
            is_stuck = time.monotonic() - self._asked_at > BEHIND
            if self._is_asking and not is_stuck:
                return LONGEST_LOOK
            if not is_first and not is_stuck:
                return BEHIND
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
                waiting = list(islice(self._entries, BATCH))
                notes, self._notes = self._notes, []
            take = Take([one.tokens for one in waiting])
            notes = [one for one in notes if not isinstance(one, Leave)]
            reply = await self._send([*_aged(notes), take], io)
            self._hand_out(reply, self._asked_at)
            if not reply.taken:
                return reply.wait
        return 0.0

    def _hand_out(self, reply: Reply, asked_at: float) -> None:
        for tokens, taken in reply.taken:
            permit = Permit(self, tokens, taken, reply.epoch, asked_at)
            with self._lock:
                first = next(iter(self._entries), None)
                if first is not None:
                    del self._entries[first]
                    first.permit = permit
            if first is None:  # whoever asked has left
                permit.cancel()
            else:
                first.wake()

    async def _send(self, operations: Sequence[Operation], io: IO) -> Reply:
        try:
            if self._is_quick:
                return self._apply(operations)
            reply: Reply = await io.call(self._apply, operations)
        except StoreError:
            with self._lock:  # told again, once the store answers
                kept = [one for one in operations if isinstance(one, Settle | Learn)]
                self._notes[:0] = kept[-MOST_NOTES:]
            raise
        return reply

    # -- what is told after a request

    def note(self, operation: Operation) -> None:
        """Keep what the store is to hear; it goes with the next thing that it is asked."""
        with self._lock:
            self._notes.append(operation)

    async def flush(self, io: IO) -> None:
        """Let the store hear what was noted; a store that does not answer costs no answer of a model."""
        with self._lock:
            first = next(iter(self._entries), None)
            notes: list[Operation] = []
            if first is None and not self._is_asking:
                notes, self._notes = self._notes, []
        if first is not None:
            first.wake()  # what was given back may be for it
        if not notes:
            return
        try:
            await self._send(_aged(notes), io)
        except FoldlineError:
            logger.warning("a rate limiter could not be told what a request used", exc_info=True)

    def observe(
        self, headers: Mapping[str, str], *, status: int = 200, retry_after: float | None = None
    ) -> None:
        """Heed what a provider's answer says: how much is left, and how long to wait."""
        if not self.learn:
            return
        hold = min(retry_after or 0.0, LONGEST_HOLD) if status in SLOW_DOWN else 0.0
        caps = read_caps(headers)
        if caps or hold > 0:
            self.note(Learn(caps, hold, time.monotonic()))

    def estimate(self, input_tokens: int, max_tokens: int | None) -> float:
        """Return the tokens that a request is taken to use: what it sends, and what is likely answered."""
        expected = self.expected_output
        if max_tokens is not None:
            expected = max_tokens if self.reserve_max_tokens else min(expected, max_tokens)
        # An answer that may be longer than the limit waits until all of it is free; a prompt that is, never fits.
        return max(float(input_tokens), min(input_tokens + expected, self.rules.most_tokens))

    def observe_answer(self, output_tokens: int) -> None:
        """Learn how long answers are."""
        self.expected_output += WEIGHT * (output_tokens - self.expected_output)

    # -- public

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
        return drive(self._acquire(BLOCKING, wait=blocking))

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
        return await self._acquire(ASYNC, wait=blocking)

    async def _acquire(self, io: IO, *, wait: bool) -> bool:
        if wait:
            await self.enter(io)
            return True
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            if self._entries:
                return False
            notes, self._notes = self._notes, []
        reply = await self._send([*_aged(notes), Take([0.0], waits=False)], io)
        return bool(reply.taken)

    @contextmanager
    def reserve(self, tokens: float = 0.0) -> Generator[Permit, None, None]:
        """Wait for leave to send a request of about so many tokens; `settle` it inside the block."""
        permit = drive(self.enter(BLOCKING, tokens))
        try:
            yield permit
        finally:
            drive(permit.settle_now(None, BLOCKING))

    @asynccontextmanager
    async def areserve(self, tokens: float = 0.0) -> AsyncGenerator[Permit, None]:
        """Wait for leave to send a request of about so many tokens; `settle` it inside the block."""
        permit = await self.enter(ASYNC, tokens)
        try:
            yield permit
        finally:
            await permit.settle_now(None, ASYNC)


def _aged(notes: Sequence[Operation]) -> list[Operation]:
    """Return what is told, with what providers said as it stands now: of a minute's wait some may be over."""
    return [one.aged(time.monotonic()) if isinstance(one, Learn) else one for one in notes]
