"""A program that watches itself: run with `python -PB watch.py <deed>`, it prints as JSON what foldline touched.

Python tells an audit hook of every file, socket, process and thread; the environment is watched by standing in for
`os.environ`, and counted only where a frame of foldline's asks; threads by standing in for
`Thread.start`. Python's own reading of modules is not counted.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

WATCHED = ("open", "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn")
WATCHED += ("os.fork", "os.startfile", "os.remove", "os.rename", "os.mkdir", "shutil.")
WATCHED += (
    "sqlite3.connect",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "tempfile.",
    "webbrowser.",
)
WATCHED += (
    "_thread.start_new_thread",
    "pty.",
    "syslog.",
    "pickle.",
    "marshal.load",
    "glob.",
    "pdb.",
)
OF_PYTHON = (".py", ".pyc", ".so", ".pyd", ".dll", ".dylib", ".pth", "METADATA", "entry_points.txt")
"""Files of modules, and what `importlib.metadata` reads of installed packages: the entry points of providers."""

events: list[str] = []
is_watching = False


def is_of_python(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether the interpreter or an import read a module, or the import system its own cache."""
    if event == "marshal.load" or event == "marshal.loads":
        return True
    path = str(arguments[0]) if event == "open" and arguments else ""
    return event == "open" and (path.endswith(OF_PYTHON) or path in sys.path)


def hook(event: str, arguments: tuple[object, ...]) -> None:
    """Record the watched events. Never raises: Python would end."""
    if is_watching and event.startswith(WATCHED) and not is_of_python(event, arguments):
        events.append(f"{event} {str(arguments)[:160]}")


def tell_of_threads() -> None:
    """Python 3.11 has no audit event for a new thread: stand in for what starts them all."""
    start = threading.Thread.start

    def start_and_record(thread: threading.Thread) -> None:
        if is_watching:
            events.append(f"thread {thread!r}")
        start(thread)

    threading.Thread.start = start_and_record  # type: ignore[method-assign]


class WatchedEnvironment(dict[str, str]):
    """Replaces `os.environ` and records which part of foldline reads it."""

    def __getitem__(self, key: str) -> str:
        self._told(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._told(key)
        return super().__contains__(key)

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        self._told(key)
        return super().get(key, default)

    def items(self) -> object:  # type: ignore[override]
        self._told("*")
        return super().items()

    def _told(self, key: object) -> None:
        asker = sys._getframe(2).f_code.co_filename
        # The whole clone may stand in a folder called foldline, with other people's packages in its environment.
        if is_watching and f"{os.sep}foldline{os.sep}" in asker.rpartition("site-packages")[2]:
            events.append(f"environment {key} ({Path(asker).name})")


def modules() -> list[str]:
    """Every module of foldline but those that run when imported."""
    import foldline

    names = [module.name for module in pkgutil.walk_packages(foldline.__path__, "foldline.")]
    return [name for name in names if not name.endswith("__main__")]


def import_foldline() -> None:
    """The first import of all."""
    importlib.import_module("foldline")


ACTS = frozenset(
    ["foldline.tracers.langchain", "foldline.compat.langchain", "foldline.compat._private_names"]
)
"""Modules whose import is an act: LangSmith's client, whose urllib3 tries a socket; LangChain's names, put in place."""
OF_LANGSMITH = frozenset(["LangChainTracer", "get_client", "wait_for_all_tracers"])
"""Names that load LangSmith's client, an extra."""


def import_everything() -> None:
    """Every module, and every name that a package loads late."""
    for name in modules():
        if name in ACTS:
            continue
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            if public not in OF_LANGSMITH:
                getattr(module, public)


def load_and_dump() -> None:
    """Honest and hostile payloads, read and written."""
    from foldline.documents import Document
    from foldline.exceptions import SchemaError
    from foldline.load import dumpd, dumps, load, loads
    from foldline.messages import AIMessage, HumanMessage, messages_from_dict, messages_to_dict

    messages = [
        HumanMessage("hi"),
        AIMessage("ho", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "1"}]),
    ]
    assert loads(dumps(messages)) == messages
    assert load(dumpd(Document("x", metadata={"lc": 1}))) == Document("x", metadata={"lc": 1})
    assert messages_from_dict(messages_to_dict(messages)) == messages
    for name in (
        "os.system",
        "subprocess.Popen",
        "antigravity.X",
        "foldline.providers.openai.ChatOpenAI",
    ):
        arguments = {"base_url": "http://127.0.0.1:9", "path": "/etc/passwd", "args": ["id"]}
        payload = {"lc": 1, "type": "constructor", "id": name.split("."), "kwargs": arguments}
        for hostile in (payload, {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]}):
            try:
                load(hostile)
            except SchemaError:
                continue
            raise AssertionError(f"loaded {hostile}")


def fill_in_templates() -> None:
    """Every format of template but jinja2's, which is an extra that reads its own modules."""
    from foldline.prompts import (
        ChatPromptTemplate,
        FewShotPromptTemplate,
        MessagesPlaceholder,
        PromptTemplate,
    )

    url = "http://169.254.169.254/latest/meta-data"
    plain = PromptTemplate.from_template("Say {word}")
    assert (
        plain.format(word="{0.__class__} file:///etc/passwd")
        == "Say {0.__class__} file:///etc/passwd"
    )
    PromptTemplate.from_template("{{#a}}{{b}}{{/a}}", template_format="mustache").format(
        a=[{"b": url}]
    )
    picture = ("human", [{"type": "image_url", "image_url": {"url": "{link}"}}])
    chat = ChatPromptTemplate([("system", "Be {mood}"), MessagesPlaceholder("past"), picture])
    chat.invoke({"mood": "brief", "past": [("human", "hi")], "link": url})
    FewShotPromptTemplate(examples=[{"word": "a"}], example_prompt=plain, suffix="{x}").format(
        x="/etc/passwd"
    )


def count_tokens() -> None:
    """Counting looks at addresses of pictures and never behind them (CVE-2026-26013)."""
    from foldline.language_models import FakeListChatModel
    from foldline.messages import HumanMessage, count_tokens_approximately, trim_messages

    addresses = [
        "http://127.0.0.1:1/a.png",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "/etc/passwd",
    ]
    blocks = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
    blocks += [{"type": "image", "url": address} for address in addresses]
    messages = [HumanMessage([{"type": "text", "text": "what is this?"}, *blocks])]
    assert count_tokens_approximately(messages) > 0
    trim_messages(messages, max_tokens=10, token_counter=count_tokens_approximately)
    for model in (FakeListChatModel(responses=["hi"]), *providers()):
        assert model.get_num_tokens("a few words") > 0
        assert model.get_num_tokens_from_messages(messages) > 0


def providers() -> list[Callable[..., object]]:
    """A model of each provider over HTTP. Making one opens no connection."""
    from foldline.providers import REGISTRY, find_provider

    kinds = {find_provider(name) for name in REGISTRY if name != "local"}
    return [
        kind(model="m", api_key="k", base_url="http://127.0.0.1:9")
        for kind in sorted(kinds, key=lambda kind: kind.__name__)
    ]


DEEDS = {
    action.__name__: action
    for action in (
        import_foldline,
        import_everything,
        load_and_dump,
        fill_in_templates,
        count_tokens,
    )
}


def watch(action: Callable[[], object]) -> list[str]:
    """Do something under watch and give what was seen."""
    global is_watching
    sys.addaudithook(hook)
    tell_of_threads()
    os.environ = WatchedEnvironment(os.environ)  # type: ignore[assignment]  # noqa: B003
    is_watching = True
    action()
    is_watching = False
    return events


if __name__ == "__main__":
    print(json.dumps(watch(DEEDS[sys.argv[1]])))
