"""Mistakes that newcomers make, and what foldline says: each is run, and `docs/errors.md` has its words.

python -m tests.mistakes            print what each says
python -m tests.mistakes --update   write docs/errors.md
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from foldline import _config
from foldline.utils import _suggest as suggest

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"
MARK = "## Common mistakes and their messages\n"
"""The heading of the generated part of the page."""
INTRODUCTION = """
The tests run each of these lines and compare its message with this page (`python -m tests.mistakes --update` writes the
page). A `UserWarning` does not stop the program; every other entry is an exception. At the command line an error is one
or two sentences and an [exit code](cli.md#exit-codes); `--debug` shows the traceback.
"""
SETUP = """
from typing import TypedDict
from pydantic import BaseModel, SecretStr
from foldline import *
from foldline import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.agents import create_agent
from foldline.agents.middleware import HumanInTheLoopMiddleware
from foldline.callbacks import StdOutCallbackHandler
from foldline.chat_history import InMemoryChatMessageHistory
from foldline.document_loaders import *
from foldline.documents import Document, citations
from foldline.embeddings import CacheBackedEmbeddings, DeterministicFakeEmbedding
from foldline.indexing import InMemoryRecordManager, index
from foldline.language_models import FileResolver
from foldline.messages import trim_messages, filter_messages
from foldline.output_parsers import JsonOutputParser, PydanticOutputParser, CommaSeparatedListOutputParser
from foldline.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate, FewShotPromptTemplate
from foldline.providers.local import ChatLlamaCpp, LocalEmbeddings, model_path
from foldline.retrievers import BM25Retriever, EnsembleRetriever
from foldline.runnables import *
from foldline.runnables.history import RunnableWithMessageHistory
from foldline.stores import InMemoryByteStore
from foldline.testing import Call, Fail, Finish, ScriptedChatModel
from foldline.text_splitters import RecursiveCharacterTextSplitter, CharacterTextSplitter
from foldline.tools import tool, StructuredTool
from foldline.transports import Timeouts
from foldline.utils.progress import Progress
from foldline.vectorstores import InMemoryVectorStore, SQLiteVectorStore
from foldline.load import loads, load

class Person(BaseModel):
    name: str
    age: int

@tool
def pay(amount: int) -> str:
    "Pay."
    return "paid"

def undocumented(a: int) -> int:
    return a

model = ScriptedChatModel(script=["Hello"], is_cyclic=True)
def says(*pieces):
    return ScriptedChatModel(script=[list(pieces)], is_cyclic=True)
embedding = DeterministicFakeEmbedding(size=4)
store = InMemoryVectorStore(embedding)
prompt = ChatPromptTemplate([("system", "Be {tone}."), ("human", "{q}")])
"""

MISTAKES: dict[str, list[str]] = {
    "Models by name": [
        'init_chat_model("opnai:gpt-5")',
        'init_chat_model("some-unknown-model")',
        "init_chat_model(3)",
        'init_chat_model("openai:gpt-5", temprature=0)',
        'init_chat_model("openai:gpt-5", temperature="hot")',
        'init_chat_model("openai:gpt-5", max_retries=-1)',
        'init_chat_model("openai:gpt-5", api_key="x", base_url="api.example.com").invoke("hi")',
        'init_chat_model("openai:gpt-5").invoke("hi")',
        'init_chat_model("openai:gpt-5", api_key="").invoke("hi")',
        'init_chat_model("openai:gpt-5", api_key="x", base_url="http://127.0.0.1:9/v1", max_retries=0).invoke("hi")',
        'init_chat_model("anthropic:claude-sonnet-4-5").invoke("hi")',
        'init_chat_model("google_genai:gemini-2.5-flash").invoke("hi")',
        'init_chat_model("bedrock:x", region_name="eu-west-1").invoke("hi")',
        'ChatLlamaCpp(model="none.gguf").invoke("hi")',
        'model_path("smollm3")',
        "Timeouts(connect=0)",
    ],
    "Input of a model": [
        'model.invoke({"role": "user"})',
        "model.invoke(3)",
        'model.invoke([("humn", "hi")])',
        'model.invoke([{"role": "user"}])',
        'init_chat_model("openai:gpt-5", api_key="x").invoke([HumanMessage("hi"), ToolMessage("3", tool_call_id="1")])',
        'init_chat_model("openai:gpt-5", api_key="x").invoke('
        '[AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}]), HumanMessage("and?")])',
        'init_chat_model("openai:gpt-5", api_key="x").invoke([])',
        'init_chat_model("openai:gpt-5", api_key="x").with_structured_output('
        '{"title": "Scores", "type": "object", "properties": {"by_name": {"type": "object"}}}, strict=True)',
        'model.invoke("hi", {"callback": []})',
        'model.invoke("hi", "config")',
        'model.invoke("hi", {"callbacks": "print"})',
        'model.invoke("hi", {"recursion_limit": 0})',
        'model.batch("abc")',
        'model.batch(["a", "b"], [{}])',
        'model.batch(["a"], progress="yes")',
        "HumanMessage()",
        "HumanMessage(3)",
        "ToolMessage('3')",
        'AIMessage("x", tool_calls=[{"name": "pay"}])',
        'trim_messages([HumanMessage("hi")], token_counter=model)',
        'trim_messages([HumanMessage("hi")], max_tokens=5, token_counter=len, strategy="middle")',
        'init_chat_model("openai:gpt-3.5-turbo", api_key="x").invoke([HumanMessage(content_blocks=[{"type": "image", '
        '"url": "https://example.com/a.png"}])])',
    ],
    "Tools and agents": [
        "tool(undocumented)",
        "StructuredTool.from_function(undocumented)",
        'pay.invoke({"amount": "much"})',
        'pay.invoke({"amonut": 3})',
        'pay.invoke("3 and 4")',
        "model.bind_tools([3])",
        'model.bind_tools([pay], tool_choice="pya")',
        "model.bind_tools([lambda a: a])",
        "create_agent(model, [3])",
        "create_agent(None, [pay])",
        "create_agent(model, [pay, pay])",
        'create_agent(model, [pay], middleware=[HumanInTheLoopMiddleware({"pya": True})])',
        'create_agent(model, [pay]).invoke({"message": "hi"})',
        'create_agent(says(Call("pya", {})), [pay]).invoke({"messages": "hi"}, {"recursion_limit": 4})',
    ],
    "Structured output": [
        "model.with_structured_output(3)",
        'model.with_structured_output({"a": 1})',
        'model.with_structured_output(Person, method="xml")',
        "model.with_structured_output(Person).invoke('hi')",
        """says('{"name": "Ada"', Finish("length")).with_structured_output(Person, method="json_schema").invoke("x")""",
        """says('{"name": "Ada", "age": "old"}').with_structured_output(Person, method="json_schema").invoke("x")""",
        """says("I will not.", Finish("refusal")).with_structured_output(Person).invoke("x")""",
        "PydanticOutputParser(pydantic_object=Person).parse('no JSON')",
        "JsonOutputParser().parse('nothing')",
        'PydanticOutputParser(pydantic_object=Person).parse(\'{"name": "Ada"}\')',
    ],
    "Prompts": [
        'prompt.invoke({"tone": "kind", "question": "?"})',
        'prompt.invoke("hi")',
        "prompt.invoke(3)",
        'PromptTemplate.from_template("{a").invoke({})',
        'PromptTemplate.from_template("{a.b}")',
        'PromptTemplate.from_template("{0}")',
        'ChatPromptTemplate([("humna", "hi")])',
        "ChatPromptTemplate([3])",
        'ChatPromptTemplate([MessagesPlaceholder("history")]).invoke({"history": "hi"})',
        'PromptTemplate.from_template("{{a}}", template_format="jnja")',
        'PromptTemplate.from_file("none.txt")',
    ],
    "Runnables": [
        "RunnableLambda(3)",
        "prompt | 3",
        'RunnableParallel({"a": 3})',
        "RunnableBranch((lambda x: True, model))",
        "RunnableLambda(lambda x: x).with_retry(stop_after_attempt=0)",
        "RunnableLambda(lambda x: x).with_fallbacks([3])",
        "RunnablePassthrough.assign(a=lambda x: 1).invoke('text')",
        "RunnablePick('a').invoke(3)",
        'RunnableWithMessageHistory(model, lambda session_id: InMemoryChatMessageHistory()).invoke("hi")',
        "async def wait(x): return x\nRunnableLambda(wait).invoke(1)",
        "InMemoryChatMessageHistory().add_message('hi')",
    ],
    "Documents and retrieval": [
        'TextLoader("none.txt").load()',
        'DirectoryLoader("nowhere").load()',
        'CSVLoader("t.csv", metadata_columns=["nmae"]).load()',
        'JSONLoader("bad.json").load()',
        'JSONLoader("good.json", "map(.)").load()',
        'PyPDFLoader("bad.pdf").load()',
        'WebBaseLoader("example.com")',
        'WebBaseLoader("http://127.0.0.1/").load()',
        "RecursiveCharacterTextSplitter(chunk_size=10, chunk_overlap=20)",
        "RecursiveCharacterTextSplitter(chunk_size=0)",
        'RecursiveCharacterTextSplitter.from_language("klingon")',
        'LocalEmbeddings().embed_documents("abc")',
        "LocalEmbeddings().embed_documents([3])",
        'store.add_texts(["a"], [{}, {}])',
        'store.as_retriever(search_type="nearest")',
        'store.similarity_search("x", filter={"a": {"$near": 1}})',
        'index(["text"], InMemoryRecordManager("x"), store)',
        'index([], InMemoryRecordManager("x"), store, cleanup="all")',
        'index([], InMemoryRecordManager("x"), store, cleanup="incremental")',
        "EnsembleRetriever(retrievers=[BM25Retriever.from_texts(['a'])], weights=[1, 2])",
        'citations(HumanMessage("x"))',
        "Document()",
    ],
    "Files and saved objects": [
        'loads("{")',
        'loads(\'{"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}\')',
        'model.with_config({"max_concurrency": 0}).invoke("x")',
        'SQLiteVectorStore(embedding, "bad.json")',
        'SQLiteVectorStore(embedding, "no/such/folder/x.db")',
        'Progress(3, show="yes")',
    ],
}


def surroundings() -> Path:
    """Make the files that the mistakes name, in a folder of their own."""
    folder = Path(tempfile.mkdtemp())
    (folder / "bad.json").write_text("no JSON")
    (folder / "good.json").write_text("[1]")
    (folder / "bad.pdf").write_text("no PDF")
    (folder / "t.csv").write_text("name,age\nAda,36\n")
    return folder


KEYS = re.compile(r"(API_KEY|AWS_|GOOGLE_|ANTHROPIC_|OPENAI_|FOLDLINE_MODEL)")


def run(snippet: str) -> tuple[str, str]:
    """Return the class of what a mistake raises or warns of, and its words; nothing where it is accepted."""
    space: dict[str, Any] = {}
    before, environment = Path.cwd(), dict(os.environ)
    _config._warn_misspelt.cache_clear()  # another test may have made the same mistake
    suggest.checked_names.clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        os.chdir(surroundings())
        for name in [name for name in os.environ if KEYS.search(name)]:
            del os.environ[name]
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
        try:
            exec(SETUP, space)
            warned.clear()
            exec(snippet, space)
        except Exception as error:  # noqa: BLE001  whatever it is, it is looked at
            return type(error).__name__, plain(str(error))
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)
    if warned:
        return type(warned[0].message).__name__, plain(str(warned[0].message))
    return "", ""


def plain(text: str) -> str:
    """Return a message without what differs from one machine or run to the next."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    text = re.sub(r"/\S*/(?=no/such/folder|bad\.json|bad\.pdf|none\.|t\.csv|nowhere)", "", text)
    text = re.sub(r" in '/[^']*'", " in this folder", text)
    text = re.sub(r"(with one of: [^,]+, [^,]+), .*", r"\1, ...", text)
    text = re.sub(r"For further information visit \S+", "", text)
    return " ".join(text.split())


def page() -> str:
    """Return the page: what others wrote above the mark, and what the mistakes make below it."""
    above = PAGE.read_text(encoding="utf-8").partition(MARK)[0].rstrip()
    parts = [f"{above}\n\n{MARK}{INTRODUCTION}"]
    for title, snippets in MISTAKES.items():
        parts.append(f"\n### {title}\n")
        for snippet in snippets:
            kind, error_text = run(snippet)
            parts.append(f"\n```text\n{snippet}\n```\n\n`{kind}`: {escape(error_text)}\n")
    return "".join(parts)


def escape(text: str) -> str:
    """Return words that Markdown leaves as they are."""
    return re.sub(r"([<>*_\[\]`|\\])", r"\\\1", text)


if __name__ == "__main__":
    if "--update" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        count = 0
        for title, snippets in MISTAKES.items():
            print(f"== {title}")
            for snippet in snippets:
                count += 1
                kind, error_text = run(snippet)
                print(f"{snippet[:110]}\n    {kind or 'NOTHING'}: {error_text[:330]}")
        print(count)
