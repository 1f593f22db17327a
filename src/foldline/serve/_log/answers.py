"""Answers in the run log: each question is answered once, and a run that continues another knows it.

An answer is claimed by a row of `serve_answers`, which is written in the transaction that writes the run it starts. The
tables are a kind of their own: workers of the previous version, which do not know them, may use the same log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from foldline._storage.database import Connection
from foldline._storage.schema import Schema
from foldline.serve._log.records import RunRecord

__all__ = [
    "CONTINUED",
    "SCHEMA",
    "Claim",
    "Refusal",
    "StoredAnswer",
    "answers_of",
    "claim_answers",
    "delete_answers",
    "last_of_chain",
    "release_answers",
]

SCHEMA: Final = Schema(
    kind="serve_answers",
    tables=("serve_answers", "serve_chains"),
    create="""
    CREATE TABLE serve_answers (
        root TEXT NOT NULL, question TEXT NOT NULL, asked TEXT NOT NULL, answer TEXT NOT NULL, run TEXT NOT NULL,
        worker TEXT NOT NULL, created {real} NOT NULL, PRIMARY KEY (root, question, asked)
    );
    CREATE INDEX serve_answers_by_run ON serve_answers (run);
    CREATE INDEX serve_answers_by_asked ON serve_answers (asked);
    CREATE TABLE serve_chains (run TEXT PRIMARY KEY, resumes TEXT NOT NULL, root TEXT NOT NULL);
    CREATE INDEX serve_chains_by_resumed ON serve_chains (resumes);
    CREATE INDEX serve_chains_by_root ON serve_chains (root)
    """,
)
"""`asked` is the run that asked, which ends with one stop; `root` is the first run of a chain of runs."""
ADD_ANSWER: Final = (
    "INSERT INTO serve_answers (root, question, asked, answer, run, worker, created) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
ANSWER: Final = (
    "SELECT question, answer, run FROM serve_answers WHERE root = ? AND question = ? AND asked = ?"
)
ANSWERS: Final = "SELECT question, answer, run FROM serve_answers WHERE run = ? ORDER BY question"
ADD_LINK: Final = "INSERT INTO serve_chains (run, resumes, root) VALUES (?, ?, ?)"
NEXT: Final = "SELECT run FROM serve_chains WHERE resumes = ?"
CONTINUED: Final = ""
"""The question of a claim to continue a run without an answer."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a question, as JSON; `CONTINUED` is the question of a run that goes on without one."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class StoredAnswer(Claim):
    """An answer that was claimed, and the run that it started."""

    run: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a run could not continue another: the answers that others have claimed, and the last run of the chain."""

    answers: list[StoredAnswer]
    last: str


def claim_answers(connection: Connection, run: RunRecord, claims: list[Claim]) -> Refusal | None:
    """Claim the questions of the run that `run` resumes; return why not, and then nothing is written."""
    resumed, root = str(run.resumes), run.root
    stored: list[StoredAnswer] = []
    # In one order everywhere: no two transactions wait for each other.
    for claim in sorted(claims, key=lambda claim: claim.question):
        key = (root, claim.question, resumed)
        values = (*key, claim.answer, run.id, run.worker, run.created)
        if not connection.run(ADD_ANSWER, values):
            stored += [StoredAnswer(*row) for row in connection.rows(ANSWER, key)]
    last = last_of_chain(connection, resumed)
    if last == run.id and all(answer.run == run.id for answer in stored):
        return None  # a repeat of a transaction of which only the reply was lost
    if stored or last != resumed:
        release_answers(connection, run.id)
        return Refusal(stored, last)
    connection.run(ADD_LINK, (run.id, resumed, root))
    return None


def answers_of(connection: Connection, run: str) -> list[StoredAnswer]:
    """Return the answers that started a run."""
    return [StoredAnswer(*row) for row in connection.rows(ANSWERS, (run,))]


def release_answers(connection: Connection, run: str) -> None:
    """Give back what a run has claimed: it continued nothing."""
    connection.run("DELETE FROM serve_answers WHERE run = ?", (run,))
    connection.run("DELETE FROM serve_chains WHERE run = ?", (run,))


def delete_answers(connection: Connection, runs: Sequence[Sequence[object]]) -> None:
    """Delete what is stored of runs, each a row with its id: their own answers, and those to their questions."""
    connection.each("DELETE FROM serve_answers WHERE run = ?", runs)
    connection.each("DELETE FROM serve_answers WHERE asked = ?", runs)
    connection.each("DELETE FROM serve_chains WHERE run = ?", runs)


def last_of_chain(connection: Connection, run: str) -> str:
    """Return the run that continued a run last; the run itself where none did."""
    seen = {run}
    while rows := connection.rows(NEXT, (run,)):
        run = str(rows[0][0])
        if run in seen:
            return run
        seen.add(run)
    return run
