"""Models and tools that the tests of the command line name: `-m py:tests.cli.scripted:hello`."""

from __future__ import annotations

from typing import Any

from foldline.embeddings import Embeddings
from foldline.exceptions import ModelRateLimitError
from foldline.messages import AIMessage
from foldline.testing import Call, Fail, Reason, ScriptedChatModel, Stall
from foldline.tools import tool

USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def hello(**settings: Any) -> ScriptedChatModel:
    return ScriptedChatModel(script=["Hello there!"], is_cyclic=True, usage=USAGE, **settings)


def echo() -> ScriptedChatModel:
    """Answers with the number of messages and the text of the last one."""
    return ScriptedChatModel(
        script=lambda request: f"{len(request.messages)}: {request.messages[-1].text}"
    )


def slow() -> ScriptedChatModel:
    """Streams two words, then nothing for an hour."""
    return ScriptedChatModel(script=[["First ", "words", Stall()]], is_cyclic=True)


def refusing() -> ScriptedChatModel:
    block = {"type": "refusal", "refusal": "I will not.", "extras": {"category": "bio"}}
    return ScriptedChatModel(script=[AIMessage([block], finish_reason="refusal")], is_cyclic=True)


def thinking() -> ScriptedChatModel:
    return ScriptedChatModel(script=[[Reason("let me think"), "The answer."]], is_cyclic=True)


def adding() -> ScriptedChatModel:
    call = Call("add", {"a": 1, "b": 2})
    return ScriptedChatModel(script=[["I add. ", call], "It is 3."], is_cyclic=True, usage=USAGE)


def adding_by_mcp() -> ScriptedChatModel:
    return ScriptedChatModel(
        script=[[Call("math_add", {"a": 1, "b": 2})], "It is 3."], is_cyclic=True
    )


def unicode() -> ScriptedChatModel:
    return ScriptedChatModel(script=[["Grüße → 🙂"]], is_cyclic=True)


def rude() -> ScriptedChatModel:
    """Tries to retitle the window and clear the screen."""
    return ScriptedChatModel(script=[["a\x1b]0;owned\x07\x1b[2Jb"]], is_cyclic=True)


def endless() -> ScriptedChatModel:
    return ScriptedChatModel(script=[["line\n"] * 20000], is_cyclic=True)


def broken() -> ScriptedChatModel:
    return ScriptedChatModel(
        script=[["Half ", Fail(ModelRateLimitError("slow down", provider="acme", model="anvil"))]],
        is_cyclic=True,
    )


def structured() -> ScriptedChatModel:
    return ScriptedChatModel(script=['{"city": "Paris"}'], is_cyclic=True)


def code() -> ScriptedChatModel:
    return ScriptedChatModel(script=["Here:\n```python\nx = 1\n```\n```\ny\n```\n"], is_cyclic=True)


def citing() -> ScriptedChatModel:
    return ScriptedChatModel(script=["They hunt at night [1]."], is_cyclic=True)


class Words(Embeddings):
    """Counts a few words."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [0.1 + text.lower().count(word) for word in ("owl", "mouse", "car")]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def failing(a: int, b: int) -> int:
    """Fail to add two numbers."""
    raise ValueError("no numbers today")


failing.__name__ = "add"
not_a_model = 3
