"""Packages around LangChain, real ones, on foldline's langchain_core: each is imported and does one thing.

They are not in the test extra (one of them needs an older `mcp`). In a Python of their own:

    python -m venv peers && peers/bin/pip install -e '.[peers]' pytest pytest-timeout hypothesis trustme h2
    peers/bin/python -m pytest tests/compat/test_packages.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec

import pytest

from tests.servers import json_answer

CHAT = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "It is done."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
CLAUDE = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "It is done."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
GEMINI = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "It is done."}]}, "finishReason": "STOP"}
    ]
}
OLLAMA = {
    "model": "m",
    "created_at": "2026-01-01T00:00:00Z",
    "message": {"role": "assistant", "content": "It is done."},
    "done": True,
    "done_reason": "stop",
}
CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "It is done."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
    "metrics": {"latencyMs": 1},
}
PROGRAMS = {
    "langchain_openai": (
        "/v1/chat/completions",
        CHAT,
        """
        from langchain_openai import ChatOpenAI
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.output_parsers import StrOutputParser
        model = ChatOpenAI(model="m", api_key="k", base_url=URL + "/v1")
        print((ChatPromptTemplate.from_template("{x}") | model | StrOutputParser()).invoke({"x": "hi"}))
        """,
    ),
    "langchain_anthropic": (
        "/v1/messages",
        CLAUDE,
        """
        from langchain_anthropic import ChatAnthropic
        print(ChatAnthropic(model="m", api_key="k", base_url=URL).invoke("hi").text)
        """,
    ),
    "langchain_google_genai": (
        "/v1beta/models/m:generateContent",
        GEMINI,
        """
        from langchain_google_genai import ChatGoogleGenerativeAI
        print(ChatGoogleGenerativeAI(model="m", google_api_key="k", base_url=URL).invoke("hi").text)
        """,
    ),
    "langchain_aws": (
        "/model/m/converse",
        CONVERSE,
        """
        from langchain_aws import ChatBedrockConverse
        model = ChatBedrockConverse(
            model="m", provider="amazon", region_name="us-east-1", endpoint_url=URL,
            aws_access_key_id="a", aws_secret_access_key="s",
        )
        print(model.invoke("hi").text)
        """,
    ),
    "langchain_ollama": (
        "/api/chat",
        OLLAMA,
        """
        from langchain_ollama import ChatOllama
        print(ChatOllama(model="m", base_url=URL).invoke("hi").text)
        """,
    ),
    "langchain_text_splitters": (
        "",
        {},
        """
        from langchain_core.documents import Document
        from langchain_text_splitters import RecursiveCharacterTextSplitter
        parts = RecursiveCharacterTextSplitter(chunk_size=6, chunk_overlap=0).split_documents([Document("It is done.")])
        print(" ".join(part.page_content for part in parts))
        """,
    ),
    "langchain_community": (
        "",
        {},
        """
        from langchain_community.chat_message_histories import ChatMessageHistory
        history = ChatMessageHistory()
        history.add_ai_message("It is done.")
        print(history.messages[0].text)
        """,
    ),
    "langchain_chroma": (
        "",
        {},
        """
        from langchain_chroma import Chroma
        from langchain_core.embeddings import DeterministicFakeEmbedding
        store = Chroma.from_texts(["It is done."], DeterministicFakeEmbedding(size=8))
        print(store.similarity_search("x", k=1)[0].page_content)
        """,
    ),
    "langchain_huggingface": (
        "",
        {},
        """
        from langchain_core.messages import AIMessage, HumanMessage
        from langchain_huggingface.chat_models.huggingface import _convert_message_to_dict
        print(_convert_message_to_dict(AIMessage("It is done."))["content"])
        """,
    ),
    "langchain_mcp_adapters": (
        "",
        {},
        """
        from langchain_mcp_adapters.tools import _convert_call_tool_result
        from mcp.types import CallToolResult, TextContent
        result = CallToolResult(content=[TextContent(type="text", text="It is done.")])
        content, _ = _convert_call_tool_result(result)
        print(content if isinstance(content, str) else content[0]["text"])
        """,
    ),
    "langgraph": (
        "",
        {},
        """
        from langchain_core.language_models import FakeListChatModel
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import END, START, MessagesState, StateGraph
        model = FakeListChatModel(responses=["It is done."])
        graph = StateGraph(MessagesState)
        graph.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        app = graph.compile(checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        app.invoke({"messages": [("human", "hi")]}, config)
        print(app.get_state(config).values["messages"][-1].text)
        """,
    ),
    "langchain": (
        "",
        {},
        """
        from langchain.agents import create_agent
        from langchain_core.language_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool

        @tool
        def look(place: str) -> str:
            "Look somewhere."
            return "nothing in " + place

        class Model(GenericFakeChatModel):
            def bind_tools(self, tools, **kwargs):
                return self

        call = {"name": "look", "args": {"place": "x"}, "id": "c1"}
        model = Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("It is done.")]))
        result = create_agent(model, [look]).invoke({"messages": [("human", "hi")]})
        assert result["messages"][2].content == "nothing in x"
        print(result["messages"][-1].text)
        """,
    ),
}


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_package_runs_on_our_core(package, fault_server, tmp_path):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: see the top of this file")
    path, answer, program = PROGRAMS[package]
    if path:
        fault_server.script(path, json_answer(answer))
    source = f"URL = {fault_server.url!r}\n" + textwrap.dedent(program)
    source += textwrap.dedent("""
        import sys, foldline.messages, langchain_core.messages
        assert langchain_core.messages.AIMessage is foldline.messages.AIMessage
        """)
    (tmp_path / "app.py").write_text(source)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "foldline.compat", str(tmp_path / "app.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "LANGSMITH_TRACING": "false"},
    )
    assert result.stderr == "" or result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.strip().splitlines()[-1] == "It is done."
