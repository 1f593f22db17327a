"""Results of many prompts."""

from __future__ import annotations

from uuid import UUID

from foldline.load import dumps, loads
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult, Generation, LLMResult, RunInfo

RUN = RunInfo(run_id=UUID(int=1))


def test_flatten_gives_one_result_per_prompt_and_counts_tokens_once():
    result = LLMResult(
        generations=[[Generation(text="a")], [Generation(text="b"), Generation(text="c")]],
        llm_output={"token_usage": {"total_tokens": 3}, "model_name": "m"},
        run=[RUN, RUN],
    )

    first, second = result.flatten()

    assert first.llm_output == {"token_usage": {"total_tokens": 3}, "model_name": "m"}
    assert second.llm_output == {"token_usage": {}, "model_name": "m"}
    assert [candidate.text for candidate in second.generations[0]] == ["b", "c"]
    assert LLMResult(generations=[]).flatten() == []
    assert LLMResult(generations=[[], []]).flatten()[1].llm_output is None


def test_results_are_compared_by_what_was_said_not_by_who_ran_it():
    generations = [[Generation(text="a")]]
    assert LLMResult(generations=generations, run=[RUN]) == LLMResult(generations=generations)
    assert LLMResult(generations=generations) != LLMResult(
        generations=generations, llm_output={"x": 1}
    )
    assert LLMResult(generations=generations) != generations


def test_the_kind_of_a_generation_is_kept():
    generation = ChatGeneration(message=AIMessage("a"))
    result = LLMResult(generations=[[generation]])

    assert result.generations[0][0] is generation
    assert result.model_dump()["generations"][0][0]["message"]["content"] == "a"


def test_results_load_as_they_were_dumped():
    generation = ChatGeneration(message=AIMessage("a", id="1"))
    result = LLMResult(generations=[[generation]], llm_output={"lc": 1}, run=[RUN])

    loaded_result = loads(dumps(result))

    assert loaded_result == result
    assert loaded_result.run == [RUN]
    chat = ChatResult(generations=[generation], llm_output={"a": (1,)})
    assert loads(dumps(chat)) == chat
