"""F-V08, contract 4: a canary stands for every secret a model is given, and is looked for wherever anything is shown.

Every provider class, chat models and embeddings, is called against a loopback server that refuses the key and says
it back. What is looked through: repr, str, dumps, pickle, callbacks, SQLite traces, OpenTelemetry spans, logs at DEBUG,
errors with tracebacks and their local variables, cache keys and `explain()`.
"""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import ValidationError

import foldline
from foldline.caches import RedisCache
from foldline.callbacks import BaseCallbackHandler
from foldline.chat_history import PostgresChatMessageHistory, RedisChatMessageHistory
from foldline.exceptions import FoldlineError, ModelError, SecurityError, ToolException, UsageError
from foldline.language_models._call.cache_key import text_model_key
from foldline.load import dumpd, dumps
from foldline.providers import REGISTRY, find_provider
from foldline.providers.google import GoogleGenerativeAIEmbeddings
from foldline.providers.openai import AzureOpenAIEmbeddings, ChatOpenAI, OpenAIEmbeddings
from foldline.tools import tool
from foldline.tracers import OpenTelemetryTracer, SQLiteTracer
from foldline.transports import HttpOptions, NativeTransport
from foldline.transports.httpx import HttpxTransport
from tests.servers import FaultServer, json_answer, sse_answer
from tests.servers.fixtures import fault_server, fault_server_process

OURS = str(Path(foldline.__file__).parent)
"""Where our code is: the clone itself may well stand in a folder called foldline."""

__all__ = ["fault_server", "fault_server_process"]

KEY = "canary-key-4f9a0c7e1b"
HEADER = "canary-header-77ab3c"
QUERY = "canary-query-91d2e0"
PROXY = "canary-proxy-5b1f00"
CANARIES = (KEY, HEADER, QUERY, PROXY)

CHATS = sorted(
    {find_provider(name) for name in REGISTRY if name != "local"}, key=lambda kind: kind.__name__
)
EMBEDDERS = [OpenAIEmbeddings, AzureOpenAIEmbeddings, GoogleGenerativeAIEmbeddings]


def make_model(kind: Any, url: str, **more: Any) -> Any:
    """A model that is given a canary wherever a secret may be given."""
    settings: dict[str, Any] = {
        "model": "m",
        "api_key": KEY,
        "base_url": url,
        "max_retries": 0,
        "default_headers": {"x-gateway": HEADER},
        "default_query": {"key": QUERY, "v": "2"},
    }
    if kind.__name__.endswith(("Vertex", "VertexAI")):
        settings["project"] = "p"
    return kind(**settings | more)


def leaks(value: object) -> list[str]:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return [canary for canary in CANARIES if canary in text]


def leaks_by_place(texts: dict[str, object]) -> dict[str, list[str]]:
    return {place: hits for place, text in texts.items() if (hits := leaks(text))}


def everything_of(error: BaseException) -> dict[str, object]:
    """An error as people see it: in a log, in a debugger, in a report with local variables, in a pickle."""
    summary = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [
        (frame.name, frame.locals) for frame in summary.stack if frame.filename.startswith(OURS)
    ]
    texts: dict[str, object] = {
        "str": str(error),
        "repr": repr(error),
        "args": error.args,
        "fields": vars(error),
        "notes": getattr(error, "__notes__", ()),
        "traceback": "".join(traceback.format_exception(error)),
        "locals": frames,
        "pickle": pickle.dumps(error),
    }
    for chained in (error.__cause__, error.__context__):
        if chained is not None:
            texts[f"after {type(chained).__name__}"] = (str(chained), repr(chained), chained.args)
    return texts


class Listener(BaseCallbackHandler):
    """Records all arguments of callbacks, as text."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *args, **kwargs: self.calls.append(f"{name} {args!r} {kwargs!r}")


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    exporter.provider = provider  # type: ignore[attr-defined]
    exporter.tracer = OpenTelemetryTracer(tracer_provider=provider, capture_content=True)  # type: ignore[attr-defined]
    yield exporter
    provider.shutdown()


@pytest.mark.parametrize("kind", [*CHATS, *EMBEDDERS], ids=lambda kind: kind.__name__)
def test_F_V08_a_model_shows_no_secret(kind: Any):
    model = make_model(kind, "http://127.0.0.1:9")
    texts = {
        "repr": repr(model),
        "str": str(model),
        "dumps": dumps(model),
        "dumpd": dumpd(model),
        "model_dump": model.model_dump(),
        "model_dump_json": model.model_dump_json(),
        "to_json": getattr(model, "to_json", dict)(),
        "pickle": pickle.dumps(model),
        "copy": repr(copy.deepcopy(model)),
        "rich": list(model.__rich_repr__()) if hasattr(model, "__rich_repr__") else "",
        "http": repr(make_model(kind, "http://127.0.0.1:9", http=with_proxy())),
        "pickled http": pickle.dumps(make_model(kind, "http://127.0.0.1:9", http=with_proxy())),
    }
    assert leaks_by_place(texts) == {}


def with_proxy() -> Any:
    return HttpOptions(proxy=f"http://user:{PROXY}@127.0.0.1:9", headers={"x-gateway": HEADER})


@pytest.mark.parametrize("kind", CHATS, ids=lambda kind: kind.__name__)
def test_F_V08_explain_and_cache_keys_hold_no_secret(kind: Any):
    model = make_model(kind, "http://127.0.0.1:9")
    bound = model.bind_tools([{"name": "f", "description": "d", "parameters": {"type": "object"}}])
    texts = {
        "explain": model.explain("Hi"),
        "explain stream": model.explain("Hi", stream=True),
        "cache key": text_model_key(model, None, {}),
        "identity": model._identifying_params,
        "tracing": model._get_ls_params(),
        "bound": repr(bound),
        "bound dumps": dumps(bound),
        "graph": model.get_graph().draw_mermaid(),
        "config": model.config_schema().model_json_schema(),
    }
    assert leaks_by_place(texts) == {}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["constructor", "environment"])
@pytest.mark.parametrize("kind", CHATS, ids=lambda kind: kind.__name__)
def test_F_V08_a_call_that_fails_shows_no_secret(
    kind: Any,
    source: str,
    call: Any,
    fault_server: FaultServer,
    spans: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    """The server returns every secret, as gateways do that print the request they refused."""
    caplog.set_level(logging.DEBUG)
    model = make_model(kind, fault_server.url)
    if source == "environment":
        variables = model._host.keys if hasattr(model, "_host") else model.key_variables
        for variable in variables:
            monkeypatch.setenv(variable, KEY)
        # A server of one's own has no variable: there a function gives the key.
        model = make_model(kind, fault_server.url, api_key=None if variables else lambda: KEY)
    echo = f"refused: Authorization: Bearer {KEY}, x-gateway: {HEADER}, key={QUERY}"
    path = urlsplit(model.explain("Hi").url).path
    fault_server.script(path, json_answer({"error": {"message": echo, "code": "x"}}, status=401))
    listener = Listener()

    with SQLiteTracer(tmp_path / "traces.db") as tracer:
        handlers = {"callbacks": [listener, tracer, spans.tracer]}
        with pytest.raises(FoldlineError) as excinfo:
            call.invoke(model, "Hi", handlers)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    texts = {
        **everything_of(excinfo.value),
        **files,
        "spans": [span.to_json() for span in spans.get_finished_spans()],
        "logs": caplog.text,
        "callbacks": listener.calls,
    }
    assert fault_server.hits() == 1
    assert leaks_by_place(texts) == {}


TRANSPORTS = [NativeTransport, HttpxTransport]


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    ("key", "url"),
    [
        (KEY, "http://127.0.0.1:9"),
        (KEY, "http://nowhere.invalid"),
        (KEY, "https://127.0.0.1:9/../x"),
        (f"{KEY}\n", "http://127.0.0.1:9"),
        (f"{KEY}é", "http://127.0.0.1:9"),
    ],
    ids=["refused", "unknown host", "climbs", "line break", "not ASCII"],
)
def test_F_V08_a_call_that_never_gets_there_shows_no_secret(
    transport: Any, key: str, url: str, call: Any, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    model = make_model(ChatOpenAI, url, api_key=key, transport=transport())
    with pytest.raises(FoldlineError) as excinfo:
        call.invoke(model, "Hi")
    assert leaks_by_place({**everything_of(excinfo.value), "logs": caplog.text}) == {}


@pytest.mark.parametrize("wire", ["json", "sse"])
def test_F_V08_an_error_inside_an_answer_shows_no_secret(
    wire: str, call: Any, fault_server: FaultServer
):
    echo = {"error": {"message": f"Bearer {KEY} and {HEADER}", "code": KEY}}
    answer = json_answer(echo) if wire == "json" else sse_answer(echo)
    fault_server.script("/chat/completions", answer)
    with pytest.raises(FoldlineError) as excinfo:
        call.stream(make_model(ChatOpenAI, fault_server.url), "Hi")
    texts = everything_of(excinfo.value)
    texts.pop("locals")  # what the server sent is a local variable of the code that reads it
    assert leaks_by_place(texts) == {}


def test_F_V08_tool_arguments_with_a_known_secret_stay_out_of_traces(
    call: Any, spans: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ACME_API_KEY", KEY)
    spans.tracer = OpenTelemetryTracer(tracer_provider=spans.provider, capture_content=True)

    @tool
    def look(key: str, note: str) -> str:
        """Look."""
        raise ToolException(f"{key} was refused; {note}")

    arguments = {"key": KEY, "note": "sk-proj-abcdefghijklmnop1234"}
    with SQLiteTracer(tmp_path / "traces.db") as tracer, pytest.raises(ToolException):
        call.invoke(look, arguments, {"callbacks": [tracer, spans.tracer]})
    texts = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    texts["spans"] = [span.to_json() for span in spans.get_finished_spans()]
    assert leaks_by_place(texts) == {}
    assert "sk-proj-abc" not in str(texts)


@pytest.mark.parametrize("kind", EMBEDDERS, ids=lambda kind: kind.__name__)
def test_F_V08_embeddings_that_fail_show_no_secret(
    kind: Any, call: Any, fault_server: FaultServer, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    model = make_model(kind, fault_server.url)
    echo = {"error": {"message": f"refused: Bearer {KEY} {HEADER} {QUERY}"}}
    for path in EMBEDDING_PATHS:
        fault_server.script(path, json_answer(echo, status=401))

    with pytest.raises(FoldlineError) as excinfo:
        call.run(model, "embed_documents", ["a"])
    assert fault_server.hits() == 1
    assert leaks_by_place({**everything_of(excinfo.value), "logs": caplog.text}) == {}


EMBEDDING_PATHS = [
    "/embeddings",
    "/models/m:batchEmbedContents",
    "/openai/deployments/m/embeddings",
]
EMBEDDING_PATHS += [f"/v1beta{path}" for path in EMBEDDING_PATHS]


@pytest.mark.parametrize("kind", [*CHATS, *EMBEDDERS], ids=lambda kind: kind.__name__)
def test_F_V08_a_refused_setting_shows_no_secret(kind: Any):
    texts: dict[str, object] = {}
    for settings in (
        {"max_retries": KEY},
        {"default_headers": KEY},
        {"api_key": [KEY]},
        {"timeout": {KEY}},
    ):
        with pytest.raises((ValidationError, UsageError)) as excinfo:
            make_model(kind, "http://127.0.0.1:9", **settings)
        texts |= {
            f"{settings.keys()} {place}": text
            for place, text in (("str", str(excinfo.value)), ("repr", repr(excinfo.value)))
        }
    assert leaks_by_place(texts) == {}


@pytest.mark.parametrize("kind", [*CHATS, *EMBEDDERS], ids=lambda kind: kind.__name__)
def test_F_V08_an_address_with_a_password_is_refused_when_it_is_given(kind: Any):
    with pytest.raises((ValidationError, SecurityError, UsageError)) as excinfo:
        make_model(kind, f"https://user:{KEY}@gateway.example/v1")
    assert "user name or password" in str(excinfo.value)
    assert leaks_by_place({"str": str(excinfo.value), "repr": repr(excinfo.value)}) == {}


def test_the_canary_is_found_where_it_is():
    places = leaks_by_place(everything_of(ModelError(f"sent {KEY}")))
    assert set(places) == {"str", "repr", "args", "fields", "traceback", "pickle"}


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda kind: kind.__name__)
def test_F_V08_a_proxy_that_cannot_be_reached_shows_no_password(
    transport: Any, call: Any, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    through = transport(with_proxy())
    model = make_model(ChatOpenAI, "http://127.0.0.1:9", transport=through)
    with pytest.raises(FoldlineError) as excinfo:
        call.invoke(model, "Hi")
    texts = {**everything_of(excinfo.value), "logs": caplog.text, "repr": repr(through)}
    assert leaks_by_place(texts) == {}


STORES = {
    "postgres": lambda: PostgresChatMessageHistory("s", f"postgresql://user:{KEY}@127.0.0.1:9/db"),
    "postgres words": lambda: PostgresChatMessageHistory(
        "s", f"host=127.0.0.1 port=9 password={KEY}"
    ),
    "redis": lambda: RedisChatMessageHistory("s", f"redis://user:{KEY}@127.0.0.1:9/0").messages,
    "redis cache": lambda: RedisCache(f"redis://user:{KEY}@127.0.0.1:9/0").lookup("a", "b"),
}


@pytest.mark.parametrize("name", STORES)
def test_F_V08_a_store_that_cannot_be_reached_shows_no_password(
    name: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(FoldlineError) as excinfo:
        STORES[name]()
    texts = everything_of(excinfo.value)
    texts.pop("locals")  # the address is a local variable of the driver's own code
    assert leaks_by_place({**texts, "logs": caplog.text}) == {}
