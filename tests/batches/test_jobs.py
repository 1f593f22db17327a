"""Live jobs: one answer per input, in a file, in PostgreSQL, from embeddings, as classes."""

from __future__ import annotations

import time

import pytest
from pydantic import BaseModel

from foldline.batches._store.job_database import JobDatabase
from foldline.embeddings import Embeddings
from foldline.exceptions import BudgetExceeded, StoreError, UsageError
from foldline.language_models._call.policies.usage_scope import Limits
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.prices import register_prices
from foldline.runnables import RunnableLambda
from tests.batches.jobs import chain, outputs


def test_every_input_has_one_answer(call, store):
    job = chain().batch_job((f"x{n}" for n in range(3000)), store=store)
    assert outputs(call, job) == {str(n): f"X{n}" for n in range(3000)}
    assert (job.report().done, job.report().is_finished) == (3000, True)
    assert [result.output for result in job.answers()][:3] == ["X0", "X1", "X2"]


def test_a_finished_job_gives_its_answers_again_and_asks_nothing(call, store):
    calls = []
    counting = RunnableLambda(lambda text: calls.append(text) or text)
    counting.name = "counted"
    counting.batch_job(["a", "b"], store=store).run()
    assert outputs(call, counting.batch_job(["a", "b"], store=store)) == {"0": "a", "1": "b"}
    assert sorted(calls) == ["a", "b"]


def test_equal_inputs_are_asked_once(call):
    calls = []
    job = RunnableLambda(lambda text: calls.append(text) or text * 2).batch_job(
        ["a", "b", "a", "a"]
    )
    assert outputs(call, job) == {"0": "aa", "1": "bb", "2": "aa", "3": "aa"}
    assert sorted(calls) == ["a", "b"]
    report = job.report()
    assert (report.done, report.copies, report.is_finished) == (4, 2, True)


def test_what_is_not_deduped_is_asked_each_time():
    calls = []
    RunnableLambda(lambda text: calls.append(text)).batch_job(["a", "a"], dedupe=False).run()
    assert calls == ["a", "a"]


def test_a_model_gives_messages_and_counts_tokens(call):
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    model = GenericFakeChatModel(messages=iter([AIMessage("hi", usage_metadata=usage)] * 4))
    job = model.batch_job(["a", "b", "c", "d"])
    results = call.run(job, "results")
    assert [result.output.text for result in results] == ["hi"] * 4
    assert (job.report().input_tokens, job.report().output_tokens, job.report().cost) == (
        12,
        8,
        None,
    )


class Weather(BaseModel):
    town: str


def test_answers_of_a_class_come_back_as_that_class(store):
    chain = RunnableLambda(lambda town: Weather(town=town)).with_types(output_type=Weather)
    chain.batch_job(["Ulm"], store=store, output_type=Weather).run()
    (result,) = chain.batch_job(None, store=store, output_type=Weather).results()
    assert result.output == Weather(town="Ulm")


class Lengths(Embeddings):
    chunk_size = 4

    def __init__(self):
        self.calls = []

    def embed_documents(self, texts):
        self.calls.append(len(texts))
        if "bad" in texts:
            raise ValueError("bad text")
        return [[float(len(text))] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_embeddings_are_asked_in_groups_and_one_bad_text_fails_alone(call):
    model = Lengths()
    job = model.batch_job(["a", "bb", "bad", "dddd", 5, "ffffff"])
    results = outputs(call, job)
    assert (results["0"], results["1"], results["3"], results["5"]) == ([1.0], [2.0], [4.0], [6.0])
    assert "bad text" in results["2"]
    assert "only text can be embedded" in results["4"]
    assert max(model.calls) > 1


class Priced(Lengths):
    model = "lengths-1"
    _provider = "tests"


def test_a_budget_holds_for_embeddings_by_what_texts_are_estimated_to_cost(call):
    with pytest.raises(UsageError, match="needs the price of Lengths"):
        Lengths().batch_job(["a"], budget=Limits(cost=1))
    register_prices("tests", {"lengths-1": {"input": 1_000_000.0}})  # a dollar a token
    job = Priced().batch_job([f"text{n:04}" for n in range(40)], budget=Limits(cost=20))
    with pytest.raises(BudgetExceeded, match="stopped before its budget"):
        call.run(job, "run")
    report = job.report()
    assert 8 <= report.done <= 10
    assert report.cost == report.input_tokens == 2 * report.done
    assert report.waiting == 40 - report.done


def test_two_jobs_of_one_file_do_not_wait_for_each_other(store):
    first = chain().batch_job(["a", "b"], store=store, name="first")
    reading = first.results()
    next(reading)
    assert chain().batch_job(["c"], store=store, name="second").run().done == 1
    assert len(list(reading)) == 1


# -- PostgreSQL


@pytest.mark.slow
def test_a_job_in_postgresql(call, postgres_server):
    name = f"job-{time.time_ns()}"
    job = chain().batch_job(
        ["a", "b", "a"],
        store=postgres_server.url,
        name=name,
        key=lambda row: None or f"{row}{time.time_ns()}",
    )
    assert sorted(result.output for result in call.run(job, "results")) == ["A", "A", "B"]
    job._store.lock()
    other = chain().batch_job(None, store=postgres_server.url, name=name)
    with pytest.raises(StoreError, match="another process works on the job"):
        other.run()
    job.close()
    assert len(list(other.results())) == 3
    other.close()


@pytest.mark.slow
def test_a_job_in_postgresql_is_free_as_soon_as_it_is_unlocked(postgres_server):
    first, second = JobDatabase(postgres_server.url), JobDatabase(postgres_server.url)
    name = f"job-{time.time_ns()}"
    for _ in range(300):
        assert first.lock(name)
        first.unlock()
        assert second.lock(name)
        second.unlock()
    first.close()
    second.close()


@pytest.mark.slow
def test_a_job_in_postgresql_that_lost_its_lock_writes_nothing_more(postgres_server):
    database = JobDatabase(postgres_server.url)
    assert database.lock("job that loses its lock")
    session = database._session.info.backend_pid
    database.read(lambda connection: connection.row("SELECT pg_terminate_backend(?)", (session,)))

    with pytest.raises(StoreError, match="has lost its lock"):
        database.write(lambda connection: connection.run("SELECT 1"))

    database.unlock()
    assert database.lock("job that loses its lock")
    database.write(lambda connection: connection.run("SELECT 1"))
    database.unlock()
    database.close()
