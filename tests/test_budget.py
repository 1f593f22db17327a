"""The path of a call is short: one `invoke` enters few files."""

import gc
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import foldline
from foldline.language_models import FakeListChatModel, FakeStreamingListLLM
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.providers._explain import Explained
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import Runnable
from foldline.testing.replay import ReplayTransport

HOME = str(Path(foldline.__file__).parent)
ANSWER = {
    "id": "chatcmpl-CcWqN7vGJ3mXzLk9TtRbYs2HfPd5A",
    "object": "chat.completion",
    "model": "gpt-5-mini",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hello"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
}


def files_entered(chain: Runnable[Any, Any]) -> set[str]:
    """The files of foldline in which a call enters a function, once all that is looked up once is known."""
    question = {"name": "Bob", "question": "Who?"}
    assert chain.invoke(question) == "hello"
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        is_condition = frame.f_code.co_name == "applies"  # a policy that the call does not have
        if event == "call" and file.startswith(HOME) and not is_condition:
            files.add(file[len(HOME) + 1 :])

    gc.collect()  # what earlier tests left is finalised now, not inside the call
    gc.disable()
    sys.setprofile(note)
    try:
        chain.invoke(question)
    finally:
        sys.setprofile(None)
        gc.enable()
    return files


def chain_with(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    prompt = ChatPromptTemplate([("system", "You are {name}."), ("human", "{question}")])
    return prompt | model | StrOutputParser()


def test_a_call_of_a_real_provider_enters_at_most_forty_files(tmp_path: Path):
    model = ChatOpenAI(model="gpt-5-mini", api_key="k", base_url="http://127.0.0.1:1/v1")
    explanation = model.explain([("system", "You are Bob."), ("human", "Who?")])
    recording = tmp_path / "answer.jsonl"
    recording.write_text(json.dumps(recorded(explanation, ANSWER)) + "\n")
    model.transport = ReplayTransport(recording, repeat=True)

    files = files_entered(chain_with(model))

    assert len(files - {"testing/replay.py"}) <= 40, "\n".join(sorted(files))


def recorded(explanation: Explained, answer: dict[str, Any]) -> dict[str, Any]:
    """One call as `RecordingTransport` writes it."""
    headers = {"content-type": "application/json"}
    return {
        "request": {"method": explanation.method, "url": explanation.url, "body": explanation.body},
        "response": {"status": 200, "headers": headers, "chunks": [[0, json.dumps(answer)]]},
    }


def test_a_call_of_a_fake_enters_fewer():
    files = files_entered(chain_with(FakeListChatModel(responses=["hello"])))

    assert len(files) <= 20, "\n".join(sorted(files))


def test_a_call_leaves_nothing_for_the_collector():
    model = FakeListChatModel(responses=["hello"])
    text_model = FakeStreamingListLLM(responses=["hello"])

    def calls() -> None:
        model.invoke("hi")
        assert [*model.stream("hi")]
        assert [*model.stream_v2("hi")]
        text_model.invoke("hi")
        assert [*text_model.stream("hi")]
        assert text_model.batch(["hi", "ho"])

    calls()
    gc.collect()
    gc.disable()
    try:
        calls()
        garbage = gc.collect()
    finally:
        gc.enable()
    assert garbage == 0


def test_a_provider_has_few_classes_of_ours_above_it():
    classes = [cls for cls in ChatOpenAI.__mro__ if cls.__module__.startswith("foldline")]
    assert len(classes) <= 9, classes
