"""Summaries, the best of several answers, arithmetic."""

from __future__ import annotations

import asyncio

import pytest

from foldline.chains import (
    LLMChain,
    LLMMathChain,
    MapRerankDocumentsChain,
    acollapse_docs,
    collapse_docs,
    load_summarize_chain,
    split_list_of_docs,
)
from foldline.chains.map_rerank import RERANK_PROMPT
from foldline.documents import Document
from foldline.exceptions import OutputParserException, UsageError
from foldline.language_models import FakeListChatModel
from foldline.prompts import PromptTemplate
from foldline.runnables import RunnableLambda
from foldline.utils._arithmetic import evaluate

DOCUMENTS = [Document("one", metadata={"n": 1}), Document("two", metadata={"n": 2})]


@pytest.mark.parametrize(
    ("kind", "answers", "summary"),
    [("stuff", ["all"], "all"), ("refine", ["first", "both"], "both")],
)
def test_documents_are_summarised(call, kind, answers, summary):
    chain = load_summarize_chain(FakeListChatModel(responses=answers), chain_type=kind)

    assert call.invoke(chain, {"input_documents": DOCUMENTS})["output_text"] == summary


def test_each_document_is_summarised_and_then_all(call):
    prompt = PromptTemplate.from_template("S: {text}")
    model = RunnableLambda(lambda value: value.text.removeprefix("S: ").replace("\n\n", "+") + "!")
    chain = load_summarize_chain(model, "map_reduce", map_prompt=prompt, combine_prompt=prompt)

    assert call.invoke(chain, {"input_documents": DOCUMENTS})["output_text"] == "one!+two!!"


def test_another_kind_is_refused():
    model = FakeListChatModel(responses=["a"])

    with pytest.raises(UsageError, match="Got unsupported chain type: x"):
        load_summarize_chain(model, "x")
    with pytest.raises(ValueError, match="collapse_prompt was not"):
        load_summarize_chain(model, "map_reduce", collapse_llm=model)


def length(documents, **kwargs):
    return sum(len(document.page_content) for document in documents)


def test_lists_of_documents_are_split_and_collapsed():
    assert split_list_of_docs([*DOCUMENTS, DOCUMENTS[0]], length, 6) == [DOCUMENTS, [DOCUMENTS[0]]]
    with pytest.raises(ValueError, match="A single document was longer"):
        split_list_of_docs(DOCUMENTS, length, 2)

    async def combine(documents, **kwargs):
        return "+".join(document.page_content for document in documents)

    expected = Document("one+two", metadata={"n": "1, 2"})
    assert collapse_docs(DOCUMENTS, lambda documents: "one+two") == expected
    assert asyncio.run(acollapse_docs(DOCUMENTS, combine)) == expected


def test_the_answer_with_the_best_score_is_given(call):
    model = RunnableLambda(
        lambda value: "Paris\nScore: 90" if "two" in value.text else "Rome\n\nScore: 20"
    )
    chain = MapRerankDocumentsChain(
        llm_chain=LLMChain(llm=model, prompt=RERANK_PROMPT),
        metadata_keys=["n"],
        return_intermediate_steps=True,
    )

    outputs = call.invoke(chain, {"input_documents": DOCUMENTS, "question": "where?"})

    assert (outputs["output_text"], outputs["n"]) == ("Paris", 2)
    assert [step["score"] for step in outputs["intermediate_steps"]] == ["20", "90"]


def test_an_answer_without_a_score_is_an_error():
    chain = MapRerankDocumentsChain(
        llm_chain=LLMChain(llm=FakeListChatModel(responses=["Paris"]), prompt=RERANK_PROMPT)
    )

    with pytest.raises(OutputParserException, match="Could not parse output: Paris"):
        chain.invoke({"input_documents": DOCUMENTS, "question": "where?"})
    with pytest.raises(UsageError, match="no document"):
        chain.invoke({"input_documents": [], "question": "where?"})


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("```text\n37593 * 67\n```", "Answer: 2518731"),
        ("```text\nsqrt(16) + -1\n", "Answer: 3.0"),
        ("Answer: 12", "Answer: 12"),
        ("so, Answer: 7", "Answer: 7"),
    ],
)
def test_arithmetic_is_worked_out(call, answer, result):
    chain = LLMMathChain.from_llm(FakeListChatModel(responses=[answer]))

    assert call.invoke(chain, "how much?") == {"question": "how much?", "answer": result}


def test_an_answer_without_arithmetic_is_an_error():
    with pytest.raises(UsageError, match="unknown format from LLM"):
        LLMMathChain.from_llm(FakeListChatModel(responses=["many"])).invoke("how much?")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 ** 10", 1024),
        ("7 // 2 + 7 % 4", 6),
        ("max(1, 2.5)", 2.5),
        ("round(pi, 2)", 3.14),
        ("-(3)", -3),
    ],
)
def test_the_calculator_works(expression, value):
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('x')", "(1).__class__", "[1, 2]", "'a' * 3", "True + 1", "lambda: 1", "x",
        "1 if 1 else 2",
        "9 ** 9 ** 9", "2 ** 100000", "(2 ** 4000) * (2 ** 4000)", "1 / 0", "(-1) ** 0.5", "1 +", "sqrt(-1)",
        "sqrt(x=4)", "1+" * 600 + "1", "1e999 * 10 ** 400", "",
    ],
)  # fmt: skip
def test_the_calculator_refuses_what_is_no_arithmetic(expression):
    with pytest.raises(UsageError):
        evaluate(expression)
