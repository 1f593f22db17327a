"""The handlers that come with foldline: terminal, file, streamed tokens, usage."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from foldline.callbacks import (
    FileCallbackHandler,
    StdOutCallbackHandler,
    StreamingStdOutCallbackHandler,
    UsageMetadataCallbackHandler,
    get_usage_metadata_callback,
)
from foldline.exceptions import UsageError
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, LLMResult
from foldline.outputs.agent import AgentAction, AgentFinish
from foldline.runnables import RunnableLambda

GREEN = "\x1b[32;1m\x1b[1;3m{}\x1b[0m"


def perform(handler: Any) -> None:
    """The handler calls of a chain with an agent."""
    handler.on_chain_start({}, {}, name="Agent")
    handler.on_agent_action(AgentAction("search", "x", "I should search. "))
    handler.on_tool_end("found", observation_prefix="Observation: ", llm_prefix="Thought:")
    handler.on_text("well", end="\n")
    handler.on_agent_finish(AgentFinish({}, "done"))
    handler.on_chain_end({})


def test_stdout_prints_what_langchain_prints(capsys: pytest.CaptureFixture[str]):
    perform(StdOutCallbackHandler())

    assert capsys.readouterr().out == (
        "\n\n\x1b[1m> Entering new Agent chain...\x1b[0m\n"
        "I should search. \nObservation: found\nThought:well\ndone\n"
        "\n\x1b[1m> Finished chain.\x1b[0m\n"
    )


def test_stdout_in_colour(capsys: pytest.CaptureFixture[str]):
    handler = StdOutCallbackHandler("green")
    handler.on_text("a")
    handler.on_text("b", color="no such colour")
    handler.on_chain_start({"id": ["x", "Y"]}, {})
    handler.on_chain_start(None, {})

    assert capsys.readouterr().out == (
        f"{GREEN.format('a')}b\n\n\x1b[1m> Entering new Y chain...\x1b[0m\n"
        "\n\n\x1b[1m> Entering new <unknown> chain...\x1b[0m\n"
    )


def test_a_file_gets_the_same_without_bold(tmp_path: Path, call: Any):
    path = tmp_path / "log.txt"
    with FileCallbackHandler(path, mode="w") as handler:
        perform(handler)
    with FileCallbackHandler(path) as handler:
        call.invoke(
            RunnableLambda(lambda x: x).with_config(run_name="more"), 1, {"callbacks": [handler]}
        )
        handler.on_text("x", color="green")

    assert path.read_text() == (
        "\n\n> Entering new Agent chain...\nI should search. \nObservation: found\nThought:well\ndone\n"
        "\n> Finished chain.\n\n\n> Entering new more chain...\n\n> Finished chain.\n"
        + GREEN.format("x")
    )


def test_a_closed_file_is_said_to_be_closed(tmp_path: Path):
    handler = FileCallbackHandler(str(tmp_path / "log.txt"))
    handler.close()
    handler.close()

    with pytest.raises(UsageError, match=r"log.txt: the file is closed"):
        handler.on_text("x")
    with pytest.raises(FileExistsError):
        FileCallbackHandler(tmp_path / "log.txt", mode="x")


def test_tokens_are_written_as_they_come(capsys: pytest.CaptureFixture[str]):
    handler = StreamingStdOutCallbackHandler()
    handler.on_llm_new_token("he")
    handler.on_llm_new_token(
        ["l", {"type": "text", "text": "lo"}, {"type": "reasoning", "reasoning": "hm"}]
    )

    assert capsys.readouterr().out == "hello"


def result(tokens: int, model: str | None = "tiny") -> LLMResult:
    usage = {
        "input_tokens": tokens,
        "output_tokens": 1,
        "total_tokens": tokens + 1,
        "input_token_details": {"cache_read": 1},
    }
    metadata = {} if model is None else {"model_name": model}
    answer = ChatGeneration(
        message=AIMessage("x", usage_metadata=usage, response_metadata=metadata)
    )
    return LLMResult(generations=[[answer, answer]])


def test_usage_is_summed_by_model_details_included():
    usage = UsageMetadataCallbackHandler()
    for response in (
        result(1),
        result(2),
        result(5, "big"),
        result(1, None),
        LLMResult(generations=[[]]),
    ):
        usage.on_llm_end(response)

    assert usage.usage_metadata["tiny"] == {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
        "input_token_details": {"cache_read": 2},
    }
    assert set(usage.usage_metadata) == {"tiny", "big", "unknown"}
    assert repr(usage) == repr(usage.usage_metadata)


def test_usage_loses_nothing_under_threads():
    usage = UsageMetadataCallbackHandler()
    threads = [
        threading.Thread(target=lambda: [usage.on_llm_end(result(1)) for _ in range(50)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert usage.usage_metadata["tiny"]["input_tokens"] == 400


def spend(x: int) -> int:
    """A model's stand-in: reports usage to the handlers of its context."""
    from foldline.callbacks import CallbackManager

    [run] = CallbackManager.configure().on_llm_start({}, ["x"])
    run.on_llm_end(result(x))
    return x


def test_a_context_counts_every_run_in_it_and_blocks_may_be_nested(call: Any):
    model = RunnableLambda(spend)
    with get_usage_metadata_callback() as outer:
        call.invoke(model, 1)
        with get_usage_metadata_callback() as inner:
            call.batch(model, [2, 3])
    call.invoke(model, 100)

    assert inner.usage_metadata["tiny"]["input_tokens"] == 5
    assert outer.usage_metadata["tiny"]["input_tokens"] == 6
