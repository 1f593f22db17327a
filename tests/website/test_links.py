"""The link checker finds broken links."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.website.links import broken_links
from scripts.website.reference import find_pages

ROOT = Path(__file__).parents[2]


def write_site(folder: Path, body: str) -> Path:
    (folder / "a").mkdir()
    (folder / "index.html").write_text(f"<html><body>{body}</body></html>")
    (folder / "a" / "index.html").write_text('<h1 id="top">A</h1><a href="../">home</a>')
    return folder


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('<a href="b/">x</a>', "index.html: links to b/, which is not there"),
        ('<a href="a/#none">x</a>', "index.html: links to a/#none, which has no such heading"),
        ('<a href="../outside">x</a>', "index.html: links to ../outside, which is not there"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "index.html: loads https://cdn.example/x.js from another host",
        ),
        (
            '<link rel="stylesheet" href="//fonts.example/a.css">',
            "index.html: loads //fonts.example/a.css from another host",
        ),
        ('<img src="none.png">', "index.html: loads none.png, which is not there"),
    ],
)
def test_what_is_broken_is_named(tmp_path, body, complaint):
    assert broken_links(write_site(tmp_path, body)) == [complaint]


def test_what_is_right_passes(tmp_path):
    body = '<a href="a/#top">x</a><a href="https://example.com">y</a><a href="#here" id="here">z</a><img src="data:,">'

    assert broken_links(write_site(tmp_path, body)) == []


@pytest.mark.slow
def test_the_reference_has_each_name_once():
    pages = find_pages(ROOT / "src")
    paths = [path for page in pages for group in page.names.values() for path in group]

    assert len(paths) == len(set(paths)) > 1000
    assert "foldline.messages.AIMessage" in paths
    assert "foldline.providers.http.HttpChatModel" in paths
    root = next(page for page in pages if page.package == "foldline")
    assert root.elsewhere["foldline.AIMessage"] == "foldline.messages.AIMessage"
    modules = {path.rpartition(".")[0] for path in paths}
    assert not any("._" in module or module.startswith("foldline._cli") for module in modules)
