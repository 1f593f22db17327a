"""The table of names: every row resolves, or has advice on what to use instead."""

from importlib import import_module

import pytest

from foldline.compat.names import advice_for, find_home, find_module, rows, versions

ROWS = list(rows())


@pytest.mark.parametrize("package", versions())
def test_every_row_of_a_package_resolves_or_has_advice(package):
    rows = [row for row in ROWS if row.source.partition(".")[0] == package]
    broken = [
        row.source
        for row in rows
        if row.home is not None and not hasattr(import_module(row.home.module), row.home.name)
    ]
    silent = [row.source for row in rows if row.home is None and not row.advice]

    assert rows
    assert broken == []
    assert silent == []


def test_community_has_rows_for_what_programs_use():
    rows = [row for row in ROWS if row.source.startswith("langchain_community.")]
    assert all(
        row.home is None or hasattr(import_module(row.home.module), row.home.name) for row in rows
    )
    assert any(row.home is not None for row in rows)


@pytest.mark.parametrize(
    ("module", "name", "path"),
    [
        ("langchain_core.messages", "AIMessage", "foldline.messages.AIMessage"),
        ("langchain_openai", "ChatOpenAI", "foldline.providers.openai.ChatOpenAI"),
        ("langgraph.graph", "StateGraph", "foldline.graph.StateGraph"),
        ("langchain.agents", "create_agent", "foldline.agents.create_agent"),
        ("langchain_classic.chains", "LLMChain", "foldline.chains.LLMChain"),
        ("langchain_core", "messages", "foldline.messages"),
        ("langchain_core.runnables.base", "_seq_input_schema", None),
        ("langchain_community.vectorstores", "FAISS", None),
        ("langchain_pinecone", "PineconeVectorStore", None),
    ],
)
def test_a_name_is_found_at_its_home(module, name, path):
    home = find_home(module, name)
    assert (home and home.path) == path
    assert path is not None or advice_for(module, name)


def test_stores_of_langgraph_are_not_sent_to_those_of_core():
    assert find_home("langgraph.store.memory", "InMemoryStore") != find_home(
        "langchain_core.stores", "InMemoryStore"
    )
    assert find_module("langchain_core.output_parsers.openai_tools") is not None
