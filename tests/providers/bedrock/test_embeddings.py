"""Embeddings of Titan and Cohere over InvokeModel, against the stub that checks signatures."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError, ModelAuthenticationError
from foldline.providers.bedrock import BedrockEmbeddings
from tests.servers.bedrock import ACCESS_KEY, REGION, SECRET_KEY, BedrockStub

KEYS = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}


def model_of(stub: BedrockStub, answer: Any, **fields: Any) -> BedrockEmbeddings:
    stub.answer = answer
    settings = {"base_url": stub.url, "region_name": REGION, "max_retries": 0, **KEYS}
    return BedrockEmbeddings(**{**settings, **fields})


def test_titan_embeds_one_text_in_a_request(stub, call):
    model = model_of(
        stub, {"embedding": [1, 2], "inputTextTokenCount": 3}, dimensions=2, normalize=False
    )

    assert call.run(model, "embed_documents", ["a", "b", "c"]) == [[1.0, 2.0]] * 3
    bodies = sorted(request["body"]["inputText"] for request in stub.requests)
    assert bodies == ["a", "b", "c"]
    assert stub.requests[0]["body"].items() >= {"dimensions": 2, "normalize": False}.items()
    assert stub.requests[0]["path"] == "/model/amazon.titan-embed-text-v2%3A0/invoke"


def test_vectors_come_in_the_order_of_the_texts(stub, call):
    model = model_of(stub, {"embedding": [0.5]}, max_concurrency=1)

    assert call.run(model, "embed_documents", list("abcde")) == [[0.5]] * 5
    assert [request["body"]["inputText"] for request in stub.requests] == list("abcde")


@pytest.mark.parametrize(
    ("model_id", "body"),
    [
        ("amazon.titan-embed-text-v1", {"inputText": "a"}),
        ("amazon.titan-embed-text-v2:0", {"inputText": "a", "dimensions": 1}),
        (
            "amazon.titan-embed-image-v1",
            {"inputText": "a", "embeddingConfig": {"outputEmbeddingLength": 1}},
        ),
    ],
)
def test_every_titan_takes_its_own_options(stub, call, model_id, body):
    model = model_of(stub, {"embedding": [0.5]}, model=model_id, dimensions=1)

    assert call.run(model, "embed_query", "a") == [0.5]
    assert stub.requests[0]["body"] == body


@pytest.mark.parametrize(
    "answer", [{"embeddings": [[1, 0], [0, 1]]}, {"embeddings": {"float": [[1, 0], [0, 1]]}}]
)
def test_cohere_embeds_many_at_once(stub, call, answer):
    model = model_of(stub, answer, model_id="cohere.embed-english-v3", truncate="END")

    assert call.run(model, "embed_documents", ["a", "b"]) == [[1.0, 0.0], [0.0, 1.0]]
    assert stub.requests[0]["body"] == {
        "texts": ["a", "b"],
        "input_type": "search_document",
        "truncate": "END",
    }


def test_cohere_is_told_of_a_query(stub, call):
    model = model_of(
        stub,
        {"embeddings": [[1]]},
        model="us.cohere.embed-v4:0",
        dimensions=1,
        model_kwargs={"max_tokens": 9},
    )

    assert call.run(model, "embed_query", "a") == [1.0]
    assert stub.requests[0]["body"] == {
        "texts": ["a"],
        "input_type": "search_query",
        "output_dimension": 1,
        "max_tokens": 9,
    }


def test_cohere_takes_no_more_than_96_texts(stub, call):
    model = model_of(stub, {"embeddings": [[1]] * 96}, model="cohere.embed-multilingual-v3")

    assert len(call.run(model, "embed_documents", ["a"] * 192)) == 192
    assert [len(request["body"]["texts"]) for request in stub.requests] == [96, 96]


def test_no_texts_are_no_requests(stub, call):
    assert call.run(model_of(stub, {}), "embed_documents", []) == []
    assert stub.requests == []


def test_a_family_is_named_for_an_arn(stub, call):
    arn = "arn:aws:bedrock:eu-central-1:123456789012:provisioned-model/abc"
    with pytest.raises(ValueError, match="model_family"):
        BedrockEmbeddings(model=arn)

    model = model_of(stub, {"embedding": [1]}, model=arn, model_family="titan")
    assert call.run(model, "embed_query", "a") == [1.0]


def test_errors_are_typed_and_show_no_key(stub, call):
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.run(model_of(stub, {}, aws_secret_access_key="wrong-secret"), "embed_query", "a")
    assert ACCESS_KEY not in f"{excinfo.value} {excinfo.value.body}"
    for answer in ({"embedding": "x"}, {}, [], {"embedding": None}):
        with pytest.raises(MalformedStreamError):
            call.run(model_of(stub, answer), "embed_query", "a")
    with pytest.raises(ModelAuthenticationError):
        call.run(
            model_of(stub, {}, aws_access_key_id=None, aws_secret_access_key=None),
            "embed_documents",
            ["a", "b"],
        )
