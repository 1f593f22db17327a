"""Gemini's batches as files, and of embeddings; Google's own client sends and reads the same."""

from __future__ import annotations

import json

import pytest
from google import genai
from google.genai import types

from foldline.exceptions import UsageError
from foldline.output_parsers import StrOutputParser
from foldline.providers.google import ChatGoogle, GoogleGenerativeAIEmbeddings, _batches as batches


def chain_of(stub):
    model = ChatGoogle(
        model="gemini-2.5-flash", base_url=f"{stub.url}/v1beta", api_key="k", max_tokens=1000
    )
    return model | StrOutputParser()


def embeddings_of(stub, **options):
    return GoogleGenerativeAIEmbeddings(base_url=f"{stub.url}/v1beta", api_key="k", **options)


def client_of(stub):
    options = types.HttpOptions(base_url=stub.url, api_version="v1beta")
    return genai.Client(api_key="k", http_options=options)


@pytest.fixture
def small_body(monkeypatch):
    monkeypatch.setattr(batches, "INLINE_BYTES", 400)


def test_a_batch_too_large_for_a_body_goes_and_comes_as_a_file(call, stub, small_body):
    prompts = [f"thing {number}" for number in range(9)] + ["refuse me", "missing"]
    job = chain_of(stub).batch_job(prompts, mode="provider", poll_seconds=0.01, max_attempts=1)

    results = {result.key: result for result in call.run(job, "results")}

    assert [results[str(n)].output for n in range(9)] == [f"re: thing {n}" for n in range(9)]
    assert "refused" in results["9"].error
    assert "has no result for it" in results["10"].error
    (batch,) = stub.batches.values()
    assert batch["file"].startswith("files/")
    lines = [json.loads(line) for line in stub.files[batch["file"]].splitlines()]
    assert [set(line) for line in lines] == [{"key", "request"}] * 11
    assert len({line["key"] for line in lines}) == 11


def test_the_key_is_not_sent_to_the_address_of_an_upload(stub, small_body):
    chain_of(stub).batch_job(
        [f"thing {number}" for number in range(9)], mode="provider", poll_seconds=0.01
    ).run()
    headers = dict(zip(stub.requests, stub.headers, strict=True))
    (upload,) = [path for path in headers if path[1].startswith("/upload/v1beta/files/")]
    assert "x-goog-api-key" not in headers[upload]
    assert "authorization" not in headers[upload]


@pytest.mark.parametrize("is_file", [False, True])
def test_embeddings_go_as_a_batch(call, stub, monkeypatch, is_file):
    if is_file:
        monkeypatch.setattr(batches, "INLINE_BYTES", 100)
    job = embeddings_of(stub, output_dimensionality=2).batch_job(
        ["a", "b", "refuse", 5], mode="provider", poll_seconds=0.01
    )

    results = {result.key: result for result in call.run(job, "results")}

    assert results["0"].output == results["1"].output == [1.0, 2.0]
    assert results["0"].input_tokens == 3
    assert results["0"].cost is None
    assert "refused" in results["2"].error
    assert "only text can be embedded" in results["3"].error
    (batch,) = stub.batches.values()
    assert batch["method"] == "asyncBatchEmbedContent"
    assert (batch["file"] is not None) is is_file
    assert batch["rows"][0]["request"]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert batch["rows"][0]["request"]["outputDimensionality"] == 2


def test_vertex_has_other_batches_and_says_so():
    model = GoogleGenerativeAIEmbeddings(project="p", vertexai=True)
    with pytest.raises(UsageError, match="has no batches of its provider"):
        model.batch_job(["a"], mode="provider").run()


# -- the vendor's own client


def test_googles_client_sends_the_same_file_and_reads_ours(stub, small_body, tmp_path):
    chain_of(stub).batch_job(
        [f"thing {number}" for number in range(9)], mode="provider", poll_seconds=0.01
    ).run()
    (foldline_batch,) = stub.batches.values()
    client = client_of(stub)

    (batch,) = list(client.batches.list())
    assert batch.state == types.JobState.JOB_STATE_SUCCEEDED
    lines = client.files.download(file=batch.dest.file_name).splitlines()
    answers = [json.loads(line) for line in lines]
    assert answers[0]["response"]["candidates"][0]["content"]["parts"][0]["text"] == "re: thing 0"

    file = tmp_path / "requests.jsonl"
    file.write_bytes(stub.files[foldline_batch["file"]])
    upload = client.files.upload(file=file, config={"mime_type": "application/jsonl"})
    sdk_job = client.batches.create(
        model="gemini-2.5-flash", src=upload.name, config={"display_name": "theirs"}
    )
    sdk_batch = stub.batches[sdk_job.name]
    assert sdk_batch["rows"] == foldline_batch["rows"]
    client.close()


def test_googles_client_reads_our_embeddings_and_sends_the_same(stub):
    embeddings_of(stub).batch_job(["a"], mode="provider", poll_seconds=0.01).run()
    client = client_of(stub)

    (batch,) = list(client.batches.list())
    response = batch.dest.inlined_embed_content_responses[0].response
    assert response.embedding.values == [1.0, 2.0]
    requests = types.EmbedContentBatch(
        contents=[types.Content(parts=[types.Part(text="a")])],
        config=types.EmbedContentConfig(task_type="RETRIEVAL_DOCUMENT"),
    )
    with pytest.warns(Warning, match="experimental"):
        sdk_job = client.batches.create_embeddings(
            model="gemini-embedding-001",
            src=types.EmbeddingsBatchJobSource(inlined_requests=requests),
            config={"display_name": "theirs"},
        )
    sdk_row, foldline_row = (
        stub.batches[sdk_job.name]["rows"][0],
        stub.batches[batch.name]["rows"][0],
    )
    assert sdk_row["request"].keys() <= foldline_row["request"].keys()
    assert sdk_row["request"]["taskType"] == foldline_row["request"]["taskType"]
    client.close()
