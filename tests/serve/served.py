"""Apps of the test servers: a model that does what its last message says, an agent, a graph, a chain, embeddings."""

from __future__ import annotations

import os
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

from foldline.agents import create_agent
from foldline.agents.checkpoint import SqliteSaver
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.embeddings import Embeddings
from foldline.exceptions import (
    ModelError,
    ModelInvalidRequestError,
    ModelRateLimitError,
    UsageError,
)
from foldline.graph import END, START, MessagesState, StateGraph
from foldline.graph.store import InMemoryStore
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables import RunnableLambda
from foldline.testing import Call, Fail, Finish, Reason, ScriptedChatModel, Stall

try:
    from foldline.serve import PublicError
except ImportError:  # the previous version, which serves these apps too
    PublicError = UsageError  # type: ignore[assignment, misc]

USAGE = {
    "input_tokens": 11,
    "output_tokens": 7,
    "total_tokens": 18,
    "input_token_details": {"cache_read": 3},
    "output_token_details": {"reasoning": 2},
}
SECRET = "sk-provider-0123456789abcdef"
PROFILE: Any = {"prices": {"input": 1000.0, "output": 1000.0}}
"""A dear model: a request of the tests costs about two cents."""
FOLDER = Path(os.environ.get("SERVED_FOLDER", "/nonexistent"))


def mark(word: str) -> None:
    """Leave a line for the test to read."""
    with open(FOLDER / "marks", "a", encoding="utf-8") as file:
        file.write(f"{word} {time.time()}\n")


def describe(message: Any) -> str:
    return " ".join(
        f"{block['type']}:{block.get('mime_type') or block.get('url') or ''}"
        for block in message.content_blocks
        if block["type"] != "text"
    )


def answer(request: Any) -> Any:  # noqa: PLR0911, PLR0912, C901  one line per kind of answer
    """Do as the last message says."""
    if not request.messages:
        return "Nobody said anything."
    last = request.messages[-1]
    text = last.text
    if isinstance(last, ToolMessage):
        results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        return f"The tools said {', '.join(results)}."
    if "parallel tools" in text:
        return [
            "Looking. ",
            Call("weather", {"city": "Oslo"}, id="call_1"),
            Call("weather", {"city": "Rome"}, id="call_2"),
        ]
    if "reason" in text:
        return [Reason("First I think. "), Reason("Then I know."), "Forty-two."]
    if "what was refused" in text:
        blocks = [block for message in request.messages for block in message.content_blocks]
        return repr([block["refusal"] for block in blocks if block["type"] == "refusal"])
    if "refuse" in text:
        finish = {"finish_reason": "refusal", "usage_metadata": USAGE}
        block = {"type": "refusal", "refusal": "I will not.", "extras": {"category": "bio"}}
        block = {"type": "refusal", "refusal": ""} if "silently" in text else block
        return AIMessage([block], **finish)
    if "picture" in text:
        return f"I see {describe(last)}."
    if "rate limit" in text:
        return ModelRateLimitError(f"slow down {SECRET}", retry_after=7)
    if "bad request" in text:
        return ModelInvalidRequestError(f"this is wrong: {SECRET}", body=f"the body {SECRET}")
    if "break" in text:
        return ["So far so ", Fail(ModelError(f"the wire broke {SECRET}", body=SECRET))]
    if "crash" in text:
        return ["So far so ", Fail(RuntimeError(f"a bug {SECRET}"))]
    if "gate" in text:
        return gated(text.split()[-1])
    if "slow" in text:
        return slow(text)
    if "tool names" in text:
        return repr([tool["function"]["name"] for tool in request.options.get("tools") or ()])
    if "use a group" in text:
        return [Call("agents__close", {"id": 7}, id="call_3")]
    if "write a patch" in text:
        return [Call("patch", {"input": "*** Begin\nline \u2028 two"}, id="call_4")]
    if "line ends" in text:
        return "one\u2028two\u2029three\u0085four"
    if "run a command" in text:
        return [Call("exec_command", {"cmd": "echo from the shell"}, id="call_5")]
    if "json" in text:
        form = (request.options or {}).get("response_format")
        return '{"city": "Oslo", "degrees": 4}' if form else "no format was asked for"
    if "logprobs" in text:
        return logprobs_of(request.options or {})
    if "options" in text:
        options = {name: value for name, value in request.options.items() if name != "tools"}
        return repr(sorted(options.items(), key=str)) + repr(request.stop)
    if "count" in text:
        return [f"{number} " for number in range(int(text.split()[-1]))]
    if "remember" in text:
        texts = [message.text for message in request.messages if isinstance(message, HumanMessage)]
        return " | ".join(texts)
    return "Hello there, my friend."


def logprobs_of(options: Any) -> Any:
    """Return the log probabilities where they were requested, as OpenAI's hosts do."""
    if not options.get("logprobs"):
        return "nobody asked"
    top = [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105]}] * (
        options.get("top_logprobs") or 0
    )
    content = [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": top}]
    return ["Hi", Finish(usage=USAGE, metadata={"logprobs": {"content": content}})]


def slow(text: str) -> Any:
    """Yield a word every 50 ms, for five seconds, or for a minute."""
    for number in range(1_200 if "minute" in text else 100):
        yield f"{number} "
        yield Stall(0.05)


def gated(name: str) -> Any:
    """Yield a word, and the other one when the test has opened the gate: a file of that name."""
    yield "before "
    mark(f"gate-{name}")
    while not (FOLDER / f"open-{name}").exists():
        yield Stall(0.02)
    yield "after"


class Talker(ScriptedChatModel):
    """A scripted model that reports its full usage."""

    usage: Any = None

    async def _events(self, request: Any, run: Any) -> Any:
        """Leave marks where a slow answer begins, ends, and is cut off."""
        text = request.messages[-1].text if request.messages else ""
        name = text.split()[-1] if text.startswith("slow") else None
        ending = "cut"
        if name:
            mark(f"begin-{name}")
        try:
            async with aclosing(super()._events(request, run)) as events:
                async for event in events:
                    yield event
            ending = "end"
        finally:
            if name:
                mark(f"{ending}-{name}")


chat = Talker(script=answer, usage=USAGE, model="chat-1", retry_on_error=False)
priced = Talker(script=answer, usage=USAGE, model="priced-1", profile=PROFILE, retry_on_error=False)


def agent_answer(request: Any) -> Any:
    """Call the tools that the last human message names, then return their results."""
    if not request.messages:
        return "Nobody said anything."
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        turn = []
        for message in reversed(request.messages):
            if not isinstance(message, ToolMessage):
                break
            turn.append(message.text)
        return f"The tools said {', '.join(reversed(turn))}."
    number = len(request.messages)
    if "delete" in last.text:
        return [
            "I will delete. ",
            Call("delete", {"path": "/tmp/a"}, id=f"del_{number}_1"),
            Call("delete", {"path": "/tmp/b"}, id=f"del_{number}_2"),
        ]
    if "parallel tools" in last.text:
        return [
            "Looking. ",
            Call("weather", {"city": "Oslo"}, id=f"call_{number}_1"),
            Call("weather", {"city": "Rome"}, id=f"call_{number}_2"),
        ]
    if "slow tool" in last.text:
        return [Call("slow_tool", {"name": last.text.split()[-1]}, id=f"slow_{number}")]
    return answer(request)


def weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city} is sunny"


def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


async def slow_tool(name: str) -> str:
    """Take a second."""
    import asyncio

    mark(f"tool-{name}")
    await asyncio.sleep(1.0)
    mark(f"tool-done-{name}")
    return "at last"


class Vectors(Embeddings):
    """A vector of the lengths of words."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if text == "crash":
            raise RuntimeError(f"a bug {SECRET}")
        return [float(len(text)), float(text.count(" ")), 0.5]


def make_agent(saver: Any) -> Any:
    model = Talker(script=agent_answer, usage=USAGE, model="agent-1", retry_on_error=False)
    return create_agent(
        model,
        [weather, delete, slow_tool],
        middleware=[HumanInTheLoopMiddleware({"delete": True})],
        checkpointer=saver,
        name="agent",
    )


agent = make_agent(SqliteSaver(str(FOLDER / "threads.db"))) if FOLDER.exists() else None
careful = (
    create_agent(
        Talker(script=agent_answer, usage=USAGE, model="agent-1", retry_on_error=False),
        [slow_tool],
        middleware=[HumanInTheLoopMiddleware({"slow_tool": True})],
        checkpointer=SqliteSaver(str(FOLDER / "careful.db")),
        name="agent",
    )
    if FOLDER.exists()
    else None
)


async def speak(state: MessagesState) -> Any:
    return {"messages": [await chat.ainvoke(state["messages"])]}


async def sign(state: MessagesState) -> Any:
    return {"messages": [AIMessage("Signed.", id=f"signed-{len(state['messages'])}")]}


builder = StateGraph(MessagesState)
builder.add_node("speak", speak)
builder.add_node("sign", sign)
builder.add_edge(START, "speak")
builder.add_edge("speak", "sign")
builder.add_edge("sign", END)
graph = builder.compile(
    checkpointer=SqliteSaver(str(FOLDER / "graph.db")) if FOLDER.exists() else None,
    store=InMemoryStore(),
)

chain = ChatPromptTemplate([("human", "Tell me about {topic}.")]) | chat | StrOutputParser()


def twice(number: Any) -> Any:
    """Double a number; anything else is a mistake of the caller."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise PublicError(f"a number is needed, not a {type(number).__name__}")
    return number * 2


double = RunnableLambda(twice)
vectors = Vectors()
FINISH = Finish
every = {"talker": chat, "doubler": double}
in_order = [chat, double]
