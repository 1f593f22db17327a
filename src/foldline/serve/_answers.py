"""Continuing a run: each question is answered once, on every wire.

An answer is claimed in the run log, in the transaction that writes the run it starts; this stands in front of the
check that the app's own checkpointer makes. Who repeats an answer gets the run that it started; who sends another one
gets an error.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from foldline.exceptions import UsageError
from foldline.serve._keys import Caller
from foldline.serve._live_runs import LiveRun
from foldline.serve._log.answers import CONTINUED, Claim, Refusal
from foldline.serve._log.events import EncodedEvent, Events
from foldline.serve._log.records import RunRecord
from foldline.serve._log.requests import Repeat
from foldline.serve._run_host import RunHost
from foldline.serve.apps import RunRequest
from foldline.serve.errors import ServeError, failure_of
from foldline.workflows.interrupts import Command, Interrupt, answers_for

__all__ = ["AnyRun", "LoggedRun", "claims_of", "earlier_run", "repeated_run", "stored_answers"]


class LoggedRun:
    """A run that an earlier request started: it is read from the log, and goes on when this client leaves."""

    is_ending = True

    def __init__(self, host: RunHost, info: RunRecord) -> None:
        self.info = info
        self.forgets = False
        """The first request has decided whether the run is deleted."""
        self._host = host

    @property
    def is_over(self) -> bool:
        """Whether its end is in the log."""
        return self.info.is_over

    @property
    def output(self) -> object:
        """The output as JSON, after its end."""
        return (self.info.result or {}).get("output")

    async def follow(self, after: int, ping: float | None) -> AsyncGenerator[Events, None]:
        """Yield its events."""
        async with aclosing(self._host.follow(self.info.id, after, ping=ping)) as batches:
            async for batch in batches:
                yield batch
        await self._refresh()

    async def all_events(self) -> list[EncodedEvent]:
        """Return all its events."""
        return [event async for batch in self.follow(0, None) for _, event in batch]

    async def wait_for_end(self) -> None:
        """Wait until the end is in the log."""
        async for _ in self.follow(self.info.last_seq, None):
            pass

    async def _refresh(self) -> None:
        """Read how it ended, into the record that others have, too."""
        end = await self._host.read(self.info.id)
        if end is not None:
            self.info.status, self.info.finished = end.status, end.finished
            self.info.last_seq, self.info.result = end.last_seq, end.result


AnyRun: TypeAlias = LiveRun | LoggedRun


def claims_of(asking_run: RunRecord, request: RunRequest) -> list[Claim]:
    """Return what a request claims of the run that it continues; raise `ServeError` if it fits no open question.

    The command of the request gets the ids of the questions, so that it cannot answer others.
    """
    command = request.command
    if command is None:
        return [Claim(CONTINUED, "null")]
    questions = [Interrupt(item["payload"], item["interrupt_id"]) for item in asking_run.questions]
    if not questions:  # it failed after an answer, or is of an older version: the app decides
        return [Claim(CONTINUED, _dump(command.resume))]
    try:
        answers = answers_for(command.resume, questions)
    except UsageError as error:
        raise failure_of(error) from error
    request.command = Command(resume=answers, update=command.update, goto=command.goto)
    return [Claim(question, _dump(answer)) for question, answer in answers.items()]


async def stored_answers(host: RunHost, run: RunRecord) -> Command[object] | None:
    """Return the answers that started a run, for one that continues it; None where it had none."""
    answers = await host.call(host.log.answers, run.id)
    values = {each.question: json.loads(each.answer) for each in answers}
    if CONTINUED in values:  # it went on with the answers of a run before it, or with none
        resume = values[CONTINUED]
        return Command(resume=resume) if resume is not None else None
    return Command(resume=values) if values else None


async def earlier_run(
    host: RunHost, caller: Caller, claims: list[Claim], refusal: Refusal
) -> LoggedRun:
    """Return the run that equal answers started; raise `ServeError` if the answers differ."""
    taken = {answer.question: answer.answer for answer in refusal.answers}
    runs = {answer.run for answer in refusal.answers}
    if taken == {claim.question: claim.answer for claim in claims} and len(runs) == 1:
        return LoggedRun(host, await host.find(caller, runs.pop()))
    if taken:
        raise ServeError(
            "conflict",
            f"it was answered before, with another answer: see the run {refusal.last}",
            code="already_answered",
        )
    raise ServeError(
        "conflict",
        f"another run has continued this one: answer or resume {refusal.last}, the last of them",
        code="continued",
    )


async def repeated_run(host: RunHost, caller: Caller, repeat: Repeat) -> LoggedRun:
    """Return the run that an equal request started; raise `ServeError` if the requests differ."""
    if not repeat.is_equal:
        raise ServeError(
            "conflict",
            f"another request had this Idempotency-Key, and started the run {repeat.run}: use a new key",
            code="idempotency_mismatch",
        )
    return LoggedRun(host, await host.find(caller, repeat.run))


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
