"""Write docs/conformance.md from the claims in this folder: `python -m tests.conformance.page`.

Every `NNN.toml` holds the claims of one document: `[[claim]]` with `text`, in our own words, and `tests`, the names of
the tests that show it. `differs = true` marks a claim that foldline answers otherwise, with the reason in its text.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PAGE = ROOT / "docs" / "conformance.md"
TITLES = {
    "000": "Chat models: the class, its messages, streaming, callbacks, tools",
    "001": "Streaming by content blocks (`stream_v2`)",
    "002": "AIGNE's ChatModel",
    "003": "Messages and content blocks",
    "004": "Runnables, chains and the agent executor",
}
HEAD = """# Conformance

foldline follows five documents: a chapter on LangChain's chat models, the change that brought LangChain its streaming
by content blocks, the guide to AIGNE's ChatModel, the guide to LangChain's messages, and a reading of LangChain's
runnables, chains and agents. Below is what each of them claims, in our own words, with the tests that show that
foldline does it. Where foldline answers otherwise, the claim says so and why. Every code sample of the documents runs
among these tests.

This page is made by `python -m tests.conformance.page` from the files in `tests/conformance`; a test holds it to them.
"""


class Claim(NamedTuple):
    """A statement of a document, and the tests that show it."""

    text: str
    tests: list[str]
    differs: bool = False


def documents() -> dict[str, list[Claim]]:
    """Return the claims of each document, by its number."""
    return {path.stem: claims_of(path) for path in sorted(FOLDER.glob("[0-9][0-9][0-9].toml"))}


def claims_of(path: Path) -> list[Claim]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
    return [Claim(row["text"], row["tests"], row.get("differs", False)) for row in rows]


@cache
def tests_in(path: str) -> frozenset[str]:
    """Return the names of the tests in a file: `test_a`, `TestB::test_c`."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(name for name in names if name.split("::")[-1].startswith("test_"))


def missing_tests(claim: Claim) -> list[str]:
    """Return the tests of a claim that are not there."""
    missing = []
    for test in claim.tests:
        path, _, name = test.partition("::")
        if not (ROOT / path).is_file() or name.partition("[")[0] not in tests_in(path):
            missing.append(test)
    return missing


def page_text() -> str:
    """Write the page."""
    claims_by_document = documents()
    lines = [HEAD, "| document | claims | shown | answered otherwise |", "|---|---|---|---|"]
    for number, claims in claims_by_document.items():
        otherwise = sum(claim.differs for claim in claims)
        lines.append(
            f"| {TITLES[number]} | {len(claims)} | {len(claims) - otherwise} | {otherwise} |"
        )
    for number, claims in claims_by_document.items():
        lines += ["", f"## {TITLES[number]}", "", "| claim | shown by |", "|---|---|"]
        lines += [_row(claim) for claim in claims]
    return "\n".join(lines) + "\n"


def _row(claim: Claim) -> str:
    links = "<br>".join(f"[{_short(name)}](../{name.partition('::')[0]})" for name in claim.tests)
    text = claim.text.replace("|", "\\|")
    return f"| {'**Otherwise.** ' if claim.differs else ''}{text} | {links} |"


def _short(name: str) -> str:
    return name.rpartition("::")[2].partition("[")[0].removeprefix("test_").replace("_", " ")


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
