from __future__ import annotations

import pytest

from foldline.embedding_models import CLASSES, init_embeddings
from foldline.embeddings import Embeddings
from foldline.exceptions import UsageError
from foldline.providers.ollama import OllamaEmbeddings
from tests.servers import json_answer
from tests.servers.fixtures import fault_server, fault_server_process

__all__ = ["fault_server", "fault_server_process"]


def test_embeddings_are_made_by_name():
    model = init_embeddings("openai:text-embedding-3-small", dimensions=8, api_key="k")

    assert (type(model).__name__, model.model, model.dimensions) == (
        "OpenAIEmbeddings",
        "text-embedding-3-small",
        8,
    )
    assert type(init_embeddings("nomic:v1", provider="ollama")).__name__ == "OllamaEmbeddings"


@pytest.mark.parametrize("provider", sorted(set(CLASSES) - {"local", "azure_openai"}))
def test_every_provider_of_embeddings_is_there(provider):
    assert isinstance(init_embeddings(f"{provider}:amazon.titan-embed-text-v2"), Embeddings)


@pytest.mark.parametrize(
    ("model", "options", "problem"),
    [
        ("", {}, "name a model"),
        ("m", {}, 'write "provider:model"'),
        ("opnai:m", {}, "openai"),
        ("m", {"provider": "acme"}, "there are no embeddings of 'acme'"),
    ],
)
def test_a_name_that_is_not_known_is_refused(model, options, problem):
    with pytest.raises(UsageError, match=problem):
        init_embeddings(model, **options)


def test_ollama_makes_vectors(call, fault_server):
    fault_server.script(
        "/api/embed", json_answer({"embeddings": [[1, 0.5], [0, 1]], "prompt_eval_count": 4})
    )
    model = OllamaEmbeddings(model="m", base_url=fault_server.url, num_ctx=99, keep_alive="5m")

    assert call.run(model, "embed_documents", ["a", "b"]) == [[1.0, 0.5], [0.0, 1.0]]
    request = fault_server.requests()[-1]
    assert request.json() == {
        "model": "m",
        "input": ["a", "b"],
        "keep_alive": "5m",
        "options": {"num_ctx": 99},
    }
