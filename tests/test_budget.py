"""The path of a call is short: who follows one `invoke` with a debugger opens few files."""

import sys
from pathlib import Path
from types import FrameType

import weft
from weft.language_models import FakeListChatModel
from weft.output_parsers import StrOutputParser
from weft.prompts import ChatPromptTemplate

HOME = str(Path(weft.__file__).parent)


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
