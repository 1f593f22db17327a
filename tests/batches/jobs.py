"""Shared by tests of jobs: a chain that answers in capitals, and the results of a job by key."""

from __future__ import annotations

from foldline.runnables import RunnableLambda


def shout(text):
    return str(text).upper()


def chain():
    return RunnableLambda(shout)


def outputs(call, job):
    return {
        result.key: result.output if result.error is None else result.error
        for result in call.run(job, "results")
    }
