"""Write docs/spec/tests.md, which says which test shows which rule: `python -m tests.spec_page`.

A test shows the rules that its name or docstring names (`test_T01_...`, `test_F_C13_...`), a file those that stand
anywhere in it, such as the scenarios of tests/faults.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"
PAGE = SPEC / "tests.md"
CODE = re.compile(r"(?<![A-Za-z0-9])(T\d{2,3}|V\d{1,2}|E\d|F[-_]?[A-Z]\d{2})(?![A-Za-z0-9])")
ROW = re.compile(r"^\| (T\d{2,3}|V\d{1,2}|E\d|F-[A-Z]\d{2}) \|", re.MULTILINE)
LINTER = re.compile(r"#\s*(noqa|type:|fmt:|ruff:).*")
SHOWN = 6
"""How many tests a row names."""
HEAD = """# Which test shows which rule

Made by `python -m tests.spec_page` from the names of the tests; a test holds it to them. Where many tests show a rule,
the first are named.

| rule | shown by |
|---|---|
"""


def defined() -> list[str]:
    """Return the codes that the pages of the specification define, in their order."""
    return [
        code
        for page in ("streaming.md", "faults.md")
        for code in ROW.findall((SPEC / page).read_text(encoding="utf-8"))
    ]


def codes_in(text: str) -> Iterator[str]:
    """Return the codes in a text, in their one spelling."""
    for line in text.splitlines():
        for code in CODE.findall(LINTER.sub("", line)):
            yield f"F-{code[-3:]}" if code[0] == "F" else code


def files_by_code() -> dict[str, set[str]]:
    """Return every code in the source, the tests and the pages, with the files that use it."""
    files = defaultdict(set)
    for folder, pattern in (("src", "*.py"), ("tests", "*.py"), ("docs", "*.md")):
        for path in (ROOT / folder).rglob(pattern):
            if path == PAGE:
                continue
            for code in codes_in(path.read_text(encoding="utf-8")):
                files[code].add(path.relative_to(ROOT).as_posix())
    return files


@cache
def names_by_code() -> dict[str, list[tuple[str, str]]]:
    """Return the tests, as name and file, that show each rule."""
    tests: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        if not path.name.startswith("test_"):
            for code in dict.fromkeys(codes_in(text)):
                tests[code].append((path.stem, file))
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                says = f"{node.name}\n{ast.get_docstring(node) or ''}".replace("_", " ")
                says = re.sub(r"\bF ([A-Z]\d{2})\b", r"F-\1", says)
                for code in dict.fromkeys(codes_in(says)):
                    tests[code].append((node.name, file))
        for code in dict.fromkeys(codes_in(text)):
            if not any(file == test_file for _, test_file in tests[code]):
                tests[code].append((path.stem, file))
    return tests


def page_text() -> str:
    """Return the page as it should be."""
    tests = names_by_code()
    rows = [f"| {code} | {_links(tests.get(code, []))} |" for code in defined()]
    return HEAD + "\n".join(rows) + "\n"


def _links(tests: list[tuple[str, str]]) -> str:
    ordered_tests = sorted(
        tests, key=lambda test: not test[0].startswith("test_T") and "test_" not in test[0]
    )
    links = [
        f"[{name.removeprefix('test_').replace('_', ' ')}](../../{file})"
        for name, file in ordered_tests[:SHOWN]
    ]
    hidden_count = len(ordered_tests) - SHOWN
    return "<br>".join([*links, *([f"and {hidden_count} more"] if hidden_count > 0 else [])])


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
