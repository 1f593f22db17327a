"""Past advisories of the field, section 5 of the fault specification: each is a test, or has a reason why not.

`ELSEWHERE` names tests that stand beside the code they are about; the last tests here hold that nothing is missing.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from foldline.agents import AgentState, create_agent
from foldline.agents.checkpoint import SqliteSaver
from foldline.agents.output_parsers import ReActSingleInputOutputParser
from foldline.caches import RedisCache, SQLiteCache
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.exceptions import FoldlineError, SchemaError, SecurityError, StoreError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage
from foldline.output_parsers import (
    CommaSeparatedListOutputParser,
    JsonOutputParser,
    MarkdownListOutputParser,
    NumberedListOutputParser,
    XMLOutputParser,
)
from foldline.outputs import Generation
from foldline.prompts import load_prompt
from foldline.providers import REGISTRY, find_provider
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import AzureChatOpenAI, ChatOpenAI
from foldline.stores import LocalFileStore
from foldline.utils.json import parse_json_markdown, parse_partial_json
from tests.security import source_scan as scan
from tests.servers import FaultServer, json_answer
from tests.servers.databases import redis_server
from tests.servers.fixtures import fault_server, fault_server_process

pytestmark = pytest.mark.timing

__all__ = ["fault_server", "fault_server_process", "redis_server"]

TESTS = Path(__file__).parent.parent

ELSEWHERE = {
    "CVE-2025-68664": "load/test_dump.py::test_CVE_2025_68664_user_data_that_looks_like_an_object_stays_data",
    "GHSA-pjwx-r37v-7724": "load/test_load.py::test_GHSA_pjwx_r37v_7724_a_secret_planted_in_free_data_is_not_shown",
    "CVE-2025-65106": (
        "prompts/test_hostile.py::test_F_P01_CVE_2025_65106_anything_but_plain_names_is_refused_everywhere"
    ),
    "CVE-2026-40087": (
        "prompts/test_hostile.py::test_F_P01_CVE_2026_40087_a_template_set_behind_the_checks_is_refused_when_formatting"
    ),
    "CVE-2026-42203": "prompts/test_hostile.py::test_CVE_2026_42203_jinja2_reaches_no_attribute_no_code_no_file",
    "CVE-2026-34070": (
        "prompts/test_loading.py::test_F_P03_CVE_2026_34070_no_path_leads_out_of_its_folder_and_nothing_is_opened"
    ),
    "CVE-2026-41488": (
        "language_models/test_files.py::test_F_P04_rebinding_does_not_help_because_the_name_is_looked_up_once"
    ),
    "GHSA-cg7w-rg45-pc59": "language_models/test_files.py::test_F_P04_no_spelling_of_an_address_is_connected_to",
    "CVE-2025-67644": (
        "vectorstores/test_conformance.py::test_CVE_2025_67644_hostile_filter_keys_and_values_are_only_keys_and_values"
    ),
    "CVE-2024-1455": "output_parsers/test_xml.py::test_CVE_2024_1455_no_entity_is_expanded_and_no_document_type_read",
    "CVE-2024-6587": (
        "serve/test_security.py::test_F_V04_CVE_2024_6587_a_request_sets_no_address_key_header_class_or_path"
    ),
    "CVE-2026-42208": "serve/test_security.py::test_CVE_2026_42208_what_a_request_says_reaches_no_statement",
    "CVE-2026-42271": "serve/test_security.py::test_CVE_2026_42271_a_request_starts_no_command",
    "CVE-2026-48710": "tools/mcp/test_serve.py::test_F_V06_a_foreign_host_or_origin_is_refused",
    "CVE-2026-27740": "runnables/test_graph_svg.py::test_FV07_text_stays_text",
    "secrets in repr, dumps, traces and tracebacks": "security/test_canary.py::test_F_V08_a_model_shows_no_secret",
}
NOT_FOR_US: dict[str, str] = {}
"""Advisories about what foldline does not have."""
SECTION_5 = [
    "CVE-2025-68664",
    "GHSA-pjwx-r37v-7724",
    "CVE-2025-65106",
    "CVE-2026-40087",
    "CVE-2026-42203",
    "CVE-2026-5760",
    "CVE-2024-34359",
    "CVE-2026-34070",
    "CVE-2026-55443",
    "CVE-2024-28088",
    "CVE-2026-26013",
    "CVE-2026-41488",
    "GHSA-2jrp-274c-jhv3",
    "GHSA-cg7w-rg45-pc59",
    "CVE-2025-64439",
    "CVE-2026-27794",
    "CVE-2026-28277",
    "CVE-2025-67644",
    "CVE-2026-27022",
    "CVE-2026-48776",
    "CVE-2024-58340",
    "CVE-2025-5302",
    "CVE-2024-1455",
    "CVE-2025-9141",
    "CVE-2024-6587",
    "CVE-2026-42208",
    "CVE-2026-42271",
    "CVE-2026-48710",
    "CVE-2026-27740",
]

CHATS = sorted(
    {find_provider(name) for name in REGISTRY if name != "local"}, key=lambda kind: kind.__name__
)


class Payload:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = str(trace)

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.trace,))


@pytest.fixture
def pickle_bytes(tmp_path: Path) -> Iterator[bytes]:
    """A pickle that would make a folder; at the end there is none."""
    trace = tmp_path / "unpickled"
    yield pickle.dumps(Payload(trace))
    assert not trace.exists()


@pytest.mark.slow
def test_CVE_2026_5760_CVE_2024_34359_a_models_own_template_never_reaches_jinja2():
    """Their servers rendered the chat template inside a model file. Ours is a file of the package, and C++ reads it."""
    users = {
        path
        for path, nodes in scan.sources().items()
        for node, _ in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "foldline.prompts._jinja"
    }
    assert users
    assert all(path.startswith("prompts/") for path in users)
    assert not scan.found_by(
        lambda node: "jinja2" in scan.imported_tops(node),
        {path: nodes for path, nodes in scan.sources().items() if path.startswith("providers/")},
    )


@pytest.mark.parametrize("link", ["file", "folder"])
def test_CVE_2026_55443_a_link_inside_a_folder_leads_nowhere(tmp_path: Path, link: str):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "p.json").write_text(json.dumps({"template": "secret"}))
    inside = tmp_path / "inside"
    inside.mkdir()
    target = "p.json" if link == "file" else "way/p.json"
    (inside / target.split("/")[0]).symlink_to(
        tmp_path / "outside" / ("p.json" if link == "file" else "")
    )

    with pytest.raises(SecurityError):
        load_prompt(target, root=inside)
    store = LocalFileStore(inside)
    with pytest.raises(SecurityError):
        store.mget([target])
    with pytest.raises(SecurityError):
        store.mset([(target, b"x")])
    assert "secret" in (tmp_path / "outside" / "p.json").read_text()


@pytest.mark.parametrize(
    "path",
    [
        "lc://prompts/../../secret.json",
        "lc@main://prompts/x.json",
        "..\\secret.json",
        "a/../../s.json",
    ],
)
def test_CVE_2024_28088_a_path_of_a_hub_or_with_dots_is_no_path(tmp_path: Path, path: str):
    (tmp_path / "secret.json").write_text(json.dumps({"template": "secret"}))
    (tmp_path / "inside").mkdir()
    with pytest.raises((SecurityError, UsageError, SchemaError, OSError)):
        load_prompt(path, root=tmp_path / "inside")


def with_pictures(url: str) -> list[HumanMessage]:
    blocks: list[Any] = [{"type": "text", "text": "what is this?"}]
    blocks += [{"type": "image_url", "image_url": {"url": f"{url}/a.png"}}]
    blocks += [
        {"type": kind, "url": f"{url}/{kind}", "mime_type": "image/png"}
        for kind in ("image", "file")
    ]
    return [HumanMessage(blocks)]


@pytest.mark.parametrize("kind", CHATS, ids=lambda kind: kind.__name__)
def test_CVE_2026_26013_counting_tokens_asks_nobody(kind: Any, fault_server: FaultServer):
    model = kind(model="m", api_key="k", base_url="http://127.0.0.1:9")
    assert model.get_num_tokens_from_messages(with_pictures(fault_server.url)) > 0
    assert fault_server.hits() == 0


@pytest.mark.parametrize("kind", CHATS, ids=lambda kind: kind.__name__)
def test_GHSA_2jrp_274c_jhv3_a_url_in_a_history_is_not_fetched(
    kind: Any, fault_server: FaultServer
):
    """It is passed to the provider, or refused; nothing is opened on this machine."""
    model = kind(model="m", api_key="k", base_url="http://127.0.0.1:9")
    history = [*with_pictures(fault_server.url), AIMessage("a cat"), HumanMessage("sure?")]
    outcome = "passed on"
    try:
        model.explain(history)
    except FoldlineError as error:
        outcome = str(error)
    assert outcome
    assert fault_server.hits() == 0


HALF = "half \ud83d of a pair, \udcff and \x00"


def test_CVE_2025_64439_a_lone_surrogate_is_kept_exactly_and_by_no_other_codec(tmp_path: Path):
    messages = [HumanMessage(HALF), AIMessage(HALF, additional_kwargs={HALF: HALF})]
    assert loads(dumps(messages)) == messages

    history = SQLiteChatMessageHistory("s", path=tmp_path / "history.db")
    history.add_messages(messages)
    assert history.messages == messages
    cache = SQLiteCache(tmp_path / "cache.db")
    cache.update(HALF, HALF, [Generation(text=HALF)])
    assert cache.lookup(HALF, HALF) == [Generation(text=HALF)]
    saver = SqliteSaver(tmp_path / "agents.db")
    thread = {"configurable": {"thread_id": "t"}}
    agent(saver).invoke({"messages": [HumanMessage(HALF)], "note": HALF}, thread)
    values = agent(saver).get_state(thread).values
    assert values["messages"][0].content == HumanMessage(HALF).content
    assert values["note"] == HALF
    with pytest.raises(StoreError, match="half a character"):
        agent(saver).invoke({"messages": []}, {"configurable": {"thread_id": HALF}})
    for table, file in (
        ("foldline_messages", "history"),
        ("foldline_answers", "cache"),
        ("foldline_checkpoints", "agents"),
    ):
        column = "body" if file == "agents" else "value"
        for (text,) in rows(tmp_path / f"{file}.db", f"SELECT {column} FROM {table}"):
            json.loads(text)


class Noted(AgentState):
    """A state with a text of its own."""

    note: str


def agent(saver: SqliteSaver) -> Any:
    model = FakeListChatModel(responses=["hi"])
    return create_agent(model, [], checkpointer=saver, state_schema=Noted)


def rows(path: Path, statement: str, *values: Any) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        with connection:
            return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def test_CVE_2026_27794_a_pickle_in_a_cache_is_a_miss(tmp_path: Path, pickle_bytes: bytes):
    cache = SQLiteCache(tmp_path / "cache.db")
    cache.update("p", "m", [Generation(text="hello")])
    rows(
        tmp_path / "cache.db",
        "UPDATE foldline_answers SET value = ?",
        pickle_bytes.decode("latin-1"),
    )
    assert cache.lookup("p", "m") is None
    model = FakeListChatModel(responses=["answered"], cache=cache)
    model.invoke("p")
    rows(
        tmp_path / "cache.db",
        "UPDATE foldline_answers SET value = ?",
        pickle_bytes.decode("latin-1"),
    )
    assert model.invoke("p").text == "answered"


@pytest.mark.parametrize("form", ["pickle", "deep", "type", "class"])
def test_CVE_2026_28277_a_checkpoint_cannot_name_code(
    tmp_path: Path, pickle_bytes: bytes, form: str
):
    saver = SqliteSaver(tmp_path / "agents.db")
    thread = {"configurable": {"thread_id": "t"}}
    agent(saver).invoke({"messages": [HumanMessage("hi")]}, thread)
    hostile: Any = {"pickle": pickle_bytes.decode("latin-1"), "deep": "[" * 100_000}.get(form)
    if hostile is None:
        ((body,),) = rows(
            tmp_path / "agents.db", "SELECT body FROM foldline_checkpoints ORDER BY place LIMIT 1"
        )
        stored = json.loads(body)
        (message,) = stored["values"]["messages"]
        assert message[0] == "human"
        code = dumps(HumanMessage("hi")).replace("HumanMessage", "os.system")
        stored["values"]["messages"] = [
            ["os.system", *message[1:]] if form == "type" else json.loads(code)
        ]
        hostile = json.dumps(stored)
    rows(tmp_path / "agents.db", "UPDATE foldline_checkpoints SET body = ?", hostile)
    with pytest.raises(FoldlineError):
        agent(saver).get_state(thread)
    with pytest.raises(FoldlineError):
        agent(saver).invoke({"messages": [HumanMessage("again")]}, thread)


@pytest.mark.parametrize("prefix", ["a*", "a?", "[ab]", "a\\", "@f:{x}|*", "*"])
def test_CVE_2026_27022_a_redis_key_is_never_a_pattern_or_a_query(redis_server: Any, prefix: str):
    other = RedisCache(redis_server.url, prefix="ab:")
    own_cache = RedisCache(redis_server.url, prefix=prefix)
    for cache in (other, own_cache):
        cache.update("p * } @x", "m", [Generation(text="kept")])
    own_cache.clear()
    assert own_cache.lookup("p * } @x", "m") is None
    assert other.lookup("p * } @x", "m") == [Generation(text="kept")]


@pytest.mark.parametrize(
    "name", ["../../admin", "a/../../b", "m?key=x", "m#x", "m%2e%2e/x", "a b", "m\r\nx: y"]
)
def test_CVE_2026_48776_an_id_in_a_path_is_quoted_or_refused(name: str, call: Any):
    """Google and Azure have the model's name in the URL; nothing it says may change where a request goes."""
    for kind, more in (
        (ChatGoogle, {}),
        (AzureChatOpenAI, {"azure_endpoint": "http://127.0.0.1:9", "api_version": "1"}),
    ):
        model = kind(
            model=name,
            api_key="k",
            max_retries=0,
            **more or {"base_url": "http://127.0.0.1:9/base"},
        )
        try:
            url = model.explain("Hi").url
        except (SecurityError, UsageError):
            continue
        path = url.partition("?")[0]
        home = "/base/" if kind is ChatGoogle else "/deployments/"
        assert home in path
        with_name = path.partition(home)[2]
        assert not set("?#\r\n ") & set(with_name)
        if ".." in with_name.split("/"):
            with pytest.raises((SecurityError, UsageError)):
                call.invoke(model, "Hi")


SLOW = [
    "- a, " * 30_000,
    "1. " * 50_000,
    '"' * 150_001,
    "<a>" * 40_000,
    "Action: x\nAction Input:" * 8_000,
]
SLOW += [
    "Action" + " " * 150_000,
    "```json\n" * 20_000,
    "{" * 150_000,
    "\\" * 150_000,
    "a," * 75_000 + '"',
]
PARSERS = [
    CommaSeparatedListOutputParser(),
    NumberedListOutputParser(),
    MarkdownListOutputParser(),
    JsonOutputParser(),
    XMLOutputParser(),
    ReActSingleInputOutputParser(),
]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: type(parser).__name__)
def test_CVE_2024_58340_no_answer_makes_a_parser_slow(parser: Any):
    for text in SLOW:
        before = time.perf_counter()
        with suppress(FoldlineError):
            parser.parse(text)
        assert time.perf_counter() - before < 2, text[:20]


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"b":['])
def test_CVE_2025_5302_deep_json_is_an_error_and_no_crash(opening: str, tmp_path: Path):
    deep = opening * 100_000
    for read in (loads, parse_partial_json):
        with pytest.raises((FoldlineError, ValueError)):
            read(deep)
    for repair in (parse_json_markdown, JsonOutputParser().parse):
        assert depth(repair(deep)) <= 200
    history = SQLiteChatMessageHistory("s", path=tmp_path / "history.db")
    history.add_message(HumanMessage("kept"))
    rows(
        tmp_path / "history.db",
        "INSERT INTO foldline_messages (session, value, added_at) VALUES ('s', ?, 0)",
        deep,
    )
    assert [message.text for message in history.read()] == ["kept"]


def depth(value: Any) -> int:
    levels = 0
    while isinstance(value, list | dict) and value:
        value = next(iter(value.values() if isinstance(value, dict) else value))
        levels += 1
    return levels


CODE = [
    "__import__('os').mkdir('{trace}')",
    "os.mkdir('{trace}')",
    "(lambda: __import__('os').mkdir('{trace}'))()",
]


@pytest.mark.parametrize("code", CODE)
def test_CVE_2025_9141_what_a_model_says_is_never_evaluated(
    code: str, call: Any, fault_server: FaultServer, tmp_path: Path
):
    trace = tmp_path / "evaluated"
    text = code.format(trace=trace)
    function_call = {"name": "f", "arguments": text}
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": "1", "type": "function", "function": function_call}],
    }
    response = {
        "id": "x",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }
    fault_server.script("/chat/completions", json_answer(response))

    answer = call.invoke(ChatOpenAI(model="m", api_key="k", base_url=fault_server.url), "Hi")
    assert answer.tool_calls == []
    assert answer.invalid_tool_calls[0]["args"] == text
    for parser in PARSERS:
        with suppress(FoldlineError):
            parser.parse(text)
    assert not trace.exists()
    found = scan.found_by(scan.evaluates, scan.sources())
    assert found == {"_lazy.py::lazy_exports"}  # records import statements; evaluates nothing


def test_every_advisory_is_a_test_or_has_a_reason():
    here = {name for name in globals() if name.startswith("test_")}

    def is_here(advisory: str) -> bool:
        return any(advisory.replace("-", "_") in name for name in here)

    assert [
        advisory
        for advisory in SECTION_5
        if not (is_here(advisory) or advisory in ELSEWHERE or advisory in NOT_FOR_US)
    ] == []
    assert set(ELSEWHERE) & set(NOT_FOR_US) == set()
    assert not [advisory for advisory in NOT_FOR_US if is_here(advisory)]


@pytest.mark.parametrize("place", ELSEWHERE.values())
def test_what_is_said_to_be_elsewhere_is_there(place: str):
    file, _, name = place.partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
