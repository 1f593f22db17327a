"""Live jobs: one answer per input, whatever the inputs are and whenever the process dies."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import BaseModel

from foldline.batches import BatchJob, read_rows, write_rows
from foldline.embeddings import Embeddings
from foldline.exceptions import BudgetExceeded, FoldlineError, ModelAPIError, StoreError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.language_models.policies.usage_scope import Limits
from foldline.messages import AIMessage
from foldline.output_parsers import StrOutputParser
from foldline.rate_limiters import InMemoryRateLimiter
from foldline.runnables import RunnableLambda

ROOT = Path(__file__).parents[2]


def shout(text):
    return str(text).upper()


def chain():
    return RunnableLambda(shout)


def outputs(call, job):
    return {
        one.key: one.output if one.error is None else one.error for one in call.run(job, "results")
    }


@pytest.fixture
def store(tmp_path):
    return tmp_path / "jobs.db"


def test_every_input_has_one_answer(call, store):
    job = chain().batch_job((f"x{n}" for n in range(3000)), store=store)
    assert outputs(call, job) == {str(n): f"X{n}" for n in range(3000)}
    assert (job.report().done, job.report().is_finished) == (3000, True)
    assert [one.output for one in job.answers()][:3] == ["X0", "X1", "X2"]


def test_a_finished_job_gives_its_answers_again_and_asks_nothing(call, store):
    asked = []
    counted = RunnableLambda(lambda text: asked.append(text) or text)
    counted.name = "counted"
    counted.batch_job(["a", "b"], store=store).run()
    assert outputs(call, counted.batch_job(["a", "b"], store=store)) == {"0": "a", "1": "b"}
    assert sorted(asked) == ["a", "b"]


def test_equal_inputs_are_asked_once(call):
    asked = []
    job = RunnableLambda(lambda text: asked.append(text) or text * 2).batch_job(
        ["a", "b", "a", "a"]
    )
    assert outputs(call, job) == {"0": "aa", "1": "bb", "2": "aa", "3": "aa"}
    assert sorted(asked) == ["a", "b"]
    report = job.report()
    assert (report.done, report.copies, report.is_finished) == (4, 2, True)


def test_what_is_not_deduped_is_asked_each_time():
    asked = []
    RunnableLambda(lambda text: asked.append(text)).batch_job(["a", "a"], dedupe=False).run()
    assert asked == ["a", "a"]


def test_a_model_gives_messages_and_counts_tokens(call):
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    model = GenericFakeChatModel(messages=iter([AIMessage("hi", usage_metadata=usage)] * 4))
    job = model.batch_job(["a", "b", "c", "d"])
    results = call.run(job, "results")
    assert [one.output.text for one in results] == ["hi"] * 4
    assert (job.report().input_tokens, job.report().output_tokens, job.report().cost) == (
        12,
        8,
        None,
    )


class Weather(BaseModel):
    town: str


def test_answers_of_a_class_come_back_as_that_class(store):
    made = RunnableLambda(lambda town: Weather(town=town)).with_types(output_type=Weather)
    made.batch_job(["Ulm"], store=store, output_type=Weather).run()
    (result,) = made.batch_job(None, store=store, output_type=Weather).results()
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
    found = outputs(call, job)
    assert (found["0"], found["1"], found["3"], found["5"]) == ([1.0], [2.0], [4.0], [6.0])
    assert "bad text" in found["2"]
    assert "only text can be embedded" in found["4"]
    assert max(model.calls) > 1


# -- files


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_rows_come_from_files_and_go_to_files(tmp_path, suffix):
    source, target = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    if suffix == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(
            pyarrow.Table.from_pylist([{"id": f"k{n}", "t": f"t{n}"} for n in range(5)]), source
        )
    else:
        write_rows(({"id": f"k{n}", "t": f"t{n}"} for n in range(5)), source)
    job = RunnableLambda(lambda row: row["t"].upper()).batch_job(source, key="id")
    job.run()
    assert job.write(target) == 5
    assert {row["key"]: row["output"] for row in read_rows(target)} == {
        f"k{n}": f"T{n}" for n in range(5)
    }


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("old")

    def rows():
        yield {"a": 1}
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write_rows(rows(), target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


# -- bad input


def test_a_broken_line_is_listed_and_the_others_are_asked(call, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('"a"\n{"broken\n"c"\n')
    job = chain().batch_job(file)
    assert outputs(call, job) == {"0": "A", "2": "C"}
    (row,) = job.rejected()
    assert row.place == "rows.jsonl, line 2"
    assert "no JSON" in row.reason
    assert '{"broken' in row.text
    assert job.report().rejected == 1


def test_a_line_of_a_table_with_other_columns_is_listed(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(b"a,b\n1,2\n1\n\xff,3\n5,6\n")
    job = RunnableLambda(lambda row: row["a"]).batch_job(file)
    assert {one.output for one in job.results()} == {"1", "5"}
    assert [row.reason for row in job.rejected()] == [
        "another number of columns than the first line",
        "not UTF-8",
    ]


def test_a_duplicate_key_is_listed_and_the_first_row_counts(call):
    rows = [{"id": 1, "t": "a"}, {"id": 1, "t": "b"}, {"t": "c"}, {"id": 2, "t": "d"}]
    job = RunnableLambda(lambda row: row["t"]).batch_job(rows, key="id")
    assert outputs(call, job) == {"1": "a", "2": "d"}
    reasons = [row.reason for row in job.rejected()]
    assert any("the key '1' is that of row 0 already" in reason for reason in reasons)
    assert any("no column 'id'" in reason for reason in reasons)


def test_a_schema_that_no_answer_fits_stops_the_job_before_the_money_is_gone(store):
    class Age(BaseModel):
        age: int

    structured = (
        FakeListChatModel(responses=['{"name": "x"}']) | StrOutputParser() | Age.model_validate_json
    )
    job = structured.batch_job(
        [f"q{n}" for n in range(500)], store=store, give_up_after=10, max_concurrency=2
    )
    with pytest.raises(
        FoldlineError, match=r"items failed, and none has an answer.*ValidationError"
    ):
        job.run()
    report = job.report()
    assert 10 <= report.failed < 500
    assert report.failed + report.waiting == 500
    assert "ValidationError" in next(iter(report.errors))


def test_a_job_is_held_by_one_process(store):
    first = chain().batch_job(["a", "b"], store=store)
    reading = first.results()
    next(reading)
    other = f"""
from pathlib import Path
from foldline.batches.store import JobStore
store = JobStore({str(store)!r}, "job")
store.job.use(store.job.find())
print(store.job.report().items)
store.lock()
"""
    done = subprocess.run(
        [sys.executable, "-c", other], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == "2"
    assert "another process works on the job 'job'" in done.stderr
    assert len([*reading]) == 1


def test_another_jobs_store_is_refused(store):
    chain().batch_job(["a"], store=store).run()
    with pytest.raises(StoreError, match="holds another job under the name 'job': shout"):
        FakeListChatModel(responses=["x"]).batch_job(["a"], store=store)
    with pytest.raises(StoreError, match="row 0 is not the one"):
        chain().batch_job(["other"], store=store).run()
    assert chain().batch_job(["other"], store=store, name="second").run().done == 1
    with pytest.raises(UsageError, match=r"has no job 'third' .it has: job, second."):
        BatchJob.resume(store, chain(), name="third")


def test_a_file_that_is_no_store_is_refused(tmp_path):
    file = tmp_path / "x.db"
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="no database"):
        chain().batch_job(["a"], store=file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, "choose one of"),
        ({"colour": 1}, "does not know 'colour'"),
        ({"max_concurrency": 0}, "a whole number from 1"),
        ({"mode": "provider"}, "has no batches of its provider"),
        ({"rate_limiter": InMemoryRateLimiter()}, "is no chat model"),
    ],
)
def test_wrong_options_are_told(options, message):
    with pytest.raises(UsageError, match=message):
        chain().batch_job(["a"], **options).run()


@pytest.mark.parametrize("inputs", ["just text", {"a": 1}, 5, "rows.txt", "missing.jsonl"])
def test_what_is_no_list_of_inputs_is_refused(inputs):
    with pytest.raises(UsageError):
        chain().batch_job(inputs)


def test_a_job_without_inputs_needs_some_in_its_store(store):
    with pytest.raises(UsageError, match="has no inputs for the job 'job' yet"):
        chain().batch_job(store=store)
    chain().batch_job(["a"], store=store)
    with pytest.raises(UsageError, match="cannot be read from the store"):
        BatchJob.resume(store)


# -- failures


def test_an_error_that_may_pass_is_repeated_calls_and_one_that_may_not_is_not(call):
    asked = []

    def answer(text):
        asked.append(text)
        if text == "busy" and asked.count("busy") < 3:
            raise ModelAPIError("busy", status=500)
        if text == "never":
            raise ModelAPIError("never", status=500)
        if text == "wrong":
            raise ValueError("wrong")
        return text

    found = outputs(
        call, RunnableLambda(answer).batch_job(["fine", "busy", "wrong", "never"], max_attempts=3)
    )
    assert found["0"] == "fine"
    assert found["1"] == "busy"
    assert found["2"] == "ValueError: wrong"
    assert "never" in found["3"]
    assert asked.count("wrong") == 1
    assert asked.count("never") == 3


def test_what_failed_can_be_repeated_calls(store):
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
    began = time.monotonic()
    assert model.batch_job(["a", "b", "c", "d"], rate_limiter=limiter).run().done == 4
    assert time.monotonic() - began > 0.12


def test_progress_is_told(capsys):
    told = []
    chain().batch_job(["a", "b"], progress=told.append).run()
    assert told[-1].finished == 2
    chain().batch_job(["a", "b"], progress=True).run()
    assert "2 of 2 (100 %)" in capsys.readouterr().err


def test_calls_are_made_at_once_where_they_wait(call):
    began = time.monotonic()
    job = RunnableLambda(lambda text: time.sleep(0.2)).batch_job(
        [str(n) for n in range(16)], max_concurrency=16
    )
    call.run(job, "run")
    assert time.monotonic() - began < 1.6


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
    again = RunnableLambda(lambda text: time.sleep(0.01) or text).batch_job(None, store=store)
    assert again.report().items >= report.done
    done = {one.key for one in job.results()}
    assert done == {str(n) for n in range(40)}
    assert job.report().repeated_calls == 0


def test_a_cancelled_job_ends_and_goes_on_when_it_is_told_to(store):
    job = RunnableLambda(lambda text: time.sleep(0.02) or text).batch_job(
        [str(n) for n in range(400)], store=store, max_concurrency=2
    )
    reading = job.results()
    next(reading)
    job.cancel()
    rest = list(reading)
    report = job.report()
    assert len(rest) + 1 == report.done < 400
    assert report.done + report.cancelled == report.items
    job.retry_failed()
    assert job.run().done == 400


# -- PostgreSQL


def test_a_job_in_postgresql(call, postgres_server):
    name = f"job-{time.time_ns()}"
    job = chain().batch_job(
        ["a", "b", "a"],
        store=postgres_server.url,
        name=name,
        key=lambda row: None or f"{row}{time.time_ns()}",
    )
    assert sorted(one.output for one in call.run(job, "results")) == ["A", "A", "B"]
    job._store.lock()
    other = chain().batch_job(None, store=postgres_server.url, name=name)
    with pytest.raises(StoreError, match="another process works on the job"):
        other.run()
    job.close()
    assert len(list(other.results())) == 3
    other.close()


# -- kills

WORKER = """
import sys, time
from foldline.batches import BatchJob
from foldline.runnables import RunnableLambda
log = open(sys.argv[2], "a", buffering=1)
def answer(text):
    log.write(text + "\\n")
    return text.upper()
job = RunnableLambda(answer).batch_job((f"x{n}" for n in range(int(sys.argv[3]))), store=sys.argv[1])
job.run()
print("whole")
"""


def kill_loop(folder: Path, items: int, kills: int, seed: int) -> tuple[int, int, int]:
    """Run a job in processes that are killed at random; return kills that hit, asked again, and asked twice."""
    chance, store, log = random.Random(seed), folder / "jobs.db", folder / "asked.txt"
    hits = 0
    while True:
        command = [sys.executable, "-c", WORKER, str(store), str(log), str(items)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
        if hits < kills:
            try:
                worker.wait(chance.uniform(0.6, 2.2))
            except subprocess.TimeoutExpired:
                worker.send_signal(signal.SIGKILL)
                hits += 1
        out, err = worker.communicate(timeout=110)
        if worker.returncode == 0:
            assert out.strip() == b"whole", err
            break
        assert worker.returncode == -signal.SIGKILL, err.decode()
    with sqlite3.connect(store) as rows:
        states = dict(rows.execute("SELECT state, count(*) FROM foldline_job_items GROUP BY state"))
        wrong = rows.execute(
            "SELECT count(*) FROM foldline_job_items WHERE output != upper(input)"
        ).fetchone()[0]
        again, done = rows.execute("SELECT repeated_calls, done FROM foldline_jobs").fetchone()
    rows.close()
    asked = log.read_text().split()
    assert states == {3: items}
    assert (wrong, done, len(set(asked))) == (0, items, items)
    assert len(asked) - items <= again
    return hits, again, len(asked) - items


@pytest.mark.slow
def test_killed_at_random_every_item_has_one_answer(tmp_path):
    hits, again, twice = kill_loop(tmp_path, 20_000, 4, seed=7)
    assert twice <= again
    assert hits >= 1


def test_memory_does_not_grow_with_the_number_of_items(tmp_path):
    program = """
import resource, sys
from foldline.runnables import RunnableLambda
job = RunnableLambda(str.upper).batch_job((f"x{n}" for n in range(int(sys.argv[2]))), store=sys.argv[1])
assert sum(1 for _ in job.results()) == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    used = [
        int(subprocess.run([sys.executable, "-c", program, str(tmp_path / f"{n}.db"), str(n)],
                           capture_output=True, text=True, check=True, timeout=100).stdout)
        for n in (2_000, 20_000)
    ]  # fmt: skip
    assert used[1] - used[0] < 30_000, json.dumps(used)
    assert os.path.exists(tmp_path / "20000.db")
