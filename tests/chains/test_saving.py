"""`Chain.save` and `load_chain`: a chain as a JSON file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foldline.chains import (
    ConversationChain,
    LLMChain,
    RetrievalQA,
    SequentialChain,
    StuffDocumentsChain,
    TransformChain,
    load_chain,
)
from foldline.exceptions import SchemaError, SecurityError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.prompts import PromptTemplate
from foldline.providers.openai import ChatOpenAI
from foldline.retrievers import BM25Retriever

PROMPT = PromptTemplate.from_template("Say {word}")


def model() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-5-mini", api_key="sk-secret", temperature=0.5)


def test_a_chain_comes_back_as_it_was_without_its_key(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    file = tmp_path / "chain.json"

    LLMChain(prompt=PROMPT, llm=model(), output_key="said").save(file)
    chain = load_chain(file)

    assert "sk-secret" not in file.read_text()
    assert isinstance(chain, LLMChain)
    assert (chain.prompt, chain.output_key) == (PROMPT, "said")
    assert (chain.llm.model, chain.llm.temperature) == ("gpt-5-mini", 0.5)


def test_chains_of_chains_come_back(tmp_path: Path):
    inner = LLMChain(prompt=PROMPT, llm=model())
    chains = {
        "stuff": StuffDocumentsChain(
            llm_chain=LLMChain(prompt=PromptTemplate.from_template("{context}"), llm=model())
        ),
        "row": SequentialChain(chains=[inner], input_variables=["word"]),
    }

    for name, chain in chains.items():
        chain.save(tmp_path / f"{name}.json")

    for name, chain in chains.items():
        loaded_chain = load_chain(tmp_path / f"{name}.json")
        assert type(loaded_chain) is type(chain)
        assert loaded_chain.input_keys == chain.input_keys


def test_data_that_names_a_provider_is_loaded_only_where_that_is_allowed(tmp_path: Path):
    file = tmp_path / "chain.json"
    LLMChain(prompt=PROMPT, llm=model()).save(file)

    with pytest.raises(SchemaError, match="ChatOpenAI may not be loaded here"):
        load_chain(file, allowed_objects="core")


def test_what_cannot_be_written_is_named_and_no_file_is_left(tmp_path: Path):
    file = tmp_path / "chain.json"
    stuff = StuffDocumentsChain(
        llm_chain=LLMChain(prompt=PromptTemplate.from_template("{context}"), llm=model())
    )
    fake = LLMChain(prompt=PROMPT, llm=FakeListChatModel(responses=["hi"]))
    qa_chain = RetrievalQA(combine_documents_chain=stuff, retriever=BM25Retriever.from_texts(["a"]))
    function = TransformChain(input_variables=["a"], output_variables=["b"], transform=dict)

    with pytest.raises(UsageError, match="FakeListChatModel cannot be written"):
        fake.save(file)
    with pytest.raises(UsageError, match="BM25Retriever cannot be written"):
        qa_chain.save(file)
    with pytest.raises(UsageError, match="TransformChain cannot be written"):
        function.save(file)
    with pytest.raises(UsageError, match="set memory=None"):
        ConversationChain(llm=model()).save(file)
    assert not file.exists()


def test_a_file_that_is_no_json_or_no_chain_is_refused(tmp_path: Path):
    (tmp_path / "prompt.json").write_text(json.dumps({"a": 1}))

    with pytest.raises(UsageError, match=r"ends in \.json"):
        LLMChain(prompt=PROMPT, llm=model()).save(tmp_path / "chain.yaml")
    with pytest.raises(UsageError, match="not a chain"):
        load_chain(tmp_path / "prompt.json")
    with pytest.raises(SecurityError, match=r"'\.\.'"):
        load_chain(tmp_path / ".." / "x.json")
