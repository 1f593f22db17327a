"""Make `src/foldline/compat/langchain.json`: where each public name of LangChain's packages lives in foldline.

    LANGCHAIN_ENV/bin/python scripts/langchain_map.py collect names.json   # a Python that has LangChain's packages
    .venv/bin/python scripts/langchain_map.py match names.json             # ours; writes the map

What no rule finds is a row with advice, from ADVICE below: the longest prefix that fits.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import types
import warnings
from importlib import metadata
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "foldline" / "compat" / "langchain.json"
PACKAGES = {
    "langchain_core": "foldline",
    "langchain": "foldline",
    "langchain_classic": "foldline",
    "langchain_text_splitters": "foldline.text_splitters",
    "langchain_openai": "foldline.providers.openai",
    "langchain_anthropic": "foldline.providers.anthropic",
    "langchain_google_genai": "foldline.providers.google",
    "langchain_aws": "foldline.providers.bedrock",
    "langchain_ollama": "foldline.providers.ollama",
    "langchain_groq": "foldline.providers.openai_compatible",
    "langchain_mistralai": "foldline.providers.openai_compatible",
    "langgraph": "foldline.graph",
}
HOMES = {
    **PACKAGES,
    "langchain_classic.storage": "foldline.stores",
    "langchain_classic.indexes": "foldline.indexing",
    "langchain_classic.schema.storage": "foldline.stores",
    "langchain_community.cache": "foldline.caches",
    "langchain_classic.text_splitter": "foldline.text_splitters",
    "langchain_classic.cache": "foldline.caches",
    "langchain_classic.llms": "foldline.providers",
    "langchain_classic.chat_models": "foldline.providers",
    "langgraph.checkpoint": "foldline.checkpoint",
    "langgraph.store": "foldline.graph.store",
}
"""Prefix of a module -> the module of ours in its place; what is behind the prefix is kept."""
RENAMED = {
    "ChatMessageHistory": "foldline.chat_history.InMemoryChatMessageHistory",
    "BedrockChat": "foldline.providers.bedrock.ChatBedrock",
    "Ollama": "foldline.providers.ollama.OllamaLLM",
    "Anthropic": "foldline.providers.anthropic.AnthropicLLM",
    "BaseOpenAI": "foldline.providers.openai.OpenAI",
    "get_openai_callback": "foldline.callbacks.get_openai_callback",
}
LANGGRAPH_ROOMS = ("foldline.graph", "foldline.checkpoint", "foldline.agents", "foldline.workflows")
NOT_BY_NAME = {
    "PROMPT", "DESCRIPTION", "InputType", "K", "H", "P", "U", "V", "T", "Func", "Choice", "Level", "Score",
    "Node", "Task", "get_client", "Answer", "State", "Usage",
    "Tee", "Question", "Context", "Action", "All", "StateT", "ContextT", "Crawler", "Memory", "Prompt", "Requests",
}  # fmt: skip
"""Names too general to be looked for outside the module's own home."""
COMMUNITY = {
    "langchain_community.callbacks": ["get_openai_callback", "OpenAICallbackHandler"],
    "langchain_community.callbacks.manager": ["get_openai_callback"],
    "langchain_community.chat_message_histories": [
        "ChatMessageHistory", "FileChatMessageHistory", "RedisChatMessageHistory", "SQLChatMessageHistory",
    ],
    "langchain_community.chat_models": [
        "ChatOpenAI", "AzureChatOpenAI", "ChatAnthropic", "ChatOllama", "BedrockChat", "FakeListChatModel",
    ],
    "langchain_community.llms": ["OpenAI", "AzureOpenAI", "Ollama", "Anthropic", "FakeListLLM"],
    "langchain_community.embeddings": [
        "OpenAIEmbeddings", "OllamaEmbeddings", "FakeEmbeddings", "DeterministicFakeEmbedding",
        "HuggingFaceEmbeddings", "BedrockEmbeddings",
    ],
    "langchain_community.vectorstores": ["InMemoryVectorStore", "FAISS", "Chroma", "PGVector"],
    "langchain_community.document_loaders": [
        "TextLoader", "CSVLoader", "JSONLoader", "DirectoryLoader", "PyPDFLoader", "BSHTMLLoader",
        "UnstructuredMarkdownLoader", "WebBaseLoader",
    ],
    "langchain_community.document_transformers": ["LongContextReorder", "EmbeddingsRedundantFilter"],
    "langchain_community.retrievers": ["BM25Retriever", "TFIDFRetriever", "WikipediaRetriever"],
    "langchain_community.utilities": ["SQLDatabase", "WikipediaAPIWrapper", "SerpAPIWrapper"],
    "langchain_community.utilities.sql_database": ["SQLDatabase"],
    "langchain_community.agent_toolkits": ["SQLDatabaseToolkit", "create_sql_agent"],
    "langchain_community.tools": ["WikipediaQueryRun", "TavilySearchResults", "DuckDuckGoSearchRun"],
    "langchain_community.cache": ["InMemoryCache", "SQLiteCache", "RedisCache"],
    "langgraph.checkpoint.sqlite": ["SqliteSaver"],
    "langgraph.checkpoint.sqlite.aio": ["AsyncSqliteSaver"],
    "langgraph.checkpoint.postgres": ["PostgresSaver"],
    "langgraph.checkpoint.postgres.aio": ["AsyncPostgresSaver"],
    "langchain.tools.retriever": ["create_retriever_tool"],
}  # fmt: skip
"""The parts of langchain-community, and of packages that need not be installed, that programs use."""
KEEP = "keep the package and run the program with `python -m foldline.compat`"
ERRORS = "use the errors of foldline.exceptions"
ADVICE = {
    "": "no counterpart yet",
    "langchain_community": f"not part of foldline: {KEEP}",
    "langchain_core.tracers.evaluation": "a client of LangSmith: use the langsmith package",
    "langchain_core.tracers.EvaluatorCallbackHandler": "a client of LangSmith: use the langsmith package",
    "langchain_core.document_loaders.LangSmithLoader": "a client of LangSmith: use the langsmith package",
    "langchain_core.utils.mustache": "a part of the template engine: use foldline.utils.mustache.render",
    "langchain_core.utils.image": "an empty module in LangChain",
    "langchain_core.sys_info": "run `foldline doctor`",
    "langchain_core.env": "run `foldline doctor`",
    "langchain_openai.chat_models.base": ERRORS,
    "langchain_anthropic.chat_models": ERRORS,
    "langchain_google_genai.chat_models": ERRORS,
    "langchain_openai.chatgpt_oauth": "a login for another product; use an API key",
    "langchain_openai.middleware": f"no counterpart: {KEEP}",
    "langchain_anthropic.middleware": f"no counterpart: {KEEP}",
    "langchain_aws": f"only chat models, text models and embeddings of Bedrock are here: {KEEP}",
    "langchain_classic.agents": "write it with foldline.agents.create_agent",
    "langchain_classic.agents.agent_toolkits": f"a toolkit of langchain-community: {KEEP}",
    "langchain_classic.callbacks": f"a handler of langchain-community: {KEEP}",
    "langchain_classic.chains": "write it with runnables (foldline.runnables), or with foldline.agents.create_agent",
    "langchain_classic.chat_models": f"a model of langchain-community: {KEEP}",
    "langchain_classic.document_loaders": f"a loader of langchain-community: {KEEP}",
    "langchain_classic.embeddings": f"a model of langchain-community: {KEEP}",
    "langchain_classic.evaluation": f"no evaluators are here: {KEEP}",
    "langchain_classic.hub": "a client of LangSmith: use the langsmith package",
    "langchain_classic.llms": f"a model of langchain-community: {KEEP}",
    "langchain_classic.memory": "use foldline.chat_history with foldline.runnables.RunnableWithMessageHistory",
    "langchain_classic.retrievers": f"a retriever of langchain-community: {KEEP}",
    "langchain_classic.smith": "a client of LangSmith: use the langsmith package",
    "langchain_classic.tools": f"a tool of langchain-community: {KEEP}",
    "langchain_classic.utilities": f"a part of langchain-community: {KEEP}",
    "langchain_classic.vectorstores": f"a store of langchain-community: {KEEP}",
    "langgraph": "a part of LangGraph's machine that foldline.graph does without",
    "langgraph.pregel": "a part of LangGraph's machine; compile a StateGraph instead",
    "langgraph.channels": "say how values are joined with Annotated[type, reducer]",
    "langgraph.stream": "read graph.stream(..., stream_mode=...) instead",
    "langgraph.warnings": "foldline.graph warns with DeprecationWarning",
}
"""Prefix of a name without a home -> what to do instead."""
KEYWORDS: dict[str, dict[str, str]] = {
    "langchain_community.chat_models.BedrockChat": {"model_id": "model"},
}
"""Source name -> keywords that are called differently here."""


def collect(target: str) -> None:
    """Write the public names of every installed package of LangChain."""
    warnings.simplefilter("ignore")
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        _walk(package, found)
    versions = {name: metadata.version(name.replace("_", "-")) for name in PACKAGES}
    Path(target).write_text(json.dumps({"versions": versions, "modules": found}), encoding="utf-8")


def _walk(path: str, found: dict[str, list[str]]) -> None:
    try:
        module = importlib.import_module(path)
    except Exception as error:  # noqa: BLE001  a module that needs another package
        print(f"left out: {path}: {error!r:.80}", file=sys.stderr)
        return
    found[path] = _public_names(module)
    folders = list(getattr(module, "__path__", []))
    names = {part.name for part in pkgutil.iter_modules(folders)}
    for folder in folders:  # LangGraph's are in part packages without an `__init__`
        names |= {
            one.name for one in Path(folder).iterdir() if one.is_dir() and any(one.glob("*/*.py"))
        }
    for name in sorted(names):
        if name.isidentifier() and not name.startswith("_") and name != "tests":
            _walk(f"{path}.{name}", found)


def _public_names(module: types.ModuleType) -> list[str]:
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if not isinstance(value, types.ModuleType)
            and getattr(value, "__module__", None) == module.__name__
        ]
    return sorted({name for name in names if name.isidentifier() and not name.startswith("_")})


def match(source: str) -> None:
    """Write the map: each collected name with its home, or with advice."""
    collected = json.loads(Path(source).read_text(encoding="utf-8"))
    ours = _our_names()
    rooms: dict[str, list[str]] = {}
    for path, names in ours.items():
        for name in names:
            rooms.setdefault(name, []).append(path)
    modules = {**collected["modules"], **COMMUNITY}
    entries = {path: _entry(path, names, ours, rooms) for path, names in sorted(modules.items())}
    entries = {path: entry for path, entry in entries.items() if entry}
    data = {
        "about": "Where LangChain's public names live in foldline. Made by scripts/langchain_map.py.",
        "versions": collected["versions"],
        "advice": ADVICE,
        "keywords": KEYWORDS,
        "modules": entries,
    }
    TARGET.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _our_names() -> dict[str, list[str]]:
    import foldline  # noqa: PLC0415  the other half of this script runs without it

    found = {"foldline": list(foldline.__all__)}
    for part in pkgutil.walk_packages(foldline.__path__, "foldline.", onerror=lambda _: None):
        parts = part.name.split(".")[1:]
        if any(name.startswith("_") for name in parts) or parts[0] in ("cli", "testing", "compat"):
            continue
        try:
            module = importlib.import_module(part.name)
        except ImportError as error:  # of an extra that is not installed
            print(f"left out: {part.name}: {error!r:.80}", file=sys.stderr)
            continue
        found[part.name] = list(getattr(module, "__all__", ())) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and str(getattr(value, "__module__", "")).startswith("foldline")
        ]
    return found


def _entry(
    path: str, names: list[str], ours: dict[str, list[str]], rooms: dict[str, list[str]]
) -> dict[str, object]:
    home = _home(path)
    here, elsewhere, missing = [], {}, []
    for name in names:
        place = _place(path, home, name, ours, rooms)
        if place is None:
            missing.append(name)
        elif place == f"{home}.{name}":
            here.append(name)
        else:
            elsewhere[name] = place
    if path.count(".") > 1 and path.startswith("langchain_classic.") and not (here or elsewhere):
        return {}  # deep modules of things that are not here: the package above has their names
    entry: dict[str, object] = {}
    if home in ours:
        entry["home"] = home
    if here:
        entry["names"] = " ".join(here)
    if elsewhere:
        entry["elsewhere"] = elsewhere
    if missing:
        entry["missing"] = " ".join(missing)
    return entry


def _home(path: str) -> str:
    prefixes = [key for key in HOMES if path == key or path.startswith(f"{key}.")]
    if not prefixes:
        return ""
    longest = max(prefixes, key=len)
    return HOMES[longest] + path[len(longest) :]


def _place(
    path: str, home: str, name: str, ours: dict[str, list[str]], rooms: dict[str, list[str]]
) -> str | None:
    if name in RENAMED:
        module, _, renamed = RENAMED[name].rpartition(".")
        if renamed in ours.get(module, ()):
            return RENAMED[name]
    module = home
    while module.count(".") >= 1:
        if name in ours.get(module, ()):
            return f"{module}.{name}"
        module = module.rpartition(".")[0]
    if name in NOT_BY_NAME:
        return None
    candidates = rooms.get(name, [])
    if path.startswith("langgraph"):
        candidates = [room for room in candidates if room.startswith(LANGGRAPH_ROOMS)]
    elif path.startswith("langchain_aws"):
        candidates = [room for room in candidates if room.startswith("foldline.providers")]
    if not candidates:
        return None
    return f"{min(candidates, key=_rank)}.{name}"


def _rank(room: str) -> tuple[bool, bool, int, int, str]:
    """Say how good a place is to send a reader to: a room of its own, not far down, not LangGraph's."""
    is_graph = room.startswith("foldline.graph")
    return is_graph, room == "foldline", room.count("."), len(room), room


if __name__ == "__main__":
    {"collect": collect, "match": match}[sys.argv[1]](sys.argv[2])
