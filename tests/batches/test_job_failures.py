"""Failures, budgets, cancellation and readers that stop early; and how a job shows its progress."""

from __future__ import annotations

import io
import sys
import time

import pytest

from foldline.exceptions import BudgetExceeded, ModelAPIError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.language_models._call.policies.usage_scope import Limits
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.rate_limiters import InMemoryRateLimiter
from foldline.runnables import RunnableLambda
from foldline.utils import progress as display
from tests.batches.jobs import chain, outputs


def test_an_error_that_may_pass_is_asked_again_and_one_that_may_not_is_not(call):
    calls = []

    def answer(text):
        calls.append(text)
        if text == "busy" and calls.count("busy") < 3:
            raise ModelAPIError("busy", status=500)
        if text == "never":
            raise ModelAPIError("never", status=500)
        if text == "wrong":
            raise ValueError("wrong")
        return text

    results = outputs(
        call, RunnableLambda(answer).batch_job(["fine", "busy", "wrong", "never"], max_attempts=3)
    )
    assert results["0"] == "fine"
    assert results["1"] == "busy"
    assert results["2"] == "ValueError: wrong"
    assert "never" in results["3"]
    assert calls.count("wrong") == 1
    assert calls.count("never") == 3


def test_what_failed_can_be_asked_again(store):
    broken = [True]

    def answer(text):
        if broken[0] and text == "b":
            raise ValueError("broken")
        return text

    job = RunnableLambda(answer).batch_job(["a", "b"], store=store)
    assert job.run().failed == 1
    broken[0] = False
    job.retry_failed()
    report = job.run()
    assert (report.done, report.failed) == (2, 0)


def priced(answers):
    usage = {"input_tokens": 0, "output_tokens": 1_000_000, "total_tokens": 1_000_000}
    return GenericFakeChatModel(
        messages=iter([AIMessage("hi", usage_metadata=usage)] * answers),
        profile={"prices": {"input": 1.0, "output": 1.0}},
    )


def test_a_budget_stops_the_job_and_a_higher_one_goes_on(call, store):
    job = priced(100).batch_job([f"q{n}" for n in range(10)], store=store, budget=Limits(cost=4.2))
    with pytest.raises(BudgetExceeded, match="stopped before its budget is passed"):
        call.run(job, "run")
    report = job.report()
    assert report.done == 4
    assert report.cost == pytest.approx(4.0, abs=0.01)
    assert report.waiting == 6

    more = priced(100).batch_job(None, store=store, budget=Limits(cost=100))
    assert call.run(more, "run").done == 10
    assert more.report().cost == pytest.approx(10, abs=0.01)


def test_a_rate_limiter_paces_the_calls():
    model = FakeListChatModel(responses=["x"])
    limiter = InMemoryRateLimiter(
        requests_per_second=20, check_every_n_seconds=0.005, max_bucket_size=1
    )
    start = time.monotonic()
    assert model.batch_job(["a", "b", "c", "d"], rate_limiter=limiter).run().done == 4
    assert time.monotonic() - start > 0.12


# -- progress


def test_progress_is_shown_to_a_function(call):
    reports = []
    call.run(chain().batch_job(["a", "b"], progress=reports.append), "run")
    assert reports[-1].finished == 2
    with pytest.raises(UsageError, match="True, or a function of the report"):
        chain().batch_job(["a"], progress="yes")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_progress_is_lines_where_there_is_no_terminal_and_a_bar_where_there_is(
    call, monkeypatch, stream
):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(display, "LINE_PERIOD", 0.0)

    def answer(text):
        if text == "b":
            raise ValueError("no")
        return text

    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    model = GenericFakeChatModel(messages=iter([AIMessage("hi", usage_metadata=usage)] * 4))
    call.run(
        (model | RunnableLambda(lambda _: answer("b"))).batch_job(["a", "c"], progress=True), "run"
    )
    text = sys.stderr.getvalue()
    assert "2/2" in text
    assert "2 failed" in text
    assert "10 tokens" in text
    assert ("\x1b[" in text) is (stream is Terminal)


def test_a_stream_that_is_closed_ends_the_display_and_not_the_job(call, monkeypatch):
    closed_stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", closed_stream)
    monkeypatch.setattr(display, "LINE_PERIOD", 0.0)
    job = RunnableLambda(lambda text: closed_stream.close() or text).batch_job(
        ["a", "b"], progress=True
    )
    assert call.run(job, "run").done == 2


# -- readers that wait, and readers that leave


def test_calls_are_made_at_once_where_they_wait(call):
    start = time.monotonic()
    job = RunnableLambda(lambda text: time.sleep(0.2)).batch_job(
        [str(n) for n in range(16)], max_concurrency=16
    )
    call.run(job, "run")
    assert time.monotonic() - start < 1.6


def test_who_stops_reading_loses_nothing(call, store):
    job = RunnableLambda(lambda text: time.sleep(0.01) or text).batch_job(
        [str(n) for n in range(40)], store=store, max_concurrency=4
    )
    reading = job.results()
    first = [next(reading).key for _ in range(3)]
    reading.close()
    assert len(first) == 3
    report = job.report()
    assert report.done >= 3
    second_job = RunnableLambda(lambda text: time.sleep(0.01) or text).batch_job(None, store=store)
    assert second_job.report().items >= report.done
    keys = {result.key for result in job.results()}
    assert keys == {str(n) for n in range(40)}
    assert job.report().repeated_calls == 0


@pytest.mark.slow
def test_a_cancelled_job_ends_and_goes_on_when_it_is_told_to(store):
    job = RunnableLambda(lambda text: time.sleep(0.02) or text).batch_job(
        [str(n) for n in range(400)], store=store, max_concurrency=2
    )
    reading = job.results()
    next(reading)
    job.cancel()
    others = list(reading)
    report = job.report()
    assert len(others) + 1 == report.done < 400
    assert report.done + report.cancelled == report.items
    job.retry_failed()
    assert job.run().done == 400
