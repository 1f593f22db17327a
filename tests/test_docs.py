"""Every Python example in README.md, docs/ and the docstrings runs, and prints what its `#>` lines say.

An example that cannot run is marked ```` ```python {test="skip: the reason"} ````, and the reason is demanded.
`scripts/docs --update` writes what the examples print into the pages.
"""

from __future__ import annotations

import ast
import importlib
import re
import traceback
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

ROOT = Path(__file__).parent.parent
ROOT_PAGES = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
PAGES = [*(ROOT / f"{name}.md" for name in ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
SKIP = "skip:"
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)")


def name(example: CodeExample) -> str:
    return f"{example.path.relative_to(ROOT)}:{example.start_line}"


EXAMPLES = list(find_examples(*(str(page) for page in PAGES), str(ROOT / "src")))


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_example_runs_and_prints_what_it_says(example: CodeExample, eval_example: EvalExample):
    mark = example.prefix_settings().get("test", "")
    if mark:
        assert mark.startswith(SKIP), f'{name(example)}: the only mark is test="skip: reason"'
        assert len(mark.removeprefix(SKIP).split()) >= 2, f"{name(example)}: say why it cannot run"
        check_imports(example)
        return
    eval_example.set_config(line_length=100, target_version="py311")
    run = eval_example.run_print_check
    if eval_example.update_examples:
        run = eval_example.run_print_update
    complaint = ""
    try:
        run(example, module_globals=surroundings(example))
    except Exception as error:  # noqa: BLE001  whatever the example raised
        places = list(traceback.walk_tb(error.__traceback__))
        line = places[-1][1] if places else example.start_line
        complaint = f"{line}: {''.join(traceback.format_exception_only(error))}"
    # Outside the `except`: pytest trips over the traceback that pytest-examples has rewritten.
    if complaint:
        pytest.fail(f"{example.path.relative_to(ROOT)}:{complaint}", pytrace=False)


def check_imports(example: CodeExample) -> None:
    """Raise unless what an example that cannot run imports of foldline is there, and it is Python at all."""
    for node in ast.walk(ast.parse(example.source)):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("foldline"):
            continue
        module = importlib.import_module(str(node.module))
        missing = [name.name for name in node.names if not hasattr(module, name.name)]
        assert not missing, f"{name(example)}: {node.module} has no {', '.join(missing)}"


def surroundings(example: CodeExample) -> dict[str, object]:
    """Return the names that an example may use without an import: a docstring those of its module, a page none."""
    if not example.in_py_file():
        return {}
    parts = example.path.relative_to(ROOT / "src").with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path):
    targets = LINK.findall(page.read_text(encoding="utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_navigation_of_the_site():
    config = (ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES[len(ROOT_PAGES) :]]

    assert [page for page in pages if f'"{page}"' not in config] == []


def test_pages_import_nothing_private():
    private = re.compile(r"^\s*(?:from|import) (foldline[\w.]*\._\w+)", flags=re.MULTILINE)

    assert [
        (str(page.name), private.findall(page.read_text(encoding="utf-8")))
        for page in PAGES
        if private.findall(page.read_text(encoding="utf-8"))
    ] == []


def test_the_readme_begins_with_commands_that_work_in_a_clone_then_ten_lines_of_code():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    parts = (
        "scripts/demo",
        "pip install .",
        "pip install foldline",
        "init_chat_model(",
        "scripts/test",
    )
    places = [readme.index(part) for part in parts]

    assert places == sorted(places)
    assert len(readme.split("```python", 1)[1].split("```")[0].strip().splitlines()) <= 10


def test_the_readme_has_two_set_up_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^scripts/\w+$", readme, flags=re.MULTILINE)

    assert commands == ["scripts/demo", "scripts/test"]
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
