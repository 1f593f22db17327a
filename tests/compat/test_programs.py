"""Behaviour that programs written for LangChain rely on: settings, schemas, chains, tools."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ValidationError

from foldline.agents import create_agent
from foldline.chains import ConversationalRetrievalChain, LLMChain, SimpleSequentialChain
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.exceptions import UsageError
from foldline.graph import Command
from foldline.language_models import FakeListChatModel, FakeListLLM, GenericFakeChatModel
from foldline.messages import AIMessage, ToolMessage
from foldline.prompts import PromptTemplate
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI, OpenAIEmbeddings
from foldline.runnables import ConfigurableField
from foldline.tools import InjectedToolCallId, tool
from foldline.vectorstores import InMemoryVectorStore
from tests.servers import json_answer


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


class Joke(BaseModel):
    setup: str
    rating: int | None = None


class Open(BaseModel):
    facts: dict[str, Any]


def chat(server, **fields):
    return ChatOpenAI(model="gpt-4o-mini", base_url=f"{server.url}/v1", api_key="sk-1", **fields)


def answer(text):
    message = {"role": "assistant", "content": text}
    return json_answer(
        {
            "id": "1",
            "object": "chat.completion",
            "model": "gpt-4o-mini",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }
    )


def test_the_default_of_embeddings_is_langchains():
    assert OpenAIEmbeddings(api_key="k").model == "text-embedding-ada-002"


def test_settings_of_langchains_client_are_taken():
    embeddings = OpenAIEmbeddings(
        api_key="k",
        check_embedding_ctx_length=False,
        show_progress_bar=True,
        tiktoken_enabled=False,
        deployment="d",
    )
    assert embeddings.model == "text-embedding-ada-002"
    with pytest.raises(ValueError, match="chunk_sise"):
        OpenAIEmbeddings(api_key="k", chunk_sise=3)


def test_settings_can_be_read_and_configured_by_their_other_names(call, fault_server):
    fault_server.script("/v1/chat/completions", answer("x"))
    model = chat(fault_server)

    assert model.openai_api_key == model.api_key
    assert model.openai_api_base == model.base_url
    assert ChatAnthropic(model="m", api_key="k").anthropic_api_key.get_secret_value() == "k"
    with pytest.raises(AttributeError):
        _ = model.no_such_name
    configurable_model = model.configurable_fields(model_name=ConfigurableField(id="m"))
    call.invoke(configurable_model, "hi", {"configurable": {"m": "other"}})
    assert fault_server.requests()[-1].json()["model"] == "other"


def test_a_schema_that_can_be_closed_is_strict_for_openai(call, fault_server):
    fault_server.script("/v1/chat/completions", answer('{"setup": "a", "rating": null}'))
    assert call.invoke(chat(fault_server).with_structured_output(Joke), "hi") == Joke(setup="a")

    json_schema = fault_server.requests()[-1].json()["response_format"]["json_schema"]
    assert json_schema["strict"] is True
    assert json_schema["schema"]["additionalProperties"] is False
    assert json_schema["schema"]["required"] == ["setup", "rating"]
    assert "default" not in json_schema["schema"]["properties"]["rating"]


def test_an_open_schema_is_not_strict(call, fault_server):
    fault_server.script("/v1/chat/completions", answer('{"facts": {"a": 1}}'))
    call.invoke(chat(fault_server).with_structured_output(Open), "hi")
    assert "strict" not in fault_server.requests()[-1].json()["response_format"]["json_schema"]


def test_json_mode_needs_no_schema(call, fault_server):
    fault_server.script("/v1/chat/completions", answer('{"a": 1}'))
    assert call.invoke(chat(fault_server).with_structured_output(method="json_mode"), "JSON") == {
        "a": 1
    }
    assert fault_server.requests()[-1].json()["response_format"] == {"type": "json_object"}
    with pytest.raises(UsageError, match="needs a schema"):
        chat(fault_server).with_structured_output()


def test_responses_v1_is_understood():
    assert chat_version("responses/v1") == "v1"
    with pytest.raises(ValidationError, match="'v7'"):
        chat_version("v7")


def chat_version(version):
    return ChatOpenAI(model="m", api_key="k", output_version=version)._output_version


def test_the_history_reaches_the_answering_prompt(call):
    store = InMemoryVectorStore.from_texts(
        ["fact"], DeterministicFakeEmbedding(size=4), collection_name="of another store"
    )
    prompt = PromptTemplate.from_template("{chat_history} {context} {question}")
    chain = ConversationalRetrievalChain.from_llm(
        FakeListChatModel(responses=["x"]),
        store.as_retriever(),
        combine_docs_chain_kwargs={"prompt": prompt},
    )
    assert call.invoke(chain, {"question": "q", "chat_history": [("a", "b")]})["answer"] == "x"


def test_a_verbose_sequence_prints_its_steps(capsys):
    model, prompt = FakeListLLM(responses=["one", "two"]), PromptTemplate.from_template("{x}")
    chains = [LLMChain(llm=model, prompt=prompt) for _ in range(2)]
    SimpleSequentialChain(chains=chains, verbose=True).invoke("q")

    out = capsys.readouterr().out
    assert out.index("one") < out.index("two")


def test_the_answer_of_a_command_has_the_tools_name(call):
    @tool
    def note(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Take a note."""
        return Command(update={"messages": [ToolMessage("noted", tool_call_id=tool_call_id)]})

    asks = AIMessage("", tool_calls=[{"name": "note", "args": {}, "id": "c1"}])
    agent = create_agent(ScriptedModel(messages=iter([asks, AIMessage("done")])), [note])
    answers = call.invoke(agent, {"messages": "hi"})["messages"]
    assert [message.name for message in answers if message.type == "tool"] == ["note"]
