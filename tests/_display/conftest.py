"""A browser for the tests: Debian's Chromium, without a window and without a network."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
<script>
addEventListener("load", () => {
  const seen = document.createElement("pre");
  seen.id = "seen";
  seen.textContent = document.body.innerText;
  document.body.replaceChildren(seen);
});
</script>
"""
Browse = Callable[[str], str]


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Browse:
    """Return the text that a browser shows of some HTML."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no Chromium: scripts/servers installs it")

    def words(html: str) -> str:
        folder = tmp_path_factory.mktemp("page")
        page: Path = folder / "page.html"
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><body>{html}{SCRIPT}</body>', encoding="utf-8"
        )
        result = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--disable-extensions", "--no-first-run", "--disable-background-networking",
                f"--user-data-dir={folder / 'profile'}",
                "--dump-dom", page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )  # fmt: skip
        assert 'id="seen"' in result.stdout, result.stderr[-500:]
        return result.stdout

    return words
