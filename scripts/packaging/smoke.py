"""A first program, run by `scripts/release` in a fresh environment that has the wheel and nothing else of ours."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import foldline
from foldline import ChatPromptTemplate, StrOutputParser, create_agent, tool
from foldline.testing import Call, ScriptedChatModel


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def main() -> int:
    """Use what a first program uses; raise where it does not work."""
    chain = ChatPromptTemplate.from_template("Say {word}.") | ScriptedChatModel(script=["hi", "ho"])
    assert (chain | StrOutputParser()).invoke({"word": "hi"}) == "hi"
    assert asyncio.run((chain | StrOutputParser()).ainvoke({"word": "ho"})) == "ho"
    model = ScriptedChatModel(script=[[Call("add", {"a": 1, "b": 2})], "3"])
    state = create_agent(model, [add]).invoke("1 + 2?")
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai"]
    ran = subprocess.run(
        [sys.executable, "-m", "foldline", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"foldline {foldline.__version__}\n", ran.stdout
    assert "site-packages" in foldline.__file__, foldline.__file__
    sys.stdout.write(f"the first program works with foldline {foldline.__version__}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
