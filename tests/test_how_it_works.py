"""The paths in docs/how-it-works.md are those that calls take."""

import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import FrameType

import pytest

import foldline
from foldline.agents import create_agent
from foldline.providers.openai import ChatOpenAI
from foldline.testing import Call, ScriptedChatModel

HOME = str(Path(foldline.__file__).parent)
PAGE = Path(__file__).parents[1] / "docs" / "how-it-works.md"


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"id": "1", "model": "gpt-5-mini", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def files_named(heading: str) -> list[list[str]]:
    """The files that each numbered line under a heading names."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    items = re.split(r"^\d+\. ", section, flags=re.M)[1:]
    return [re.findall(r"`([\w/]+(?:\.py|/))`", item.split("\n\n")[0]) for item in items]


def files_entered(function: Callable[[], object]) -> list[str]:
    """The files of foldline in which a call enters a function, in the order of the first entry."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(HOME):
            files.setdefault(file[len(HOME) + 1 :])

    gc.collect()  # what earlier tests left is finalised now, not inside the call
    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return list(files)


@pytest.mark.parametrize(
    "heading", ["The path of one `invoke`", "The path of an agent's turn"], ids=["invoke", "turn"]
)
def test_every_file_named_on_a_path_exists(heading: str):
    folders: list[Path] = [
        Path(HOME),
        *(folder for folder in Path(HOME).iterdir() if folder.is_dir()),
    ]
    for step in files_named(heading):
        absent = [file for file in step if not any((folder / file).exists() for folder in folders)]
        assert absent == [], step


def test_a_plain_call_imports_nothing(server: str):
    program = f"""
import asyncio, sys
from foldline.providers.openai import ChatOpenAI
model = ChatOpenAI(model="gpt-5-mini", api_key="k", base_url={server!r})
modules = set(sys.modules)
model.invoke("hi")
asyncio.run(model.ainvoke("hi"))
print(sorted(name for name in set(sys.modules) - modules if name.startswith("foldline")))
"""
    output = subprocess.run([sys.executable, "-Ic", program], capture_output=True, check=True)

    assert output.stdout.strip() == b"[]"


def test_the_path_of_an_invoke_is_the_one_that_a_call_takes(server: str):
    model = ChatOpenAI(model="gpt-5-mini", api_key="k", base_url=server)
    model.invoke("hi")  # fill the caches of lookups

    files = files_entered(lambda: model.invoke("hi"))

    steps = files_named("The path of one `invoke`")
    first_entries = [
        min(place for place, file in enumerate(files) if file.startswith(step[0])) for step in steps
    ]
    assert first_entries == sorted(first_entries), [files[place] for place in first_entries]


def test_the_files_of_a_turn_are_those_that_an_agent_enters():
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def turn() -> None:
        model = ScriptedChatModel(script=[[Call("add", {"a": 1, "b": 2})], "3"])
        assert create_agent(model, [add]).invoke({"messages": "1 + 2?"})["messages"][-1].text == "3"

    turn()

    files = set(files_entered(turn))

    for step in files_named("The path of an agent's turn"):
        assert step[0] in files, step
