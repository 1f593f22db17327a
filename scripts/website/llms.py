"""Write `llms.txt` (the pages with a line on each) and `llms-full.txt` (all of them), and each page as Markdown."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["write_llms"]

FULL = ("Start", "Tasks", "Guide", "Providers")
"""Parts whose pages are in `llms-full.txt` too."""


def write_llms(nav: list[dict[str, Any]], pages: Path, site: Path, summary: str) -> None:
    """Write both files, and the pages that they link to."""
    index, whole = ["# foldline", "", f"> {summary}", ""], []
    for part in nav:
        for title, content in part.items():
            index += [f"## {title}", ""]
            for name, page in _flat({title: content}):
                text = (pages / page).read_text(encoding="utf-8")
                index.append(f"- [{name}]({page}): {_first_sentence(text)}")
                goal = site / page
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(pages / page, goal)
                if title in FULL:
                    whole += [text.strip(), ""]
            index.append("")
    (site / "llms.txt").write_text("\n".join(index), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(whole), encoding="utf-8")


def _flat(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, inner in content.items():
        if isinstance(inner, str):
            yield name, inner
            continue
        for one in inner:
            yield from _flat(one)


def _first_sentence(text: str) -> str:
    """Return the beginning of a page's first paragraph, in one line."""
    for paragraph in text.split("\n\n"):
        if paragraph.strip() and paragraph.lstrip()[0] not in "#|`:<-!":
            line = " ".join(paragraph.split())
            return line.split(". ")[0].rstrip(".:") + "."
    return ""
