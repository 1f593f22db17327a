"""Batches of OpenAI, Anthropic and Gemini over real sockets; the vendors' own clients read what we made."""

from __future__ import annotations

import json

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from foldline.batches import BatchJob
from foldline.exceptions import BudgetExceeded, ModelError, UsageError
from foldline.language_models._call.policies.usage_scope import Limits
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.providers._batch_client import BatchClient
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.anthropic._batches import AnthropicBatches
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import AzureChatOpenAI, ChatOpenAI, OpenAIEmbeddings

CREATE = {
    "openai": "/v1/batches",
    "anthropic": "/v1/messages/batches",
    "google": r"/v1beta/models/[^/]+:batchGenerateContent",
}


def model_of(vendor, stub):
    if vendor == "openai":
        return ChatOpenAI(
            model="gpt-4o-mini", base_url=f"{stub.url}/v1", api_key="k", max_tokens=1000
        )
    if vendor == "anthropic":
        return ChatAnthropic(
            model="claude-sonnet-4-5", base_url=stub.url, api_key="k", max_tokens=1000
        )
    return ChatGoogle(
        model="gemini-2.5-flash", base_url=f"{stub.url}/v1beta", api_key="k", max_tokens=1000
    )


@pytest.fixture(params=["openai", "anthropic", "google"])
def vendor(request):
    return request.param


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr(AnthropicBatches, "look_seconds", 0.01)


def chain_of(vendor, stub):
    return (
        ChatPromptTemplate.from_template("about {topic}")
        | model_of(vendor, stub)
        | StrOutputParser()
    )


def run(call, job):
    return {result.key: result for result in call.run(job, "results")}


def test_every_input_has_its_own_answer_at_half_price(call, vendor, stub):
    rows = [{"topic": f"thing {n}"} for n in range(7)]
    job = chain_of(vendor, stub).batch_job(
        rows, mode="provider", poll_seconds=0.01, part_requests=3
    )

    results = run(call, job)

    assert {key: result.output for key, result in results.items()} == {
        str(n): f"re: about thing {n}" for n in range(7)
    }
    assert {result.source for result in results.values()} == {"batch"}
    assert stub.count("POST", CREATE[vendor]) == 3
    report = job.report()
    assert (report.done, report.parts, report.input_tokens) == (7, 3, 7000)
    live = {"openai": 0.00075, "anthropic": 0.018, "google": 0.0028}[vendor]
    assert report.cost == pytest.approx(7 * live / 2)


def test_a_refused_request_is_a_failed_item_and_missing_and_expired_ones_are_repeated_calls(
    vendor, stub
):
    rows = [{"topic": "fine"}, {"topic": "refuse me"}, {"topic": "missing"}, {"topic": "expired"}]
    job = chain_of(vendor, stub).batch_job(rows, mode="provider", poll_seconds=0.01, max_attempts=2)
    stub.looks_until_done = 0

    results = list(job.results())

    by_key = {result.key: result for result in results}
    assert len(results) == len(by_key) == 4
    assert by_key["0"].output == "re: about fine"
    assert "refused" in by_key["1"].error
    assert "has no result for it" in by_key["2"].error
    assert "did not get to it" in by_key["3"].error
    assert (job.report().missing, job.report().failed) == (2, 3)
    assert sorted(result.key for result in job.failures()) == ["1", "2", "3"]
    assert {result.source for result in results} == {"batch"}
    assert {result.source for result in job.answers()} == {"batch"}


def test_an_item_that_cannot_be_encoded_has_no_source(call, vendor, stub):
    rows = [{"topic": "fine"}, {"subject": "no topic"}]
    job = chain_of(vendor, stub).batch_job(rows, mode="provider", poll_seconds=0.01)

    results = run(call, job)

    assert (results["0"].source, results["1"].source) == ("batch", None)
    assert [result.source for result in job.failures()] == [None]


def test_what_a_batch_leaves_over_goes_live_under_auto(stub, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{stub.url}/v1")
    model = ChatOpenAI(model="gpt-4o-mini", api_key="k")
    job = (model | StrOutputParser()).batch_job(
        ["fine", "it is missing", "it is expired"], batch_from=2, poll_seconds=0.01, part_requests=3
    )
    stub.looks_until_done = 0
    monkeypatch.setattr(stub, "_fate", _fate_of_first_round(stub))

    results = {result.key: result for result in job.results()}

    assert {key: result.output for key, result in results.items()} == {
        "0": "re: fine", "1": "re: it is missing", "2": "re: it is expired"}  # fmt: skip
    assert job.report().parts >= 1
    assert job.report().missing == 1


def _fate_of_first_round(stub):
    def fate(text):
        word = next((word for word in ("missing", "expired") if word in text), "")
        return word if len(stub.batches) == 1 else ""

    return fate


def test_auto_asks_live_below_the_number_and_at_other_addresses(stub):
    job = model_of("openai", stub).batch_job(["a", "b"], batch_from=1)
    assert {result.output.text for result in job.results()} == {"re: a", "re: b"}
    assert (stub.live, stub.batches) == (2, {})


def test_a_batch_whose_creation_was_not_heard_is_found_and_not_made_twice(call, vendor, stub):
    job = chain_of(vendor, stub).batch_job(
        [{"topic": "a"}, {"topic": "b"}], mode="provider", poll_seconds=0.01
    )
    stub.dies_after_create = True

    results = run(call, job)

    assert sorted(result.output for result in results.values()) == ["re: about a", "re: about b"]
    assert stub.count("POST", CREATE[vendor]) == len(stub.batches) == 1


def test_a_job_that_died_between_sending_and_noting_finds_its_batch(vendor, stub, tmp_path):
    rows = [{"topic": str(n)} for n in range(4)]
    options = {"store": tmp_path / "jobs.db", "mode": "provider", "poll_seconds": 0.01}
    first = chain_of(vendor, stub).batch_job(rows, **options)
    first._store.parts.set_provider_id = lambda part, id: (_ for _ in ()).throw(
        KeyboardInterrupt
    )  # as a kill at this point

    with pytest.raises(KeyboardInterrupt):
        first.run()
    assert len(stub.batches) == 1
    second = chain_of(vendor, stub).batch_job(None, **options)
    results = {result.key: result.output for result in second.results()}

    assert results == {str(n): f"re: about {n}" for n in range(4)}
    assert stub.count("POST", CREATE[vendor]) == 1


def test_a_part_that_was_never_sent_is_sent_by_the_next_process(vendor, stub, tmp_path):
    options = {"store": tmp_path / "jobs.db", "mode": "provider", "poll_seconds": 0.01}
    first = chain_of(vendor, stub).batch_job([{"topic": "a"}], **options)
    api = first._target.batch_api()

    class Dies(type(api)):
        async def submit(self, *_):
            raise KeyboardInterrupt

    first._target.batch_api = lambda: Dies(api.endpoint)
    with pytest.raises(KeyboardInterrupt):
        first.run()

    results = list(chain_of(vendor, stub).batch_job(None, **options).results())
    assert [result.output for result in results] == ["re: about a"]
    assert stub.count("POST", CREATE[vendor]) == 1


@pytest.mark.parametrize("path", ["/(content|results)$", "batches/[^/]+$"])
def test_a_network_that_is_down_for_a_while_does_not_end_the_job(vendor, stub, monkeypatch, path):
    monkeypatch.setattr(BatchClient, "retries", 0)
    stub.broken_path, stub.broken_reads = path, 5
    job = chain_of(vendor, stub).batch_job(
        [{"topic": "a"}, {"topic": "b"}], mode="provider", poll_seconds=0.01
    )
    assert sorted(result.output for result in job.results()) == ["re: about a", "re: about b"]
    assert stub.broken_reads in (0, 5)  # Gemini's results come with the batch itself
    assert len(stub.batches) == 1


def test_a_provider_that_stays_away_ends_the_run_and_keeps_the_batch(stub, monkeypatch, tmp_path):
    monkeypatch.setattr(BatchClient, "retries", 0)
    stub.broken_path, stub.broken_reads = "batches/[^/]+$", 30
    options = {"mode": "provider", "poll_seconds": 0.01, "store": tmp_path / "jobs.db"}
    job = chain_of("openai", stub).batch_job([{"topic": "a"}], **options)
    with pytest.raises(ModelError):
        job.run()
    assert job.report().sent == 1
    stub.broken_reads = 0
    assert job.run().done == 1
    assert len(stub.batches) == 1


def test_cancelling_stops_the_batches_and_keeps_what_is_answered(vendor, stub, tmp_path):
    store = tmp_path / "jobs.db"
    options = {"store": store, "mode": "provider", "poll_seconds": 0.01, "part_requests": 2}
    stub.looks_until_done = 10**9
    job = chain_of(vendor, stub).batch_job([{"topic": str(n)} for n in range(4)], **options)
    api = job._target.batch_api()
    polls = []

    class Watches(type(api)):
        async def status(self, provider_id, io):
            polls.append(provider_id)
            if len(polls) == 5:
                chain_of(vendor, stub).batch_job(None, **options).cancel()
            return await super().status(provider_id, io)

    job._target.batch_api = lambda: Watches(api.endpoint)
    job._runner._cancel_check = -100.0
    report = job.run()

    assert all(row["cancelled"] for row in stub.batches.values())
    assert report.is_finished
    assert report.done + report.cancelled + report.failed == 4


def test_a_budget_is_not_passed_by_what_is_sent(vendor, stub):
    model = model_of(vendor, stub)
    each = model.batch_job(["x"])._target.batch_cost({"input_tokens": 10, "output_tokens": 1000})
    job = model.batch_job(
        [f"x {n}" for n in range(9)],
        mode="provider",
        poll_seconds=0.01,
        budget=Limits(cost=each * 3.5),
    )
    with pytest.raises(BudgetExceeded, match="stopped before its budget"):
        job.run()
    assert sum(len(row["rows"]) for row in stub.batches.values()) == 3
    assert job.report().waiting == 6


def test_a_provider_that_refuses_the_file_is_an_error_and_loses_nothing(stub):
    stub.ends_as = "failed"
    job = model_of("openai", stub).batch_job(
        ["a", "b"], mode="provider", poll_seconds=0.01, max_attempts=2
    )
    report = job.run()
    assert report.failed == 2
    assert "bad file" in next(iter(report.errors))


def test_a_wrong_key_is_told_and_the_items_wait(stub, tmp_path):
    model = ChatAnthropic(
        model="claude-sonnet-4-5", base_url=stub.url, api_key="wrong", max_tokens=5
    )
    job = model.batch_job(["a"], mode="provider", store=tmp_path / "j.db")
    with pytest.raises(ModelError):
        job.run()
    assert job.report().waiting == 1


def test_embeddings_go_as_a_batch(call, stub):
    model = OpenAIEmbeddings(base_url=f"{stub.url}/v1", api_key="k")
    job = model.batch_job(["a", "b", "refuse"], mode="provider", poll_seconds=0.01)
    results = run(call, job)
    assert results["0"].output == results["1"].output == [1.0, 2.0]
    assert "refused" in results["2"].error


def test_models_without_batches_say_so():
    azure = AzureChatOpenAI(
        azure_endpoint="https://x.invalid", api_key="k", azure_deployment="d", api_version="1"
    )
    for model in (azure, ChatGoogle(project="p", vertexai=True)):
        with pytest.raises(UsageError, match="has no batches of its provider"):
            model.batch_job(["a"], mode="provider").run()


# -- the vendors' own clients


def test_openais_client_reads_our_batch_and_the_stub_is_as_it_expects(stub):
    chain_of("openai", stub).batch_job(
        [{"topic": "rain"}], mode="provider", poll_seconds=0.01
    ).run()
    client = openai.OpenAI(base_url=f"{stub.url}/v1", api_key="k")

    (batch,) = list(client.batches.list(limit=2))
    assert batch.status == "completed"
    assert set(batch.metadata) == {"foldline_part"}
    line = json.loads(client.files.content(batch.output_file_id).text)
    assert line["response"]["body"]["choices"][0]["message"]["content"] == "re: about rain"
    content = stub.files[batch.input_file_id]
    sdk_file = client.files.create(file=("x.jsonl", content), purpose="batch")
    sdk_batch = client.batches.create(
        input_file_id=sdk_file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"a": "b"},
    )
    assert stub.files[sdk_file.id] == content
    assert client.batches.cancel(sdk_batch.id).status == "cancelled"
    client.close()


def test_anthropics_client_reads_our_batch_and_the_stub_is_as_it_expects(stub):
    chain_of("anthropic", stub).batch_job(
        [{"topic": "rain"}], mode="provider", poll_seconds=0.01
    ).run()
    client = anthropic.Anthropic(base_url=stub.url, api_key="k")

    (batch,) = list(client.messages.batches.list())
    assert batch.processing_status == "ended"
    (result,) = list(client.messages.batches.results(batch.id))
    assert result.result.message.content[0].text == "re: about rain"
    sdk_batch = client.messages.batches.create(requests=[{"custom_id": "x", "params": {
        "model": "claude-sonnet-5", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}}])  # fmt: skip
    sdk_row, foldline_row = stub.batches[sdk_batch.id]["rows"][0], stub.batches[batch.id]["rows"][0]
    assert sdk_row.keys() == foldline_row.keys()
    assert sdk_row["params"].keys() <= foldline_row["params"].keys()
    client.close()


def test_googles_client_reads_our_batch_and_the_stub_is_as_it_expects(stub):
    chain_of("google", stub).batch_job(
        [{"topic": "rain"}], mode="provider", poll_seconds=0.01
    ).run()
    client = genai.Client(
        api_key="k", http_options=types.HttpOptions(base_url=stub.url, api_version="v1beta")
    )

    (batch,) = list(client.batches.list())
    assert batch.state == types.JobState.JOB_STATE_SUCCEEDED
    assert batch.dest.inlined_responses[0].response.text == "re: about rain"
    sdk_batch = client.batches.create(
        model="gemini-2.5-flash",
        src=[
            types.InlinedRequest(
                contents=[types.Content(role="user", parts=[types.Part(text="hi")])],
                metadata={"key": "x"},
            )
        ],
        config={"display_name": "theirs"},
    )
    sdk_row, foldline_row = stub.batches[sdk_batch.name], stub.batches[batch.name]
    assert sdk_row["rows"][0].keys() == foldline_row["rows"][0].keys()
    assert sdk_row["title"] == "theirs"
    client.close()


def test_a_store_that_can_be_read_needs_no_chain_to_go_on(stub, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{stub.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    store = tmp_path / "jobs.db"
    chain = (
        ChatPromptTemplate.from_template("about {topic}")
        | ChatOpenAI(model="gpt-4o-mini")
        | StrOutputParser()
    )
    chain.batch_job(
        [{"topic": "a"}], store=store, mode="provider", poll_seconds=0.01
    )._inputs.read_page()

    job = BatchJob.resume(store, mode="provider", poll_seconds=0.01)

    assert [result.output for result in job.results()] == ["re: about a"]
