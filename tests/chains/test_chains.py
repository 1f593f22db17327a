"""Chains: the template of seed 004, memory, callbacks, and every chain streaming sync and async."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import Field, ValidationError

from foldline.callbacks import BaseCallbackHandler
from foldline.chains import (
    RUN_KEY,
    Chain,
    ConversationalRetrievalChain,
    ConversationChain,
    LLMChain,
    MapReduceDocumentsChain,
    MultiPromptChain,
    ReduceDocumentsChain,
    RefineDocumentsChain,
    RetrievalQA,
    SequentialChain,
    SimpleSequentialChain,
    StuffDocumentsChain,
    TransformChain,
    create_history_aware_retriever,
    create_retrieval_chain,
    create_stuff_documents_chain,
    load_qa_chain,
)
from foldline.documents import Document
from foldline.exceptions import OutputParserException, UsageError
from foldline.language_models import FakeListChatModel
from foldline.memory import BaseMemory, ConversationBufferMemory
from foldline.messages import AIMessage, HumanMessage
from foldline.output_parsers import CommaSeparatedListOutputParser
from foldline.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from foldline.runnables import RunnableLambda
from foldline.runnables.utils import AddableDict


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.events.append(f"start {kwargs['name']} {sorted(inputs)}")

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.events.append(f"end {sorted(outputs)}")

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.events.append(f"error {type(error).__name__}")


class Order(BaseMemory):
    """A memory that notes when it was asked, among the callbacks."""

    notes: Any  # the list of the callbacks itself: pydantic would copy a `list[str]`

    @property
    def memory_variables(self) -> list[str]:
        return ["past"]

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        self.notes.append("load")
        return {"past": "p"}

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        self.notes.append(f"save {sorted(inputs)} {sorted(outputs)}")

    def clear(self) -> None:
        self.notes.append("clear")


class Shout(Chain):
    @property
    def input_keys(self) -> list[str]:
        return ["text"]

    @property
    def output_keys(self) -> list[str]:
        return ["loud"]

    def _call(self, inputs: dict[str, Any], run_manager: Any = None) -> dict[str, Any]:
        return {"loud": inputs["text"].upper()}


def says(*answers: str) -> FakeListChatModel:
    return FakeListChatModel(responses=list(answers))


def chain_of(template: str, *answers: str, **options: Any) -> LLMChain:
    return LLMChain(prompt=PromptTemplate.from_template(template), llm=says(*answers), **options)


def sum_pieces(pieces: list[Any]) -> Any:
    total = AddableDict()
    for piece in pieces:
        total = total + piece
    return dict(total)


def test_the_order_is_that_of_the_template_method(call: Any) -> None:
    recorder = Recorder()
    memory = Order(notes=recorder.events)

    output = call.invoke(Shout(memory=memory, callbacks=[recorder]), {"text": "hi"})

    assert output == {"text": "hi", "past": "p", "loud": "HI"}
    assert recorder.events == [
        "load",
        "start Shout ['past', 'text']",
        "end ['loud']",
        "save ['past', 'text'] ['loud']",
    ]


def test_call_run_and_apply_are_older_ways_to_invoke() -> None:
    chain = Shout()

    assert chain("hi") == {"text": "hi", "loud": "HI"}
    assert chain("hi", return_only_outputs=True) == {"loud": "HI"}
    assert chain.run("hi") == chain.run(text="hi") == "HI"
    assert chain.apply([{"text": "a"}, {"text": "b"}])[1]["loud"] == "B"
    assert chain("hi", include_run_info=True)[RUN_KEY].run_id is not None


def test_the_async_older_ways_do_the_same() -> None:
    import asyncio

    chain = Shout()

    assert asyncio.run(chain.arun("hi")) == "HI"
    assert asyncio.run(chain.acall("hi", return_only_outputs=True)) == {"loud": "HI"}


def test_callbacks_of_constructor_and_config_both_hear(call: Any) -> None:
    first, other = Recorder(), Recorder()

    call.invoke(
        Shout(callbacks=[first]), {"text": "x"}, {"callbacks": [other], "run_name": "named"}
    )

    assert first.events == other.events == ["start named ['text']", "end ['loud']"]


@pytest.mark.parametrize(
    ("inputs", "error_text"), [({"txt": 1}, "misses the inputs"), ({}, "misses the inputs")]
)
def test_a_missing_input_is_named_and_told_once(
    call: Any, inputs: dict[str, Any], error_text: str
) -> None:
    recorder = Recorder()

    with pytest.raises(UsageError, match=error_text):
        call.invoke(Shout(callbacks=[recorder]), inputs)

    assert recorder.events[1:] == ["error UsageError"]


def test_a_missing_output_is_named(call: Any) -> None:
    class Broken(Shout):
        def _call(self, inputs: dict[str, Any], run_manager: Any = None) -> dict[str, Any]:
            return {"quiet": 1}

    with pytest.raises(UsageError, match="promised the outputs"):
        call.invoke(Broken(), {"text": "x"})


def test_a_model_chain_formats_asks_and_parses(call: Any) -> None:
    chain = chain_of("List {n} words", "a, b, c", output_parser=CommaSeparatedListOutputParser())

    assert call.invoke(chain, {"n": 3}) == {"n": 3, "text": ["a", "b", "c"]}


def test_a_model_chain_streams_its_words(call: Any) -> None:
    pieces = call.stream(chain_of("Say {x}", "hello"), {"x": "hi"})

    assert len(pieces) > 3
    assert sum_pieces(pieces) == {"text": "hello"}


def test_predict_generate_and_apply(call: Any) -> None:
    model = FakeListChatModel(responses=["one", "two", "three", "four"])
    chain = LLMChain.from_string(model, "Say {x}")

    assert call.run(chain, "predict", x="a") == "one"
    result = call.run(chain, "generate", [{"x": "a"}, {"x": "b"}])
    assert [generation[0].text for generation in result.generations] == ["two", "three"]
    assert call.run(chain, "apply", [{"x": "a"}]) == [{"text": "four"}]


def test_a_call_that_a_subclass_of_ours_writes_is_obeyed(call: Any) -> None:
    class Shouting(LLMChain):
        def _call(self, inputs: Any, run_manager: Any = None) -> Any:
            answer = super()._call(inputs, run_manager=run_manager)
            return {"text": answer["text"].upper()}

    recorder = Recorder()
    chain = Shouting(
        llm=FakeListChatModel(responses=["hi"]), prompt=PromptTemplate.from_template("{x}")
    )

    assert call.invoke(chain, {"x": 1}, {"callbacks": [recorder]}) == {"x": 1, "text": "HI"}
    assert sum_pieces(call.stream(chain, {"x": 1})) == {"text": "HI"}
    assert recorder.events[0] == "start Shouting ['x']"
    assert recorder.events[-1] == "end ['text']"


def test_an_awaited_call_that_a_subclass_writes_is_obeyed() -> None:
    class Polite(LLMChain):
        async def _acall(self, inputs: Any, run_manager: Any = None) -> Any:
            answer = await super()._acall(inputs, run_manager=run_manager)
            return {"text": f"{answer['text']}, please"}

    chain = Polite(
        llm=FakeListChatModel(responses=["hi"]), prompt=PromptTemplate.from_template("{x}")
    )

    assert asyncio.run(chain.ainvoke({"x": 1}))["text"] == "hi, please"
    assert chain.invoke({"x": 1})["text"] == "hi"


def test_the_steps_of_the_template_can_be_taken_by_hand(call: Any) -> None:
    chain = ConversationChain(llm=FakeListChatModel(responses=["hello"]))

    inputs = call.run(chain, "prep_inputs", "hi")
    final = call.run(chain, "prep_outputs", inputs, {"response": "hello"})

    assert inputs == {"input": "hi", "history": ""}
    assert final == {**inputs, "response": "hello"}
    assert call.run(chain, "prep_inputs", "more")["history"] == "Human: hi\nAI: hello"


def test_a_verbose_chain_shows_its_prompt(call: Any, capsys: pytest.CaptureFixture[str]) -> None:
    chain = LLMChain.from_string(FakeListChatModel(responses=["hi"]), "Say {x}")
    chain.verbose = True

    call.invoke(chain, {"x": "hi"})

    output = capsys.readouterr().out
    assert "Entering new LLMChain chain" in output
    assert "Prompt after formatting:" in output
    assert "Say hi" in output


def test_a_chain_says_what_it_takes_and_gives(call: Any) -> None:
    chain = ConversationChain(llm=FakeListChatModel(responses=["hello"]))

    assert list(chain.get_input_schema().model_fields) == ["input"]
    assert list(chain.get_output_schema().model_fields) == ["response"]
    as_tool = chain.as_tool(name="talk", description="Talk.")
    assert list(as_tool.args) == ["input"]
    assert call.invoke(as_tool, {"input": "hi"})["response"] == "hello"


def test_a_stuff_chain_says_what_its_prompt_needs(call: Any) -> None:
    chain = StuffDocumentsChain(
        llm_chain=LLMChain.from_string(FakeListChatModel(responses=["x"]), "{context} {question}")
    )

    assert chain.input_keys == ["input_documents", "question"]
    with pytest.raises(UsageError, match=r"misses the inputs \['question'\]"):
        call.invoke(chain, {"input_documents": []})


def test_a_streamed_run_tells_its_id_where_asked(call: Any) -> None:
    chain = LLMChain.from_string(FakeListChatModel(responses=["hi"]), "Say {x}")

    pieces = call.stream(chain, {"x": "hi"}, include_run_info=True)

    assert "".join(piece.get("text", "") for piece in pieces) == "hi"
    assert pieces[-1][RUN_KEY].run_id


def test_a_conversation_remembers(call: Any) -> None:
    model = FakeListChatModel(responses=["hello", "you said hi"])
    chain = ConversationChain(llm=model)
    call.invoke(chain, {"input": "hi"})

    answer = call.invoke(chain, {"input": "what did I say?"})

    assert answer["response"] == "you said hi"
    assert answer["history"] == "Human: hi\nAI: hello"


def test_a_conversation_that_streams_remembers_too(call: Any) -> None:
    chain = ConversationChain(llm=says("hello", "again"))

    assert sum_pieces(call.stream(chain, {"input": "hi"})) == {"response": "hello"}
    assert chain.memory is not None
    assert chain.memory.load_memory_variables({})["history"] == "Human: hi\nAI: hello"


def test_prompt_and_memory_must_fit() -> None:
    with pytest.raises(ValidationError, match="memory has"):
        ConversationChain(llm=says("x"), memory=ConversationBufferMemory(memory_key="other"))


def test_chains_in_a_row_by_name(call: Any) -> None:
    first = chain_of("{a}", "first", output_key="b")
    two = chain_of("{a} {b}", "second", output_key="c")
    row = SequentialChain(chains=[first, two], input_variables=["a"], output_variables=["b", "c"])

    assert call.invoke(row, {"a": "x"}) == {"a": "x", "b": "first", "c": "second"}


def test_a_row_streams_its_last_chain(call: Any) -> None:
    row = SequentialChain(
        chains=[
            chain_of("{a}", "first", output_key="b"),
            chain_of("{b}", "second", output_key="c"),
        ],
        input_variables=["a"],
    )

    pieces = call.stream(row, {"a": "x"})

    assert len(pieces) > 3
    assert sum_pieces(pieces) == {"c": "second"}


@pytest.mark.parametrize(
    ("outputs", "error_text"), [(("c", "b"), "misses"), (("a", "c"), "second time")]
)
def test_a_row_that_cannot_work_is_refused(outputs: tuple[str, str], error_text: str) -> None:
    first, two = (
        chain_of("{a}", "x", output_key=outputs[0]),
        chain_of("{b}", "y", output_key=outputs[1]),
    )

    with pytest.raises(ValidationError, match=error_text):
        SequentialChain(chains=[first, two], input_variables=["a"])


def test_chains_in_a_row_by_value(call: Any) -> None:
    row = SimpleSequentialChain(
        chains=[chain_of("{a}", " mid "), chain_of("{b}", " end ")], strip_outputs=True
    )

    assert call.invoke(row, "x") == {"input": "x", "output": "end"}


def test_a_function_is_a_chain(call: Any) -> None:
    chain = TransformChain(
        input_variables=["a"],
        output_variables=["b"],
        transform=lambda inputs: {"b": inputs["a"] * 2},
    )

    assert call.invoke(chain, {"a": 2})["b"] == 4


DOCUMENTS = [Document(page_content=text) for text in ("one", "two", "three")]


class CallRecordingModel(FakeListChatModel):
    """Keeps the prompts it was asked."""

    prompts: list[str] = Field(default_factory=list)

    def _request(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        request = super()._request(value, *args, **kwargs)
        self.prompts.append(str(request.messages[-1].text))
        return request


def test_stuffing_puts_all_documents_into_one_prompt(call: Any) -> None:
    model = CallRecordingModel(responses=["answer"], prompts=[])
    chain = StuffDocumentsChain(
        llm_chain=LLMChain(llm=model, prompt=PromptTemplate.from_template("{context} | {question}"))
    )

    output = call.invoke(chain, {"input_documents": DOCUMENTS, "question": "?"})

    assert output["output_text"] == "answer"
    assert model.prompts == ["one\n\ntwo\n\nthree | ?"]
    assert sum_pieces(call.stream(chain, {"input_documents": DOCUMENTS, "question": "?"})) == {
        "output_text": "answer"
    }


def test_map_reduce_asks_about_each_and_combines(call: Any) -> None:
    model = CallRecordingModel(responses=["short"], prompts=[])
    chain = load_qa_chain(model, "map_reduce")
    assert isinstance(chain, MapReduceDocumentsChain)

    output = call.invoke(chain, {"input_documents": DOCUMENTS, "question": "?"})

    assert output["output_text"] == "short"
    assert len(model.prompts) == 4
    assert "short\n\nshort\n\nshort" in model.prompts[-1]


def test_what_does_not_fit_is_combined_in_groups_first(call: Any) -> None:
    model = CallRecordingModel(responses=["x"], prompts=[])
    stuff = StuffDocumentsChain(
        llm_chain=LLMChain(llm=model, prompt=PromptTemplate.from_template("{context}"))
    )
    chain = ReduceDocumentsChain(combine_documents_chain=stuff, token_max=30)

    output = call.invoke(chain, {"input_documents": [Document(page_content="word " * 20)] * 4})

    assert output["output_text"] == "x"
    assert len(model.prompts) > 2


def test_documents_that_never_fit_are_an_error_that_says_what_to_do(call: Any) -> None:
    stuff = StuffDocumentsChain(
        llm_chain=LLMChain(
            llm=says("word " * 100), prompt=PromptTemplate.from_template("{context}")
        )
    )
    chain = ReduceDocumentsChain(
        combine_documents_chain=stuff, token_max=10, collapse_max_retries=2
    )

    with pytest.raises(UsageError, match="raise token_max"):
        call.invoke(chain, {"input_documents": DOCUMENTS * 5})


def test_refining_improves_the_answer_with_each_document(call: Any) -> None:
    model = CallRecordingModel(responses=["a1", "a2", "a3"], prompts=[])
    chain = load_qa_chain(model, "refine")
    assert isinstance(chain, RefineDocumentsChain)

    pieces = call.stream(chain, {"input_documents": DOCUMENTS, "question": "?"})

    assert sum_pieces(pieces) == {"output_text": "a3"}
    assert "a1" in model.prompts[1]
    assert "a2" in model.prompts[2]


def test_refining_nothing_is_refused(call: Any) -> None:
    with pytest.raises(UsageError, match="no document"):
        call.invoke(load_qa_chain(says("x"), "refine"), {"input_documents": [], "question": "?"})
    with pytest.raises(UsageError, match="chain_type"):
        load_qa_chain(says("x"), "other")


FINDS = RunnableLambda(lambda query: [Document(page_content=f"found {query}")])


def test_retrieval_answers_from_what_was_found(call: Any) -> None:
    model = CallRecordingModel(responses=["yes"], prompts=[])
    chain = RetrievalQA.from_chain_type(model, retriever=FINDS, return_source_documents=True)

    output = call.invoke(chain, {"query": "birds"})

    assert output["result"] == "yes"
    assert output["source_documents"][0].page_content == "found birds"
    assert "found birds" in model.prompts[0]
    assert sum_pieces(call.stream(chain, {"query": "birds"}))["result"] == "yes"


def test_a_follow_up_question_is_rewritten_first(call: Any) -> None:
    model = CallRecordingModel(responses=["standalone", "answer"], prompts=[])
    chain = ConversationalRetrievalChain.from_llm(model, FINDS, return_generated_question=True)

    output = call.invoke(chain, {"question": "and they?", "chat_history": [("hi", "hello")]})

    assert output["answer"] == "answer"
    assert output["generated_question"] == "standalone"
    assert "found standalone" in model.prompts[1]


def test_a_first_question_is_not_rewritten(call: Any) -> None:
    model = CallRecordingModel(responses=["answer"], prompts=[])

    output = call.invoke(
        ConversationalRetrievalChain.from_llm(model, FINDS),
        {"question": "birds?", "chat_history": []},
    )

    assert output["answer"] == "answer"
    assert len(model.prompts) == 1


def test_the_retrieval_runnables_give_context_and_answer(call: Any) -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "{context}"), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    rewrite = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    retriever = create_history_aware_retriever(says("rewritten"), FINDS, rewrite)
    chain = create_retrieval_chain(retriever, create_stuff_documents_chain(says("done"), prompt))

    first = call.invoke(chain, {"input": "birds", "chat_history": []})
    second = call.invoke(
        chain,
        {"input": "more", "chat_history": [HumanMessage(content="a"), AIMessage(content="b")]},
    )

    assert (first["answer"], first["context"][0].page_content) == ("done", "found birds")
    assert second["context"][0].page_content == "found rewritten"
    assert sum_pieces(call.stream(chain, {"input": "x", "chat_history": []}))["answer"] == "done"


def test_a_prompt_without_the_documents_is_refused() -> None:
    with pytest.raises(UsageError, match="no variable 'context'"):
        create_stuff_documents_chain(says("x"), ChatPromptTemplate.from_template("{input}"))


INFOS = [
    {
        "name": "physics",
        "description": "for {questions} about physics",
        "prompt_template": "physics {input}",
    },
    {"name": "maths", "description": "for sums", "prompt_template": "maths {input}"},
]


def test_a_router_lets_the_model_choose(call: Any) -> None:
    route = '```json\n{"destination": "maths", "next_inputs": "1+1"}\n```'
    model = CallRecordingModel(responses=[route, "2"], prompts=[])

    output = call.invoke(MultiPromptChain.from_prompts(model, INFOS), {"input": "what is 1+1"})

    assert output["text"] == "2"
    assert model.prompts[1] == "maths 1+1"
    assert "for {questions} about physics" in model.prompts[0]


def test_a_router_falls_back_to_the_default(call: Any) -> None:
    chain = MultiPromptChain.from_prompts(
        says('{"destination": "DEFAULT", "next_inputs": "x"}', "d"), INFOS
    )

    assert sum_pieces(call.stream(chain, {"input": "x"}))["text"] == "d"


def test_a_route_to_nowhere_is_an_error_unless_silent(call: Any) -> None:
    nowhere = '{"destination": "art", "next_inputs": "x"}'

    with pytest.raises(UsageError, match="not one of"):
        call.invoke(MultiPromptChain.from_prompts(says(nowhere), INFOS), {"input": "x"})
    quiet = MultiPromptChain.from_prompts(says(nowhere, "d"), INFOS, silent_errors=True)
    assert call.invoke(quiet, {"input": "x"})["text"] == "d"
    with pytest.raises(OutputParserException, match="no route"):
        call.invoke(MultiPromptChain.from_prompts(says("I do not know"), INFOS), {"input": "x"})


def test_a_chain_is_a_step_of_a_sequence(call: Any) -> None:
    sequence = (
        RunnableLambda(lambda text: {"text": text})
        | Shout()
        | RunnableLambda(lambda values: values["loud"])
    )

    assert call.invoke(sequence, "hi") == "HI"
    assert call.stream(sequence, "hi") == ["HI"]
    assert call.batch(Shout(), [{"text": "a"}, {"text": "b"}])[1]["loud"] == "B"
