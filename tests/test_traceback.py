"""A traceback ends where the program called foldline; the program's own frames stay, and debuggers work."""

import asyncio
import io
import os
import pdb
import subprocess
import sys
import traceback
import warnings
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import foldline
from foldline._traceback import closing, cut_traceback
from foldline.exceptions import FoldlineError, ModelError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables import Runnable, RunnableLambda, RunnableParallel
from foldline.tracers.run_collector import RunCollectorCallbackHandler
from tests import mistakes

HOME = str(Path(foldline.__file__).parent)
PROGRAM = """\
from foldline.providers.openai import ChatOpenAI

model = ChatOpenAI(model="gpt-4o-mini")
print({call})
"""


class FailingModel(FakeListChatModel):
    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            raise OSError("the wire broke")
        except OSError as error:
            raise ModelError("no answer", provider="acme") from error

    _stream = _generate


def mine(value: Any) -> Any:
    raise KeyError("mine")


def printed_lines(tmp_path: Path, call: str, **environment: str) -> list[str]:
    program = tmp_path / "app.py"
    program.write_text(PROGRAM.format(call=call))
    environ = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    result = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        env={**environ, **environment},
        check=False,
    )
    assert result.returncode == 1
    return result.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        'model.invoke("hi")',
        'model.batch(["a", "b"])',
        'list(model.stream("hi"))',
        'model.stream_v2("hi").output',
        'list(model.stream_v2("hi").text)',
    ],
)
def test_a_missing_key_prints_at_most_twelve_lines(tmp_path: Path, call: str):
    lines = printed_lines(tmp_path, call)

    assert len(lines) <= 12, "\n".join(lines)
    assert "set the environment variable OPENAI_API_KEY" in lines[-1]
    assert any("app.py" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        'model.with_structured_output({"a": 1})',
        "model.bind_tools([3])",
        '__import__("foldline").init_chat_model("opnai:gpt-5")',
        '__import__("foldline").create_agent("opnai:gpt-5")',
        'model.invoke("hi", {"callbacks": "print"})',
        'ChatOpenAI(model="m", api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=0).invoke("hi")',
    ],
)
def test_other_mistakes_and_their_causes_print_at_most_twelve_lines(tmp_path: Path, call: str):
    lines = printed_lines(tmp_path, call)

    assert len(lines) <= 12, "\n".join(lines)
    assert "foldline.exceptions." in lines[-1]
    assert len(printed_lines(tmp_path, call, FOLDLINE_DEBUG="1")) > len(lines)


def test_what_foldline_explains_prints_at_most_twelve_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in [name for name in os.environ if mistakes.KEYS.search(name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(mistakes.surroundings())
    space: dict[str, Any] = {}
    exec(mistakes.SETUP, space)
    lines: dict[str, list[str]] = {}
    for number, snippet in enumerate(s for part in mistakes.MISTAKES.values() for s in part):
        program = tmp_path / f"app{number}.py"
        program.write_text(snippet)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(snippet, program, "exec"), space)
        except FoldlineError as error:
            entries = error.__traceback__
            assert entries is not None
            shown = traceback.format_exception(error.with_traceback(entries.tb_next))
            lines[snippet] = "".join(shown).splitlines()
        except Exception:  # noqa: BLE001  Python's and Pydantic's own errors have their own form
            continue

    assert len(lines) > 60
    for snippet in [snippet for snippet in lines if snippet.startswith("loads(")]:
        del lines[snippet]  # `load` reads nothing of the environment, not even FOLDLINE_DEBUG
    lines.pop('PyPDFLoader("bad.pdf").load()', None)  # frames of another library stay
    multiline = 'PydanticOutputParser(pydantic_object=Person).parse(\'{"name": "Ada"}\')'
    assert len(lines.pop(multiline)) <= 18  # Pydantic's sentence, of four lines, is there twice
    assert {snippet: shown for snippet, shown in lines.items() if len(shown) > 12} == {}


def test_foldline_debug_shows_every_frame(tmp_path: Path):
    lines = printed_lines(tmp_path, 'model.invoke("hi")', FOLDLINE_DEBUG="1")

    assert len(lines) > 20
    assert any("_http_request" in line for line in lines)


def frames(error: BaseException) -> list[str]:
    """The functions of a traceback, those of foldline with its name."""
    return [
        f"foldline.{entry.name}" if entry.filename.startswith(HOME) else entry.name
        for entry in traceback.extract_tb(error.__traceback__)
    ]


def error_of(method: str, target: Runnable[Any, Any]) -> Exception:
    async def call_async() -> Any:
        if method == "astream":
            return [piece async for piece in target.astream("hi")]
        if method == "abatch":
            return await target.abatch(["hi", "ho"])
        return await target.ainvoke("hi")

    calls = {
        "stream": lambda: list(target.stream("hi")),
        "batch": lambda: target.batch(["hi", "ho"]),
        "invoke": lambda: target.invoke("hi"),
    }
    call = calls.get(method) or (lambda: asyncio.run(call_async()))
    with pytest.raises((ModelError, KeyError)) as excinfo:
        call()
    return excinfo.value


METHODS = ["invoke", "batch", "stream", "ainvoke", "abatch", "astream"]
prompt = ChatPromptTemplate([("human", "{question}")])
TARGETS = {
    "model": FailingModel(responses=["x"]),
    "chain": prompt | FailingModel(responses=["x"]) | StrOutputParser(),
    "parallel": RunnableParallel(a=FailingModel(responses=["x"]), b=RunnableLambda(str)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", TARGETS)
def test_at_most_the_entry_point_is_left_of_foldline(method: str, name: str):
    error = error_of(method, TARGETS[name])

    own_frames = [frame for frame in frames(error) if frame.startswith("foldline.")]
    assert own_frames in ([], [f"foldline.{method}"])
    assert isinstance(error, ModelError)
    assert isinstance(error.__cause__, OSError)
    assert frames(error.__cause__) == ["_generate"]  # the frame of the model's author stays


@pytest.mark.parametrize("method", METHODS)
def test_frames_of_the_program_stay(method: str):
    def inner(value: Any) -> Any:
        return (RunnableLambda(mine) | StrOutputParser()).invoke(value)

    error = error_of(method, RunnableLambda(inner) | RunnableLambda(str))

    names = frames(error)
    assert isinstance(error, KeyError)
    assert names[-1] == "mine"
    assert "inner" in names
    assert sum(name.startswith("foldline.") for name in names) <= 1


def test_what_may_be_a_defect_of_foldline_keeps_every_frame():
    with pytest.raises(TypeError) as excinfo:
        RunnableParallel.model_construct(steps__=None).invoke("hi")

    assert any(frame.startswith("foldline._") for frame in frames(excinfo.value))


def test_an_error_that_foldline_answered_with_its_own_keeps_no_frame_of_foldline():
    chain = RunnableLambda(mine) | StrOutputParser()
    with pytest.raises(KeyError) as caught:
        chain.invoke("hi")
    cause = RunnableParallel.model_construct(steps__=None)
    with pytest.raises(TypeError) as defect:
        cause.invoke("hi")
    known, unknown = UsageError("known"), KeyError("unknown")
    known.__cause__, unknown.__cause__ = caught.value, defect.value

    cut_traceback(unknown)
    assert any(frame.startswith("foldline._") for frame in frames(defect.value))
    cut_traceback(known)
    assert frames(caught.value)[-1] == "mine"


def test_the_context_of_an_error_and_a_loop_of_causes_survive():
    first, second = UsageError("first"), UsageError("second")
    first.__cause__, second.__cause__ = second, first

    cut_traceback(first)

    assert first.__cause__ is second
    assert second.__cause__ is first


def test_the_errors_of_a_group_are_cut_too():
    inner = error_of("invoke", TARGETS["model"])
    group = ExceptionGroup("both", [inner])

    cut_traceback(group)

    assert [frame for frame in frames(inner) if frame.startswith("foldline.")] == []


def test_a_debugger_opens_the_frame_that_called():
    error = error_of("invoke", TARGETS["model"])
    output = io.StringIO()
    debugger = pdb.Pdb(
        stdin=io.StringIO("where\nup\nup\np type(target).__name__\nq\n"), stdout=output
    )
    debugger.use_rawinput = False
    debugger.reset()

    debugger.interaction(None, error.__traceback__)

    assert "FailingModel" in output.getvalue()


def test_a_trace_keeps_the_frames_of_the_machinery():
    collector = RunCollectorCallbackHandler()

    with pytest.raises(ModelError):
        TARGETS["model"].invoke("hi", {"callbacks": [collector]})

    assert "attempt.py" in str(collector.traced_runs[0].error)


def test_closing_a_stream_cuts_what_passes():
    async def stream() -> AsyncGenerator[int, None]:
        yield 1

    async def read() -> None:
        async with closing(stream()):
            raise UsageError("no")

    with pytest.raises(UsageError, match="no") as excinfo:
        asyncio.run(read())

    assert frames(excinfo.value)[-1] == "read"
