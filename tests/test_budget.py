"""The path of a call is short: who follows one `invoke` with a debugger opens few files."""

import gc
import subprocess
import sys
from pathlib import Path
from types import FrameType

import foldline
from foldline.language_models import FakeListChatModel
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate

HOME = str(Path(foldline.__file__).parent)


def test_one_invoke_of_prompt_model_parser_enters_at_most_twelve_files():
    prompt = ChatPromptTemplate([("system", "You are {name}."), ("human", "{question}")])
    chain = prompt | FakeListChatModel(responses=["hello"]) | StrOutputParser()
    given = {"name": "Bob", "question": "Who?"}
    chain.invoke(given)  # what is compiled and looked up once is not the path of a call
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(HOME):
            entered.add(file[len(HOME) + 1 :])

    sys.setprofile(note)
    try:
        answer = chain.invoke(given)
    finally:
        sys.setprofile(None)
    assert answer == "hello"
    assert len(entered) <= 12, sorted(entered)


IMPORT = """
import gc, sys
from pydantic import BaseModel
from foldline.providers.openai import ChatOpenAI
built = [one.__qualname__ for one in gc.get_objects()
         if isinstance(one, type) and issubclass(one, BaseModel)
         and one.__module__.startswith("foldline") and one.__pydantic_complete__]
print(built, [name for name in ("asyncio", "ssl", "importlib.metadata", "email") if name in sys.modules])
"""


def test_importing_a_provider_builds_no_schema_and_loads_no_loop():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[] []"


def test_a_call_leaves_nothing_for_the_collector():
    model = FakeListChatModel(responses=["hello"])

    def calls() -> None:
        model.invoke("hi")
        assert [*model.stream("hi")]
        assert [*model.stream_v2("hi")]

    calls()
    gc.collect()
    gc.disable()
    try:
        calls()
        left = gc.collect()
    finally:
        gc.enable()
    assert left == 0
