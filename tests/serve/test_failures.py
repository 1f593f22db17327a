"""Errors of an app, as the client gets them."""

from __future__ import annotations

from foldline.checkpoint.base import ThreadConflictError
from foldline.serve.errors import failure_of


def test_two_runs_of_one_thread_at_once_are_a_conflict_and_not_a_fault_of_the_server():
    failure = failure_of(ThreadConflictError("the thread was continued at /srv/secret.db"))

    assert (failure.kind, failure.status) == ("conflict", 409)
    assert "run one at a time per thread" in failure.message
    assert "secret" not in failure.message
