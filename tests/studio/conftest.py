"""A studio that is served for real, over an example file; and Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from foldline.studio import create_app
from foldline.studio._example import fill_example
from foldline.testing import Call, Reason, ScriptedChatModel
from foldline.tools import tool

TOKEN = "the-token-of-this-test"
CHANGE = {"x-foldline-studio": "1"}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_model(name: str, parameters: dict[str, Any]) -> Any:
    """Models for the playground: scripted, by their name."""
    scripts: dict[str, list[Any]] = {
        "fake:plain": ["A **short** answer."] * 20,
        "fake:other": ["Another answer."] * 20,
        "fake:tools": [[Reason("I add."), Call("add", {"a": 1, "b": 2})]],
    }
    return ScriptedChatModel(script=scripts[name])


@dataclass
class Studio:
    url: str
    folder: Path
    token: str = TOKEN
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.url}/?token={self.token}"

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {self.token}", **CHANGE, **headers},
            timeout=30,
        )

    def get(self, path: str) -> Any:
        with self.client() as client:
            answer = client.get(f"/api/{path}")
            assert answer.status_code == 200, answer.text
            return answer.json()

    def post(self, path: str, body: Any) -> Any:
        with self.client() as client:
            answer = client.post(f"/api/{path}", json=body)
            assert answer.status_code < 300, answer.text
            return answer.json()


def serve(folder: Path, **options: Any) -> tuple[Studio, Callable[[], None]]:
    settings = {
        "traces": folder / "traces.db",
        "sessions": folder / "traces.db",
        "datasets": folder / "datasets.db",
        "token": TOKEN,
        "models": ("fake:plain", "fake:other", "fake:tools"),
        "make_model": make_model,
        "tools": {"add": add},
        **options,
    }
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(**settings), log_level="warning", lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def stop() -> None:
        server.should_exit = True
        thread.join(20)
        listener.close()

    return Studio(url, folder, settings=settings), stop


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Studio]]:
    """Start a studio over a folder, `tmp_path` by default."""
    stops: list[Callable[[], None]] = []

    def run(folder: Path = tmp_path, **options: Any) -> Studio:
        studio, stop = serve(folder, **options)
        stops.append(stop)
        return studio

    yield run
    for stop in stops:
        stop()


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    fill_example(folder)
    return folder


@pytest.fixture
def studio(start: Callable[..., Studio], example_folder: Path, tmp_path: Path) -> Studio:
    """A studio over a copy of the example."""
    for name in ("traces.db", "datasets.db", "threads.db"):
        shutil.copy(example_folder / name, tmp_path / name)
    return start()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium; no browser is downloaded.

    Of one file: while Playwright is open, its event loop runs in this thread, and tests of sync code would find it.
    """
    program = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if program is None:
        pytest.skip(
            "Chromium is not installed here: apt-get install chromium (scripts/servers does)"
        )
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open a page; at the end the console must be empty, and no other host requested."""
    pages: list[tuple[Any, list[str], str]] = []

    def open_it(studio: Studio, place: str = "", **options: Any) -> Any:
        options = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", **options}
        page = chromium.new_page(**options)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((studio.url, "data:", "blob:"))
                else complaints.append(f"asked {request.url}")
            ),
        )
        pages.append((page, complaints, studio.url))
        page.goto(studio.address)
        if place:
            page.goto(f"{studio.url}/#{place}")
        return page

    yield open_it
    for page, complaints, _ in pages:
        page.close()
        assert complaints == []
