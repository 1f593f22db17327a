"""Scripted conversations of deepagents and langmem; prints what happened in each, as JSON lines.

Run once on LangChain and once on foldline (`python -m foldline.compat`), the lines are equal: see test_deep_agents.py.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from deepagents import FilesystemPermission, create_deep_agent  # noqa: E402
from deepagents.backends import (  # noqa: E402
    CompositeBackend,
    FilesystemBackend,
    StateBackend,
    StoreBackend,
)
from langchain.agents import create_agent  # noqa: E402
from langchain_core.language_models.chat_models import BaseChatModel  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage  # noqa: E402
from langchain_core.messages.utils import count_tokens_approximately  # noqa: E402
from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.runtime import get_runtime  # noqa: E402
from langgraph.store.memory import InMemoryStore  # noqa: E402
from langgraph.types import Command  # noqa: E402
from langmem import create_manage_memory_tool, create_search_memory_tool  # noqa: E402
from langmem.short_term import summarize_messages  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

CONVERSATIONS: dict[str, Callable[[], Any]] = {}
THREAD: Any = {"configurable": {"thread_id": "1"}}
ids = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
times = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+Z-]+")


class Script(BaseChatModel):
    """A model that says its turns: a text, or a list of calls as name and arguments."""

    turns: list[Any] = Field(default_factory=list)
    seen: list[Any] = Field(default_factory=list)
    schemas: dict[str, Any] = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        for bound_tool in tools:
            description = convert_to_openai_tool(bound_tool)
            self.schemas[description["function"]["name"]] = description
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        turn = self.turns[len(self.seen)]
        self.seen.append([(message.type, plain(message.content)) for message in messages])
        calls = [] if isinstance(turn, str) else turn
        message = AIMessage(
            turn if isinstance(turn, str) else "",
            tool_calls=[
                {"name": name, "args": arguments, "id": f"call{len(self.seen)}-{index}"}
                for index, (name, arguments) in enumerate(calls)
            ],
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def plain(value: object) -> str:
    """The text of a value, without what differs in each run."""
    return times.sub("TIME", ids.sub("ID", str(value)))


def shown(state: dict[str, Any]) -> Any:
    messages = [
        (
            message.type,
            plain(message.content),
            [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])],
            message.status if message.type == "tool" else None,
            message.name,
        )
        for message in state["messages"]
    ]
    return [messages, {key: plain(state[key]) for key in sorted(state) if key != "messages"}]


def conversation(function: Callable[[], Any]) -> Callable[[], Any]:
    CONVERSATIONS[function.__name__] = function
    return function


def result_of(model: Script, text: str = "go", **options: Any) -> Any:
    state = create_deep_agent(model=model, **options).invoke({"messages": text})
    return [shown(state), model.seen]


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@conversation
def a_plain_answer() -> Any:
    model = Script(turns=["Hello."])
    return [result_of(model), model.schemas]


@conversation
def files_are_written_read_edited_and_found() -> Any:
    return result_of(
        Script(
            turns=[
                [("write_file", {"file_path": "/a.txt", "content": "one\ntwo two\n"})],
                [("read_file", {"file_path": "/a.txt"}), ("ls", {"path": "/"})],
                [("edit_file", {"file_path": "/a.txt", "old_string": "one", "new_string": "1"})],
                [("edit_file", {"file_path": "/a.txt", "old_string": "two", "new_string": "2"})],
                [("grep", {"pattern": "two"}), ("glob", {"pattern": "**/*.txt"})],
                [("read_file", {"file_path": "/none"})],
                "done",
            ]
        )
    )


@conversation
def wrong_and_unknown_calls() -> Any:
    calls = [("pay", {"amount": 1}), ("pay", {"amount": "x"}), ("fly", {})]
    return result_of(Script(turns=[calls, "ok"]), tools=[pay])


@conversation
def a_large_result_becomes_a_file() -> Any:
    @tool
    def dump() -> str:
        """Dump."""
        return "line of text\n" * 20_000

    turns = [[("dump", {})], [("ls", {"path": "/large_tool_results"})], "ok"]
    return result_of(Script(turns=turns), tools=[dump])[0][0]


@conversation
def sub_agents() -> Any:
    helper = Script(turns=["helped"])
    tasks = [
        ("task", {"description": "A", "subagent_type": "helper"}),
        ("task", {"description": "B", "subagent_type": "nobody"}),
    ]
    spec = {"name": "helper", "description": "Helps.", "system_prompt": "Help.", "model": helper}
    return [result_of(Script(turns=[tasks, "final"]), subagents=[spec]), helper.seen]


@conversation
def a_general_sub_agent_writes_a_file() -> Any:
    task = ("task", {"description": "A", "subagent_type": "general-purpose"})
    write = ("write_file", {"file_path": "/sub.txt", "content": "x"})
    return result_of(Script(turns=[[task], [write], "sub done", "final"]))


@conversation
def approvals() -> Any:
    decisions = (
        {"type": "approve"},
        {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 7}}},
        {"type": "reject", "message": "no"},
    )
    results = []
    for decision in decisions:
        model = Script(turns=[[("pay", {"amount": 5})], "ok"])
        agent = create_deep_agent(
            model=model, tools=[pay], interrupt_on={"pay": True}, checkpointer=InMemorySaver()
        )
        stopped = agent.invoke({"messages": "go"}, THREAD)
        answer = Command(resume={"decisions": [decision]})
        results += [plain(stopped["__interrupt__"][0].value), shown(agent.invoke(answer, THREAD))]
    return results


@conversation
def memory_and_skills() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "AGENTS.md").write_text("Be kind.")
        skill = Path(folder) / "skills" / "greet" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: greet\ndescription: greets people\n---\nSay hi.\n")
        return result_of(
            Script(turns=[[("read_file", {"file_path": "/skills/greet/SKILL.md"})], "ok"]),
            backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
            memory=["/AGENTS.md"],
            skills=["/skills/"],
        )


@conversation
def files_across_threads() -> Any:
    store = InMemoryStore()
    backend = CompositeBackend(
        default=StateBackend(),
        routes={"/memories/": StoreBackend(namespace=lambda runtime: ("m",))},
    )
    write = ("write_file", {"file_path": "/memories/x.md", "content": "fact"})
    read = ("read_file", {"file_path": "/memories/x.md"})
    result = result_of(Script(turns=[[write], [read], "ok"]), store=store, backend=backend)
    return [result, [(item.key, plain(item.value)) for item in store.search(("m",))]]


@conversation
def permissions() -> Any:
    rule = FilesystemPermission(operations=["read", "write"], paths=["/secrets/**"], mode="deny")
    write = ("write_file", {"file_path": "/secrets/a.txt", "content": "x"})
    read = ("read_file", {"file_path": "/secrets/a.txt"})
    return result_of(Script(turns=[[write, read], "ok"]), permissions=[rule])


@conversation
def structured_output() -> Any:
    class Answer(BaseModel):
        value: int

    return result_of(Script(turns=[[("Answer", {"value": 3})]]), response_format=Answer)


@conversation
def a_call_without_a_result() -> Any:
    model = Script(turns=["ok"])
    call = {"name": "ls", "args": {"path": "/"}, "id": "1"}
    messages = [HumanMessage("a"), AIMessage("", tool_calls=[call]), HumanMessage("b")]
    return [shown(create_deep_agent(model=model).invoke({"messages": messages})), model.seen]


@conversation
def the_runtime_of_a_tool() -> Any:
    @tool
    def look() -> str:
        """Look."""
        return str(get_runtime().context)

    agent = create_deep_agent(model=Script(turns=[[("look", {})], "ok"]), tools=[look])
    return shown(agent.invoke({"messages": "go"}, context={"user": "Ada"}))


@conversation
def streams() -> Any:
    def agent() -> Any:
        task = ("task", {"description": "A", "subagent_type": "general-purpose"})
        return create_deep_agent(model=Script(turns=[[task], "sub done", "final"]))

    async def events() -> Any:
        stream = agent().astream_events({"messages": "go"}, version="v2")
        return [(event["event"], event["name"]) async for event in stream]

    updates = agent().stream({"messages": "go"}, stream_mode="updates", subgraphs=True)
    messages = agent().stream({"messages": "go"}, stream_mode="messages")
    return [
        [(len(namespace), sorted(update)) for namespace, update in updates],
        [(type(piece).__name__, plain(piece.content)) for piece, _ in messages],
        asyncio.run(events()),
    ]


@conversation
def memories_of_langmem() -> Any:
    store = InMemoryStore()
    tools = [create_manage_memory_tool(("m",)), create_search_memory_tool(("m",))]
    keep = ("manage_memory", {"content": "Ada likes tea", "action": "create"})
    model = Script(turns=[[keep], [("search_memory", {"query": "tea"})], "ok"])
    state = create_agent(model, tools=tools, store=store).invoke({"messages": "go"})
    return [shown(state), [plain(item.value) for item in store.search(("m",))], model.schemas]


@conversation
def a_summary_of_langmem() -> Any:
    model = Script(turns=["SUMMARY"])
    messages = [
        HumanMessage("word " * 200, id=f"{number}")
        if number % 2 == 0
        else AIMessage("reply " * 100, id=f"{number}")
        for number in range(6)
    ]
    result = summarize_messages(
        messages,
        running_summary=None,
        token_counter=count_tokens_approximately,
        model=model,
        max_tokens=600,
        max_tokens_before_summary=500,
        max_summary_tokens=128,
    )
    return [[(message.type, plain(message.content)) for message in result.messages], model.seen]


if __name__ == "__main__":
    for name, run in CONVERSATIONS.items():
        print(json.dumps([name, run()]))
