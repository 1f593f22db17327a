"""The documentation site, built as `scripts/docs` builds it, and read in Chromium."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.website.links import broken_links
from scripts.website.reference import find_pages

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("website")
    result = subprocess.run(
        [sys.executable, "-m", "scripts.website", str(build)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "0 broken links" in result.stdout
    return build / "site"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.timeout(1800)
def test_every_link_leads_somewhere_and_every_task_has_a_page(site):
    assert broken_links(site) == []
    for task in (ROOT / "docs" / "tasks").glob("*.md"):
        assert (site / "tasks" / task.stem / "index.html").exists(), task.stem


@pytest.mark.timeout(1800)
def test_every_public_name_is_in_the_reference(site):
    pages = {
        file.parent.name: file.read_text(encoding="utf-8")
        for file in (site / "api").rglob("*.html")
    }

    missing = [
        path
        for page in find_pages(ROOT / "src")
        for paths in page.names.values()
        for path in paths
        if f'id="{path}"' not in pages[page.file.removesuffix(".md")]
    ]

    assert missing == []


@pytest.mark.timeout(1800)
def test_llms_txt_lists_pages_that_are_there(site):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    pages = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", text, flags=re.MULTILINE)

    assert len(pages) > 100
    assert "tasks/extract.md" in pages
    assert [page for page in pages if not (site / page).exists()] == []
    full_text = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert "# Quickstart" in full_text
    assert "{test=" not in full_text


@pytest.mark.timeout(1800)
def test_search_finds_a_page_and_nobody_else_is_asked(address):
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser_path is None:
        pytest.skip(
            "Chromium is not installed here: apt-get install chromium (scripts/servers does)"
        )
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        foreign: list[str] = []
        errors: list[str] = []
        page.on("request", lambda request: _note_foreign(request, address, foreign))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/quickstart/")
        assert page.locator("h1").first.inner_text().startswith("Quickstart")
        page.goto(f"{address}/benchmarks/")
        assert page.locator("a[href*='agent-with-approval']:visible").count() == 0
        page.locator(".md-search__button").first.click()
        page.keyboard.type("approval restart")
        page.wait_for_selector("a[href*='agent-with-approval']:visible", timeout=30_000)
        page.goto(f"{address}/api/messages/")
        assert page.locator("[id='foldline.messages.AIMessage']").count() == 1
        page.goto(f"{address}/flows/")
        browser.close()

    assert foreign == []
    assert errors == []


def _note_foreign(request: Any, address: str, foreign: list[str]) -> None:
    if not request.url.startswith((address, "data:", "blob:")):
        foreign.append(request.url)
