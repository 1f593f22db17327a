"""The numbers of a server: one truth over its workers, with histograms and labels, in a form that Prometheus takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.serve import create_app
from foldline.serve._metrics import BUCKETS, METRICS, MOST_MODELS, Metrics, render
from foldline.serve._metrics_files import MOST_DEAD, MetricsFolder
from tests.serve import served
from tests.serve.in_process import post_in_process
from tests.serve.process import ServeProcess
from tests.serve.wire_requests import requests_of

LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def numbers(page: str) -> dict[str, float]:
    """Return the numbers of a page by their name and labels."""
    return {
        f"{match[1]}{{{match[2] or ''}}}": float(match[3])
        for line in page.splitlines()
        if (match := LINE.match(line))
    }


def check_page(page: str) -> None:
    """Let Prometheus's own program read a page."""
    program = shutil.which("promtool")
    assert program, "promtool is not installed: run scripts/servers"
    result = subprocess.run(
        [program, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def count_of(found: dict[str, float], name: str, *parts: str) -> float:
    return sum(
        value
        for place, value in found.items()
        if place.startswith(f"foldline_{name}{{") and all(part in place for part in parts)
    )


def ask_all(apps: Any, *paths: tuple[str, Any], **options: Any) -> str:
    """Send requests to a server in this process, each after the other, and return its page."""
    import asyncio

    async def main() -> str:
        app = create_app(apps, **options)
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            for path, body in paths:
                await client.post(path, json=body)
            return (await client.get("/metrics")).text

    return asyncio.run(main())


# -- one process


def test_S29_runs_calls_tokens_and_costs_have_labels_of_app_wire_and_model():
    say = {"app": "priced", "input": "hello", "wait": True}
    fail = {"app": "priced", "input": "rate limit", "wait": True}
    vectors = ("/v1/embeddings", {"model": "vectors", "input": "a b"})
    crash = ("/v1/embeddings", {"model": "vectors", "input": "crash"})
    apps = {"priced": served.priced, "vectors": served.vectors}

    page = ask_all(apps, ("/runs", say), ("/runs", say), ("/runs", fail), vectors, crash)

    found = numbers(page)
    model = 'model="scripted:priced-1"'
    assert found['foldline_runs_started_total{app="priced",wire="runs"}'] == 3
    assert found['foldline_runs_ended_total{app="priced",wire="runs",status="success"}'] == 2
    assert found['foldline_runs_ended_total{app="priced",wire="runs",status="error"}'] == 1
    assert found[f'foldline_model_calls_total{{{model},status="success"}}'] == 2
    assert found[f'foldline_model_calls_total{{{model},status="error"}}'] == 1
    assert found[f"foldline_model_call_seconds_count{{{model}}}"] == 3
    assert found[f'foldline_tokens_total{{app="priced",{model},way="input"}}'] == 22
    assert found[f'foldline_tokens_total{{app="priced",{model},way="output"}}'] == 14
    assert found[f'foldline_cost_dollars_total{{app="priced",{model}}}'] == pytest.approx(0.036)
    assert found['foldline_embeddings_total{app="vectors",status="success"}'] == 1
    assert found['foldline_embeddings_total{app="vectors",status="error"}'] == 1
    assert found['foldline_http_requests_total{wire="runs",status="200"}'] == 2
    assert found['foldline_http_requests_total{wire="runs",status="429"}'] == 1
    assert found["foldline_runs_live{}"] == 0
    assert found["process_resident_memory_bytes{}"] > 1_000_000
    assert count_of(found, "build_info", "version=") == 1


def test_S29_every_name_of_the_list_is_on_the_page_and_promtool_takes_it():
    apps = {"chat": served.chat, "agent": served.make_agent(None), "vectors": served.vectors}
    tools = {"app": "agent", "input": "parallel tools", "wait": True}
    vectors = {"model": "vectors", "input": "a b"}

    page = ask_all(
        apps, *requests_of("hello").values(), ("/runs", tools), ("/v1/embeddings", vectors)
    )

    check_page(page)
    shown = set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
    assert {name for name in METRICS if name not in shown} <= {
        "foldline_cost_dollars_total",  # no price is known here
        "foldline_budget_refused_total",
        "foldline_queue_seconds",  # none waits
    }
    assert (
        numbers(page)['foldline_model_calls_total{model="scripted:agent-1",status="success"}'] == 2
    )


def test_S30_a_histogram_has_14_buckets_from_5_ms_to_10_minutes():
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.3, 700.0):
        metrics.observe("run_seconds", seconds, "a", "runs", "success")

    found = numbers(render(metrics.series(), has_keys=False))

    labels = 'app="a",wire="runs",status="success"'
    assert (len(BUCKETS), BUCKETS[0], BUCKETS[-1]) == (14, 0.005, 600.0)
    assert found[f'foldline_run_seconds_bucket{{{labels},le="0.005"}}'] == 2
    assert found[f'foldline_run_seconds_bucket{{{labels},le="0.5"}}'] == 3
    assert found[f'foldline_run_seconds_bucket{{{labels},le="600"}}'] == 3
    assert found[f'foldline_run_seconds_bucket{{{labels},le="+Inf"}}'] == 4
    assert found[f"foldline_run_seconds_count{{{labels}}}"] == 4
    assert found[f"foldline_run_seconds_sum{{{labels}}}"] == pytest.approx(700.306)


def test_S30_of_too_many_models_the_rest_is_other():
    metrics = Metrics()
    labels = {metrics.model(f"model-{number}") for number in range(MOST_MODELS + 50)}

    assert len(labels) == MOST_MODELS + 1
    assert metrics.model("model-0") == "model-0"
    assert metrics.model("model-240") == "other"


def test_S30_a_name_with_quotes_and_breaks_is_escaped():
    metrics = Metrics()
    metrics.add("runs_started_total", 'a"b\\c\nd', "runs")

    page = render(metrics.series(), has_keys=False)

    check_page(page)
    assert r'app="a\"b\\c\nd"' in page


@pytest.mark.slow
def test_S31_keys_are_labels_only_where_the_settings_say_so(tmp_path):
    process = ServeProcess(tmp_path, options=("--metrics-keys", "--metrics-key", "none"))
    key = process.add_key("alice")
    process.start()
    try:
        head = {"authorization": f"Bearer {key}"}
        body = {"app": "priced", "input": "hello", "wait": True}
        httpx.post(f"{process.url}/runs", json=body, headers=head, timeout=30).raise_for_status()
        page = httpx.get(f"{process.url}/metrics", timeout=30).text  # this machine needs no key
    finally:
        process.stop()

    check_page(page)
    for name in ("runs_started_total", "runs_ended_total", "tokens_total", "cost_dollars_total"):
        assert count_of(numbers(page), name, 'key="alice"') > 0
    assert key not in page


def test_S31_metrics_need_a_key_where_there_are_keys_and_may_be_off(keyed):
    head = {"authorization": f"Bearer {keyed.first}"}

    assert httpx.get(f"{keyed.url}/metrics").status_code == 401
    assert httpx.get(f"{keyed.url}/metrics", headers=head).status_code == 200
    assert "key=" not in httpx.get(f"{keyed.url}/metrics", headers=head).text
    app = create_app(served.chat, metrics=False)
    assert post_in_process(app, "/metrics", None, "GET").status_code == 404


def test_S31_without_a_key_other_machines_are_refused():
    def status(client: str) -> int:
        app = create_app(served.chat, metrics_key="none")
        return post_in_process(app, "/metrics", None, "GET", client=client).status_code

    assert (status("127.0.0.1"), status("10.0.0.9")) == (200, 401)


# -- several workers


def folder_of(path: Path) -> tuple[Metrics, MetricsFolder]:
    metrics = Metrics()
    return metrics, MetricsFolder(path, metrics)


def started(page: Any) -> float:
    return page.numbers.get(("foldline_runs_started_total", ("a", "runs")), 0.0)


def test_S28_a_page_is_the_sum_and_never_smaller_whoever_makes_it(tmp_path):
    workers = [folder_of(tmp_path) for _ in range(4)]
    last = 0.0
    for turn in range(40):
        metrics, folder = workers[turn * 7 % 4]
        metrics.add("runs_started_total", "a", "runs")
        metrics.observe("run_seconds", 1.0, "a", "runs", "success")
        total = started(workers[turn * 5 % 4][1].total())
        assert total >= last
        last = total
        del folder
    for _, folder in workers:
        folder.write()

    totals = [folder.total() for _, folder in workers]

    assert [started(total) for total in totals] == [40.0] * 4
    counts = totals[0].buckets["foldline_run_seconds", ("a", "runs", "success")]
    assert sum(counts) == 40


def test_S28_counters_of_ended_workers_stay_and_their_gauges_do_not(tmp_path):
    (one, ended), (two, living) = folder_of(tmp_path), folder_of(tmp_path)
    one.add("runs_started_total", "a", "runs", amount=5)
    one.gauges["runs_live"] = 3
    two.gauges["runs_live"] = 1
    ended.write()
    assert living.total().numbers["foldline_runs_live", ()] == 4

    ended.write(is_live=False)

    total = living.total()
    assert started(total) == 5
    assert total.numbers["foldline_runs_live", ()] == 1
    assert total.numbers["process_start_time_seconds", ()] > 0


def test_S28_a_killed_worker_counts_as_ended(tmp_path):
    metrics, folder = folder_of(tmp_path)
    child = os.fork()
    if not child:
        metrics.add("runs_started_total", "a", "runs", amount=2)
        metrics.gauges["runs_live"] = 2
        MetricsFolder(tmp_path, metrics).write()
        os._exit(0)
    os.waitpid(child, 0)

    total = folder.total()

    assert started(total) == 2
    assert total.numbers.get(("foldline_runs_live", ()), 0) == 0


def test_S28_files_of_many_ended_workers_are_joined_without_a_loss(tmp_path):
    _, reader = folder_of(tmp_path)
    for number in range(3 * MOST_DEAD):
        metrics, folder = folder_of(tmp_path)
        metrics.add("runs_started_total", "a", "runs")
        metrics.observe("run_seconds", 0.1, "a", "runs", "success")
        folder.write(is_live=False)
        assert started(reader.total()) == number + 1

    assert len(list(tmp_path.glob("*.json"))) <= MOST_DEAD + 3
    assert sum(reader.total().buckets["foldline_run_seconds", ("a", "runs", "success")]) == 48
    assert not (tmp_path / "lock").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_S32_four_workers_show_the_same_counters_after_200_runs_on_all_wires(tmp_path):
    process = ServeProcess(tmp_path, options=("--workers", "4", "--no-trace")).start()
    # Each request has a connection of its own, so that any worker may answer it.
    limits = httpx.Limits(max_keepalive_connections=0)
    client = httpx.Client(timeout=60, limits=limits, verify=False)
    try:
        bodies = [*requests_of("hello").items()] * 23
        bodies = bodies[:200]
        last: dict[str, float] = {}

        def send(request: Any) -> int:
            path, body = request[1]
            return client.post(f"{process.url}{path}", json=body).status_code

        with ThreadPoolExecutor(8) as threads:
            answers = threads.map(send, bodies)
            for _ in range(10):  # while they run, no counter goes back
                found = numbers(client.get(f"{process.url}/metrics").text)
                counters = {name: found[name] for name in found if "_total{" in name}
                assert all(counters.get(name, 0) >= value for name, value in last.items())
                last = counters
            assert set(answers) == {200}

        def scrape(_: int) -> tuple[str, dict[str, float]]:
            page = client.get(f"{process.url}/metrics").text
            found = numbers(page)
            return page, {name: found[name] for name in found if "foldline_runs_" in name}

        end = time.monotonic() + 30
        while True:  # every worker writes its numbers once a second
            pages = [scrape(number) for number in range(24)]
            is_equal = all(runs == pages[0][1] for _, runs in pages)
            if is_equal and count_of(pages[0][1], "runs_ended_total") == 200:
                break
            assert time.monotonic() < end, pages[0][1]
    finally:
        client.close()
        process.stop()

    page, runs = pages[0]
    check_page(page)
    assert count_of(runs, "runs_started_total") == 200
    wires = set(re.findall(r'foldline_runs_started_total\{app="chat",wire="([^"]+)"', page))
    assert len(wires) == len(requests_of(""))
    assert numbers(page)["foldline_runs_live{}"] == 0


def test_S29_the_page_of_the_docs_has_every_name():
    page = (Path(__file__).parents[2] / "docs" / "serve-deployment.md").read_text(encoding="utf-8")

    assert {name for name in METRICS if f"`{name}`" not in page} == set()
