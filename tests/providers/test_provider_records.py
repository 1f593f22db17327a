"""AIGNE's words on a provider, over the wire: `run`, delta records, `process`, `preprocess` and `postprocess`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.language_models import ChatModelInput, add_deltas
from foldline.providers.openai import ChatOpenAI
from tests.providers.test_shared_http import CHAT, HELLO, STOP, WHOLE, model
from tests.servers import FaultServer, json_answer, sse_answer

RECORD = {
    "messages": [{"role": "user", "content": "Hi"}],
    "modelOptions": {"topP": 0.5, "frequencyPenalty": 0.1},
}


class Managed(ChatOpenAI):
    async def preprocess(self, input, options):
        await asyncio.sleep(0)
        return {"messages": input.messages, "modelOptions": {"topK": 3, "promptCacheKey": "p"}}

    def postprocess(self, input, output, options):
        return output.model_copy(update={"text": f"{output.text}!"})


class Overriding(ChatOpenAI):
    def process(self, input, options):
        return {"text": super().process(input, options).text.upper()}

    async def aprocess(self, input, options):
        return {"text": (await super().aprocess(input, options)).text.upper()}


def managed(cls: type[ChatOpenAI], server: FaultServer) -> ChatOpenAI:
    return cls(base_url=f"{server.url}/v1", api_key="sk-canary", model="m")


def test_a_record_is_sent_in_the_vendors_spelling(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))

    output = call.run(model(fault_server), "run", RECORD)

    body = fault_server.requests()[0].json()
    assert (body["top_p"], body["frequency_penalty"]) == (0.5, 0.1)
    assert not {"topP", "frequencyPenalty", "streaming", "modelOptions"} & body.keys()
    assert (output.text, output.model) == ("Hello", "m-1")


def test_delta_records_come_from_the_vendors_stream(fault_server: FaultServer) -> None:
    fault_server.script(CHAT, sse_answer([*HELLO, STOP], done="[DONE]"))

    deltas = list(model(fault_server).run(RECORD, streaming=True))

    assert fault_server.requests()[0].json()["stream"] is True
    assert [delta["delta"].get("text") for delta in deltas[:2]] == [{"text": "Hel"}, {"text": "lo"}]
    assert add_deltas(deltas).text == "Hello"


def test_preprocess_and_postprocess_of_a_providers_subclass_are_called(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))

    assert call.invoke(managed(Managed, fault_server), "Hi").text == "Hello!"
    assert fault_server.requests()[0].json()["prompt_cache_key"] == "p"


@pytest.mark.parametrize("record", [RECORD, ChatModelInput(**RECORD)])
def test_process_of_a_provider_asks_it_once(
    call: Any, fault_server: FaultServer, record: Any
) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))

    output = call.run(model(fault_server), "process", record)

    assert output.text == "Hello"
    body = fault_server.requests()[0].json()
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert (body["top_p"], body["frequency_penalty"]) == (0.5, 0.1)


def test_process_of_a_providers_subclass_may_ask_the_provider(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(CHAT, json_answer(WHOLE))

    assert call.invoke(managed(Overriding, fault_server), "Hi").text == "HELLO"
