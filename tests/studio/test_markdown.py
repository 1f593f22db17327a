"""Hostile texts in a real browser: the page reads them in one pass, shows them in parts, and stays usable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foldline.testing import ScriptedChatModel
from foldline.tracers import SQLiteTracer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

HOSTILE = {
    "backticks of every length": " ".join("`" * (1 + place % 400) for place in range(400)),
    "runs of backticks": "`a``" * 20_000,
    "open brackets": "[" * 400_000,
    "open links": "[a](" * 100_000,
    "brackets, and one that closes": "[" * 400_000 + "]",
    "stars": "*a **b " * 60_000,
    "underscores": "__a " * 100_000,
    "addresses": "http://" * 60_000,
    "a table of spaces": "|a|\n" + " " * 200_000 + "x",
    "a rule of spaces": "- " * 150_000 + "x",
    "quotes": "> " * 150_000,
    "pictures": "![](" * 100_000,
    "ten megabytes of words": "word " * 2_000_000,
    "ten megabytes of lines": "a line of words\n" * 650_000,
    "an open fence": "```\n" + "<b>code</b>\n" * 100_000,
    "html": "<img src=x onerror=alert(1)><script>window.hacked=1</script>" * 5_000,
    "escapes": "\x1b[" * 100_000 + "\x1b]" * 100_000,
}


@pytest.mark.timing
def test_F_V07_hostile_texts_do_not_stop_the_page(start: Any, tmp_path: Path, open_page: Any):
    """Each is opened, and as much of it shown as the page offers at once, ten times: the page answers meanwhile."""
    with SQLiteTracer(tmp_path / "traces.db") as tracer:
        for name, text in HOSTILE.items():
            model = ScriptedChatModel(script=lambda request, text=text: text)
            model.invoke(name, {"callbacks": [tracer], "run_name": name})
    studio = start()
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    slow: dict[str, float] = {}
    for trace in studio.get("traces?limit=100")["traces"]:
        page.goto(f"{studio.url}/#/traces/{trace['id']}")
        page.wait_for_selector(".message.assistant", timeout=30_000)
        for _ in range(3):
            if not page.locator(MORE).count():
                break
            slow[trace["name"]] = max(slow.get(trace["name"], 0.0), page.evaluate(SHOW_MORE))
        assert page.locator(".message.assistant img, .message.assistant script").count() == 0

    assert {name: time for name, time in slow.items() if time > 2_000} == {}
    assert len(slow) >= 14
    assert page.evaluate("window.hacked") is None


MORE = (
    ".message.assistant .more:has-text('Show all'), .message.assistant .more:has-text('Show more')"
)
SHOW_MORE = """async () => {
  const begun = performance.now();
  document.querySelector(".message.assistant .more").click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  return performance.now() - begun;
}"""
