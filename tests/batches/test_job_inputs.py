"""Inputs of jobs: files, malformed files, other jobs' stores, options."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import BaseModel

from foldline.batches import BatchJob, read_rows, write_rows
from foldline.exceptions import FoldlineError, StoreError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.output_parsers import StrOutputParser
from foldline.rate_limiters import InMemoryRateLimiter
from foldline.runnables import RunnableLambda
from tests.batches.jobs import chain, outputs


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
    assert {result.output for result in job.results()} == {"1", "5"}
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
        FoldlineError, match=r"calls failed, and no item has an answer.*ValidationError"
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
from foldline.batches._store.job_store import JobStore
store = JobStore({str(store)!r}, "job")
store.job.use(store.job.find())
print(store.job.report().items)
store.lock()
"""
    result = subprocess.run(
        [sys.executable, "-c", other], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.stdout.strip() == "2"
    assert "another process works on the job 'job'" in result.stderr
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
        ({"speed": 1}, "does not know 'speed'"),
        ({"max_concurrency": 0}, "an integer from 1"),
        ({"mode": "provider"}, "has no batches of its provider"),
        ({"rate_limiter": InMemoryRateLimiter()}, "is not a chat model"),
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


def test_a_broken_line_that_was_mended_is_asked_when_the_job_goes_on(store, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('"a"\n{"broken\n"c"\n')
    assert chain().batch_job(file, store=store).run().rejected == 1
    file.write_text('"a"\n"b"\n"c"\n')
    job = chain().batch_job(file, store=store)
    report = job.run()
    assert (report.done, report.rejected, report.items) == (3, 0, 3)
    assert [result.output for result in job.answers()] == ["A", "B", "C"]


def test_rows_that_were_refused_are_counted_once_however_often_they_are_read(store):
    rows = [{"id": 1, "t": "a"}, {"id": 1, "t": "b"}, {"t": "c"}]
    job = RunnableLambda(lambda row: row["t"])
    for _ in range(3):
        report = job.batch_job(rows, store=store, key="id").run()
        assert (report.items, report.done, report.rejected) == (1, 1, 2)


def test_an_iterator_that_fails_ends_the_job_with_its_error_and_the_next_one_goes_on(call, store):
    def rows(last):
        for number in range(5000):
            if number == last:
                raise OSError("the share went away")
            yield f"x{number}"

    job = chain().batch_job(rows(3500), store=store)
    with pytest.raises(OSError, match="the share went away"):
        call.run(job, "run")
    report = job.report()
    assert report.items == report.done == 3500
    more = chain().batch_job(rows(None), store=store)
    assert call.run(more, "run").done == 5000
    assert more.report().repeated_calls == 0
