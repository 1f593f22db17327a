"""The same job elsewhere: threads, processes, a Ray cluster of two workers; and what may not travel."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from foldline.exceptions import BudgetExceeded, FoldlineError, UsageError
from foldline.language_models._call.policies.usage_scope import Limits
from foldline.output_parsers import StrOutputParser
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import RunnableLambda
from foldline.transports import NativeTransport
from tests.batches.worker_functions import die, fail, fail_on_b, key_of_worker, shout

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["threads", "processes"])
def executor(request):
    if request.param == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield pool
        return
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
def test_a_job_on_an_executor_gives_what_it_gives_here(call, executor, tmp_path):
    inputs = [f"x{n}" for n in range(700)]
    job = RunnableLambda(shout).batch_job(inputs, store=tmp_path / "j.db", executor=executor)
    assert {result.key: result.output for result in call.run(job, "results")} == {
        str(n): f"X{n}" for n in range(700)
    }
    assert job.report().done == 700


@pytest.mark.slow
def test_batch_takes_an_executor_without_a_store(call, executor):
    inputs = [f"x{n}" for n in range(600)]
    assert call.batch(RunnableLambda(shout), inputs, executor=executor) == [
        text.upper() for text in inputs
    ]
    results = call.batch(
        RunnableLambda(fail_on_b), ["a", "b"], executor=executor, return_exceptions=True
    )
    assert results[0] == "a"
    assert "ValueError: no b" in str(results[1])
    with pytest.raises(Exception, match="input 1 failed on the executor"):
        call.batch(RunnableLambda(fail_on_b), ["a", "b"], executor=executor)


@pytest.mark.slow
def test_secrets_reach_the_workers_and_no_model_carries_one():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        keys = RunnableLambda(key_of_worker).batch(
            ["MY_KEY"], executor=pool, secrets={"MY_KEY": "k1"}
        )
        assert keys == ["k1"]
    assert b"sk-secret" not in pickle.dumps(ChatOpenAI(api_key="sk-secret"))


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"default_headers": {"x": "y"}}, "default_headers"), ({"transport": NativeTransport()}, "transport"),
     ({"api_key": lambda: "k"}, "a function as api_key")],
)  # fmt: skip
def test_what_would_be_lost_on_the_way_is_refused_by_name(settings, field):
    chain = ChatOpenAI(model="gpt-4o-mini", **settings) | StrOutputParser()
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(UsageError, match=rf"ChatOpenAI\(gpt-4o-mini\) has {field}"),
    ):
        chain.batch_job(["a"], executor=pool).run()


def test_a_lambda_cannot_travel_and_is_told(tmp_path):
    with ProcessPoolExecutor(1) as pool, pytest.raises(UsageError, match="defined in a module"):
        RunnableLambda(lambda text: text).batch_job(["a"], executor=pool).run()


def test_a_budget_holds_on_an_executor(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    model = ChatOpenAI(
        model="gpt-4o-mini",
        base_url=f"{stub.url}/v1",
        profile={"prices": {"input": 1000.0, "output": 0.0}},
    )
    with ThreadPoolExecutor(2) as pool:
        job = model.batch_job([f"q{n}" for n in range(20)], executor=pool, budget=Limits(cost=5.5))
        with pytest.raises(Exception, match="stopped before its budget"):
            job.run()
    assert job.report().cost <= 5.5
    assert 4 <= stub.live <= 5


@pytest.mark.parametrize(
    "limits", [{"total_tokens": 9_000}, {"output_tokens": 4_500}, {"model_calls": 4}]
)
def test_every_limit_holds_on_an_executor(stub, monkeypatch, limits):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    model = ChatOpenAI(model="gpt-4o-mini", base_url=f"{stub.url}/v1")
    with ThreadPoolExecutor(2) as pool:
        job = model.batch_job([f"q{n}" for n in range(20)], executor=pool, budget=Limits(**limits))
        with pytest.raises(BudgetExceeded, match="stopped before its budget"):
            job.run()
    assert stub.live == 4


@pytest.mark.parametrize("give_up_after", [50, 7])
def test_a_job_on_an_executor_stops_after_the_first_failures(call, give_up_after):
    inputs = [f"x{n}" for n in range(3000)]
    with ThreadPoolExecutor(2) as pool:
        job = RunnableLambda(fail).batch_job(inputs, executor=pool, give_up_after=give_up_after)
        with pytest.raises(FoldlineError, match="calls failed, and no item has an answer"):
            call.run(job, "run")

    assert job.report().failed == give_up_after
    assert job.report().waiting == job.report().items - give_up_after


def test_a_job_whose_calls_fail_for_now_stops_after_the_attempts_of_the_first_items(call):
    class BusyError(Exception):
        is_retryable = True

    calls = []

    def busy(text: str) -> str:
        calls.append(text)
        raise BusyError("later")

    job = RunnableLambda(busy).batch_job([f"x{n}" for n in range(3000)], give_up_after=10)
    with pytest.raises(FoldlineError, match=r"calls failed, and no item has an answer.*later"):
        call.run(job, "run")
    assert 30 <= len(calls) <= 30 + 16  # and those that were under way
    assert job.report().failed <= 10


def test_items_wait_when_the_pool_breaks(call, tmp_path):
    inputs = [f"x{n}" for n in range(600)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        job = RunnableLambda(die).batch_job(inputs, store=tmp_path / "j.db", executor=pool)
        with pytest.raises(
            FoldlineError, match=r"executor is lost \(BrokenProcessPool.*600 wait: resume it"
        ):
            call.run(job, "run")

    assert (job.report().failed, job.report().waiting) == (0, 600)
    job.close()
    with RunnableLambda(die).batch_job(None, store=tmp_path / "j.db") as again:
        assert again.report().waiting == 600


def test_items_wait_when_the_executor_was_shut_down(call):
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    job = RunnableLambda(shout).batch_job(["a", "b"], executor=pool)
    with pytest.raises(FoldlineError, match=r"executor is lost .*after shutdown.*2 wait"):
        call.run(job, "run")


class Unreadable:
    """A function that can be pickled here and not be read in another process."""

    def __call__(self, text: str) -> str:
        return text

    def __reduce__(self) -> tuple[object, ...]:
        return (_read_only_here, (os.getpid(),))


def _read_only_here(process: int) -> object:
    raise AttributeError("Can't get attribute 'mine' on <module '__main__'>")


def test_a_chain_that_workers_cannot_load_is_an_error_with_the_reason(call):
    with ThreadPoolExecutor(1) as pool:
        job = RunnableLambda(Unreadable()).batch_job([f"x{n}" for n in range(200)], executor=pool)
        with pytest.raises(
            FoldlineError, match=r"the worker cannot load the chain: AttributeError"
        ):
            call.run(job, "run")

    (error,) = job.report().errors
    assert "Can't get attribute 'mine'" in error
    result = next(iter(job.failures()))
    assert "Define its functions and classes in a module" in str(result.error)
    assert result.source is None


RAY = """
import sys
from foldline.batches import RayExecutor
from foldline.runnables import RunnableLambda
from foldline.transports import NativeTransport
from tests.batches.worker_functions import die_once, shout

with RayExecutor(num_cpus=0.5, workers=2, **{"_temp_dir": sys.argv[2], "object_store_memory": 80 * 1024 * 1024}) as ray:
    inputs = [f"x{n}" for n in range(1500)]
    job = RunnableLambda(shout).batch_job(inputs, store=sys.argv[1], executor=ray)
    results = {result.key: result.output for result in job.results()}
    assert results == {str(n): f"X{n}" for n in range(1500)}, len(results)
    assert RunnableLambda(shout).batch(inputs[:300], executor=ray) == [text.upper() for text in inputs[:300]]

    marked = [f"{text}|{sys.argv[3]}" for text in inputs]
    job = RunnableLambda(die_once).batch_job(marked, store=sys.argv[1], name="dies", executor=ray)
    results = {result.key: result.output for result in job.results()}
    assert results == {str(n): f"X{n}" for n in range(1500)}, len(results)

    def mine(text):
        return text + "!"

    job = RunnableLambda(mine).batch_job(inputs[:300], store=sys.argv[1], name="main", executor=ray)
    results = {result.key: result.output for result in job.results()}
    assert results == {str(n): f"x{n}!" for n in range(300)}, len(results)
    print("equal", ray.workers)
"""
RAYLET = """
import subprocess, sys, time
from foldline.batches import RayExecutor
from foldline.exceptions import FoldlineError
from foldline.runnables import RunnableLambda
from foldline.transports import NativeTransport
from tests.batches.worker_functions import shout

with RayExecutor(num_cpus=0.5, workers=2, **{"_temp_dir": sys.argv[2], "object_store_memory": 80 * 1024 * 1024}) as ray:
    assert ray.submit(shout, "a").result() == "A"
    subprocess.run(["pkill", "-9", "-f", f"raylet/rayle[t] .*{sys.argv[2]}"], check=True)
    job = RunnableLambda(shout).batch_job([f"x{n}" for n in range(600)], store=sys.argv[1], executor=ray)
    try:
        job.run()
    except FoldlineError as error:
        print(error)
    report = job.report()
    print(report.failed, report.done + report.waiting)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_items_wait_when_the_raylet_dies(tmp_path):
    result = run_ray(RAYLET, str(tmp_path / "j.db"), f"/tmp/fd{os.getpid()}")

    assert result.returncode == 0, result.stderr[-3000:]
    assert "executor is lost" in result.stdout
    assert result.stdout.strip().endswith("0 600")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ray_gives_the_same_and_loses_nothing_with_a_worker(tmp_path_factory, tmp_path):
    short = tmp_path_factory.mktemp("r")  # the path of a socket may have a hundred characters
    result = run_ray(RAY, str(tmp_path / "j.db"), f"/tmp/fr{os.getpid()}", str(short))

    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.strip().endswith("equal 2")
    assert (short / "died").exists()


def run_ray(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("ray")
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True, text=True, check=False, timeout=280, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
             "RAY_raylet_start_wait_time_s": "90"},  # a busy machine takes more than its thirty seconds
    )  # fmt: skip
