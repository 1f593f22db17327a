"""The official package as judge of `OpenAI` and `AzureOpenAI`: it sends what we send, and reads what we read."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from foldline.providers.openai import AzureOpenAI, OpenAI
from tests.providers.text_wires import WHOLE, WIRES

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all": {
        "temperature": 0.5,
        "top_p": 0.9,
        "n": 1,
        "best_of": 2,
        "seed": 1,
        "stop": ["x"],
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "logit_bias": {"50256": -100},
        "logprobs": 2,
        "echo": True,
        "suffix": "end",
        "user": "u",
    },
}


@pytest.mark.parametrize("name", OPTIONS)
def test_they_send_what_we_send(call, fault_server, name):
    fault_server.script("/v1/completions", WHOLE["openai"])
    root = f"{fault_server.url}/v1"
    call.invoke(OpenAI(base_url=root, api_key="k", **OPTIONS[name]), "Hi")
    with openai.OpenAI(base_url=root, api_key="k", max_retries=0) as client:
        client.completions.create(
            model="gpt-3.5-turbo-instruct", prompt="Hi", max_tokens=256, **OPTIONS[name]
        )
    foldline_request, sdk_request = fault_server.requests("/v1/completions")
    assert foldline_request.json() == sdk_request.json()
    assert foldline_request.headers["authorization"] == sdk_request.headers["authorization"]


def test_they_ask_azure_as_we_do(call, fault_server):
    wire = WIRES["azure"]
    fault_server.script(wire.path, WHOLE["azure"])
    call.invoke(wire.model(fault_server), "Hi")
    client = openai.AzureOpenAI(
        azure_endpoint=fault_server.url,
        azure_deployment="mine",
        api_version="2024-10-21",
        api_key="key-123456",
    )
    with client:
        client.completions.create(model="mine", prompt="Hi", max_tokens=256)
    foldline_request, sdk_request = fault_server.requests(wire.path)
    assert foldline_request.json() == sdk_request.json()
    assert foldline_request.path == sdk_request.path
    assert foldline_request.headers["api-key"] == sdk_request.headers["api-key"]
    assert wire.kind is AzureOpenAI


def test_they_read_the_stream_as_we_do(call, fault_server):
    wire = WIRES["openai"]
    fault_server.script(wire.path, wire.stream)
    with openai.OpenAI(base_url=f"{fault_server.url}/v1", api_key="k") as client:
        chunks = list(client.completions.create(model="m", prompt="Hi", stream=True))
    sdk_text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert "".join(call.stream(wire.model(fault_server), "Hi")) == sdk_text
