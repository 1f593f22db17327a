"""Memories of entities and of facts: the prompts, the stored values, the loaded variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foldline.chains import LLMChain
from foldline.language_models import FakeListChatModel
from foldline.memory import (
    ConversationEntityMemory,
    ConversationKGMemory,
    InMemoryEntityStore,
    KnowledgeTriple,
    StoredEntities,
)
from foldline.memory.knowledge import KnowledgeGraph
from foldline.messages import HumanMessage, SystemMessage
from foldline.prompts import PromptTemplate
from foldline.stores import InMemoryByteStore, SQLiteStore
from foldline.testing import ScriptedChatModel


def test_entities_are_summed_up_and_come_back_by_name(call: Any):
    model = ScriptedChatModel(script=["Ann, Bob", "Ann paints.", "Bob sings.", "Bob"])
    memory = ConversationEntityMemory(llm=model)
    inputs = {"input": "Ann paints and Bob sings"}

    before = call.run(memory, "load_memory_variables", inputs)
    call.run(memory, "save_context", inputs, {"output": "Nice!"})
    after = call.run(memory, "load_memory_variables", {"input": "What does Bob do?"})

    assert before == {"history": "", "entities": {"Ann": "", "Bob": ""}}
    assert after["entities"] == {"Bob": "Bob sings."}
    assert after["history"] == "Human: Ann paints and Bob sings\nAI: Nice!"
    summing_up = model.requests[1].messages[0].text
    assert "what is known of Ann" in summing_up
    assert "Ann paints and Bob sings" in summing_up


def test_a_later_summary_goes_on_from_the_one_before(call: Any):
    model = ScriptedChatModel(script=["Ann", "Ann paints.", "Ann", "Ann paints and sings."])
    memory = ConversationEntityMemory(llm=model)

    for text in ("Ann paints", "She sings too"):
        call.run(memory, "load_memory_variables", {"input": text})
        call.run(memory, "save_context", {"input": text}, {"output": "Ok"})

    assert "Known of Ann:\nAnn paints." in model.requests[3].messages[0].text
    assert memory.entity_store.get("Ann") == "Ann paints and sings."


@pytest.mark.parametrize("answer", ["NONE", "none.", "  "])
def test_where_nothing_is_named_nothing_is_asked_again(answer: str, call: Any):
    memory = ConversationEntityMemory(llm=FakeListChatModel(responses=[answer]))

    variables = call.run(memory, "load_memory_variables", {"input": "Hello"})
    call.run(memory, "save_context", {"input": "Hello"}, {"output": "Hi"})

    assert variables["entities"] == {}
    assert memory.entity_store == InMemoryEntityStore()


def test_only_the_last_turns_are_given_and_as_messages_where_asked(call: Any):
    memory = ConversationEntityMemory(
        llm=FakeListChatModel(responses=["NONE"]), k=1, return_messages=True
    )
    for text in ("one", "two"):
        call.run(memory, "save_context", {"input": text}, {"output": "ok"})

    variables = call.run(memory, "load_memory_variables", {"input": "three"})

    assert variables["history"][0] == HumanMessage("two")
    assert len(variables["history"]) == 2


def test_a_chain_with_this_memory_knows_the_entities(call: Any):
    prompt = PromptTemplate.from_template("{entities} {history} {input}")
    memory = ConversationEntityMemory(
        llm=FakeListChatModel(responses=["Ann", "Ann paints.", "Ann", "Ann paints."])
    )
    model = ScriptedChatModel(script=["Nice!", "She paints."])
    chain = LLMChain(prompt=prompt, llm=model, memory=memory)

    call.invoke(chain, {"input": "Ann paints"})
    call.invoke(chain, {"input": "Ann?"})

    assert "{'Ann': 'Ann paints.'}" in model.requests[1].messages[0].text


def test_clear_forgets_turns_and_entities(call: Any):
    memory = ConversationEntityMemory(llm=FakeListChatModel(responses=["Ann", "Ann paints."]))
    call.run(memory, "load_memory_variables", {"input": "Ann paints"})
    call.run(memory, "save_context", {"input": "Ann paints"}, {"output": "Ok"})

    call.run(memory, "clear")

    assert memory.chat_memory.messages == []
    assert memory.entity_cache == []
    assert not memory.entity_store.exists("Ann")


def test_entities_in_a_store_outlive_the_process(tmp_path: Path):
    for store in (InMemoryByteStore(), SQLiteStore(tmp_path / "entities.db")):
        store.mset([("other", b"1")])
        entities = StoredEntities(store=store)
        entities.set("Ann", "Ann paints.")
        entities.set("Bob", "Bob sings.")
        entities.set("Bob", None)

        assert StoredEntities(store=store).get("Ann") == "Ann paints."
        assert not entities.exists("Bob")
        assert entities.get("Bob", "nobody") == "nobody"
        entities.clear()
        assert not entities.exists("Ann")
        assert store.mget(["other"]) == [b"1"]


def test_facts_come_back_by_what_they_are_about(call: Any):
    facts = "(Ann | lives in | Rome)\n(Ann | paints | boats)\nwhat?"
    memory = ConversationKGMemory(llm=FakeListChatModel(responses=[facts, "Ann", "Ann"]))

    call.run(memory, "save_context", {"input": "Ann lives in Rome"}, {"output": "Ok"})
    variables = call.run(memory, "load_memory_variables", {"input": "Where is Ann?"})
    memory.return_messages = True
    messages = call.run(memory, "load_memory_variables", {"input": "Where is Ann?"})

    assert variables == {"history": "On Ann: Ann lives in Rome. Ann paints boats."}
    assert messages["history"] == [SystemMessage(variables["history"])]


def test_a_new_fact_replaces_the_old_one_of_the_same_relation():
    graph = KnowledgeGraph()
    for place in ("Rome", "Oslo"):
        graph.add_triple(KnowledgeTriple("Ann", "lives in", place))

    assert graph.get_entity_knowledge("Ann") == ["Ann lives in Oslo"]


def test_clear_forgets_facts(call: Any):
    memory = ConversationKGMemory(llm=FakeListChatModel(responses=["(Ann | paints | boats)"]))
    call.run(memory, "save_context", {"input": "Ann paints boats"}, {"output": "Ok"})

    call.run(memory, "clear")

    assert memory.kg.triples == []
