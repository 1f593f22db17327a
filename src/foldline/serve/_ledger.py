"""`KeyLedgers`: the budget and the tokens per minute of keys, held and settled for every single model call.

A run of a key with such limits has a usage scope with a ledger, which reaches the models of agents, graphs, chains and
flows through a context variable. Its accounts are in the run log, so they hold for all workers, and over their ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final
from uuid import uuid4

from foldline._io import ASYNC, mutex, shield
from foldline._io.deadline import call_deadline
from foldline._io.serving import Workers
from foldline._storage.database import Connection
from foldline.language_models._call.policies.spending import was_sent
from foldline.language_models._call.policies.usage_scope import SCOPE, Due, Limits, UsageScope
from foldline.serve._keys import ApiKey
from foldline.serve._log.holds import (
    COST,
    TOKENS,
    Hold,
    Used,
    add_hold,
    lock_key,
    read_used,
    seconds_until_free,
    settle_hold,
)
from foldline.serve._log.run_log import ServerLog
from foldline.serve.errors import KeyLimitError, ServeError

__all__ = ["KeyLedger", "KeyLedgers"]

logger = logging.getLogger("foldline.serve")

ROUNDING: Final = 1e-9
"""The relative error of adding up many small amounts."""
POLL: Final = 0.1
"""Seconds between two tries to hold the estimate of a request."""
KEPT_SCOPES: Final = 10_000
"""Of how many keys and apps the longest answer is known."""


class KeyLedger:
    """The account of a key, for the model calls of one run."""

    def __init__(
        self, log: ServerLog, key: ApiKey, *, app: str, run: str, queue_seconds: float
    ) -> None:
        self._log = log
        self._key = key
        self._app = app
        self._run = run
        self._queue_seconds = queue_seconds

    def reserve(self, tokens: int, cost: float | None) -> Hold:
        """Hold the estimate of a call; raise `KeyLimitError` where it does not fit the limits of the key."""
        key = self._key
        if key.budget is not None and cost is None:
            raise KeyLimitError(
                ServeError(
                    "permission",
                    f"this key has a budget, and the prices of what {self._app!r} uses are not known: the server "
                    "needs them",
                )
            )
        hold = Hold(
            uuid4().hex,
            tokens if key.tpm is not None else None,
            cost if key.budget is not None else None,
        )
        # The events of the run are written later, and wait for the disk: a power failure loses them all or none.
        refusal = self._log.database.write(partial(self._try_hold, hold), is_durable=False)
        if refusal is not None:
            raise refusal
        return hold

    def _try_hold(self, hold: Hold, connection: Connection) -> KeyLimitError | None:
        key, now = self._key, int(time.time())
        lock_key(connection, key.id)
        used = read_used(connection, key.id, now, without=hold)
        refusal = self._check_budget(hold, used[COST]) or self._check_tokens(
            connection, hold, used[TOKENS], now
        )
        if refusal is None:
            add_hold(connection, key, hold, worker=self._log.worker, run=self._run, now=now)
        else:  # it may be there: the reply to this transaction was lost, and it is repeated
            settle_hold(connection, hold, tokens=0.0, cost=0.0, now=now)
        return refusal

    def _check_budget(self, hold: Hold, used: Used) -> KeyLimitError | None:
        limit, cost = self._key.budget, hold.cost
        if limit is None or cost is None or used.total + cost <= limit * (1 + ROUNDING):
            return None
        text = f"this key's budget of {limit:g} dollars a day "
        if used.settled >= limit:
            text += f"is used up ({used.settled:.4f} spent): it is free again at midnight UTC"
        else:
            text += (
                f"has no room for this call, which may cost {cost:.4f} ({used.settled:.4f} spent, {used.held:.4f} "
                "held by calls under way): set max_tokens, or try again at midnight UTC"
            )
        failure = ServeError("budget", text, code="budget_exceeded")
        is_short = used.settled + cost > limit * (1 + ROUNDING)
        return KeyLimitError(failure, patience=0.0 if is_short else self._queue_seconds)

    def _check_tokens(
        self, connection: Connection, hold: Hold, used: Used, now: int
    ) -> KeyLimitError | None:
        limit, tokens = self._key.tpm, hold.tokens
        if limit is None or tokens is None or used.total + tokens <= limit:
            return None
        if tokens > limit:
            text = (
                f"about {tokens:.0f} tokens never fit this key's {limit} tokens per minute: send less, or set "
                "max_tokens"
            )
            return KeyLimitError(ServeError("invalid_request", text))
        excess = used.total + tokens - limit
        wait = seconds_until_free(connection, self._key.id, excess=excess, now=now)
        text = f"this key may use {limit} tokens per minute: try again in {wait:.0f} s"
        failure = ServeError("rate_limit", text, retry_after=wait)
        return KeyLimitError(failure, patience=self._queue_seconds)

    def settle(self, hold: Hold, tokens: float | None, cost: float | None) -> None:
        """Replace a hold by what the call took."""

        def work(connection: Connection) -> None:
            settle_hold(connection, hold, tokens=tokens, cost=cost, now=int(time.time()))

        self._log.database.write(work, is_durable=False)


class KeyLedgers:
    """The accounts of all keys, and the usage scopes of their runs."""

    def __init__(self, log: ServerLog, queue_seconds: float) -> None:
        self._log = log
        self._queue_seconds = queue_seconds
        self._answers: dict[tuple[str, str], UsageScope] = {}
        """A key and an app -> the scope around all their runs, which knows their longest answer."""
        self._unsettled: list[UsageScope] = []
        """Scopes of runs that have ended while the log could not be written."""
        # Threads of their own: no reader and no blocking tool keeps a hold from being settled.
        self._threads = Workers(2, "foldline-serve-ledger")

    def ledger(self, key: ApiKey | None, app: str, run: str) -> KeyLedger | None:
        """Return the account of a key; None where it has neither a budget nor tokens per minute."""
        if key is None or not key.has_account:
            return None
        return KeyLedger(self._log, key, app=app, run=run, queue_seconds=self._queue_seconds)

    @asynccontextmanager
    async def scope(
        self, key: ApiKey | None, app: str, run: str, limits: Limits
    ) -> AsyncGenerator[UsageScope, None]:
        """Count what the model calls of a run take, within the limits of its key."""
        ledger = self.ledger(key, app, run)
        parent = self._answers_of(key, app) if key is not None and ledger is not None else None
        scope = UsageScope(limits, parent, ledger=ledger)
        token = SCOPE.set(scope)
        try:
            with call_deadline(limits.timeout):
                yield scope
        finally:
            SCOPE.reset(token)
            scope.is_over = True  # first: a call that ends meanwhile settles itself
            if scope.dues:
                await shield(self._settle(scope))

    @asynccontextmanager
    async def request(
        self, key: ApiKey | None, app: str, tokens: int, cost: float | None
    ) -> AsyncGenerator[None, None]:
        """Hold the estimate of a request that is no model call, and settle it however it ends: for embeddings."""
        ledger = self.ledger(key, app, "")
        if ledger is None:
            yield
            return
        scope = UsageScope(ledger=ledger)
        hold = await self._hold(ledger, tokens, cost)
        due = Due(ledger, hold, None, None)
        try:
            yield
        except BaseException as error:
            if not was_sent(error):
                due = Due(ledger, hold, 0, 0.0)
            raise
        finally:
            scope.dues.append(due)
            await shield(self._settle(scope))

    async def _hold(self, ledger: KeyLedger, tokens: int, cost: float | None) -> Hold:
        start, taking = time.monotonic(), _Taking(ledger)
        while True:
            try:
                hold: Hold = await self.call(taking.take, tokens, cost)
                return hold
            except KeyLimitError as error:
                remaining = error.patience - (time.monotonic() - start)
                if remaining <= 0:
                    raise
                await ASYNC.sleep(min(POLL, remaining))
            except BaseException:
                await shield(self.call(taking.leave))
                raise

    def _answers_of(self, key: ApiKey, app: str) -> UsageScope:
        if len(self._answers) >= KEPT_SCOPES:
            self._answers.clear()
        return self._answers.setdefault((key.id, app), UsageScope())

    async def _settle(self, scope: UsageScope) -> None:
        try:
            await self.call(scope.settle_dues)
        except Exception as error:  # noqa: BLE001  a run has ended with its own outcome; it is settled later
            logger.warning("what a run took could not be settled, and will be later: %s", error)
            self._unsettled.append(scope)

    async def settle_late(self) -> None:
        """Settle what could not be settled when its run ended."""
        scopes, self._unsettled = self._unsettled, []
        for scope in scopes:
            await self._settle(scope)

    async def call(self, function: Callable[..., Any], *values: Any) -> Any:  # noqa: ANN401  the result of the function
        """Call a blocking function in a thread."""
        return await self._threads.call(function, *values)

    def close(self) -> None:
        """End the threads."""
        self._threads.close()


class _Taking:
    """Takes a hold in a thread; one that comes after its caller was cancelled is given back."""

    def __init__(self, ledger: KeyLedger) -> None:
        self._ledger = ledger
        self._lock: AbstractContextManager[Any] = mutex()
        self._has_left = False
        self._hold: Hold | None = None

    def take(self, tokens: int, cost: float | None) -> Hold:
        hold = self._ledger.reserve(tokens, cost)
        with self._lock:
            has_left, self._hold = self._has_left, hold
        if has_left:
            self._ledger.settle(hold, 0, 0.0)
        return hold

    def leave(self) -> None:
        with self._lock:
            self._has_left, hold = True, self._hold
        if hold is not None:
            self._ledger.settle(hold, 0, 0.0)
