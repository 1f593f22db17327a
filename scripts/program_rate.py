"""Measure how many programs written for LangChain run here after `foldline migrate`, and print the same.

    .venv/bin/python scripts/program_rate.py LANGCHAIN_ENV/bin/python      (--write: also into the docs)

The programs are the examples in the docstrings of LangChain's packages, as installed in that environment (the extra
`peers` and langchain-classic). Each is run in a process of its own against the server of all wires
(tests/servers/wires.py): on LangChain as it is, and here after migration. Those that LangChain itself cannot run (they
need a file, a network or a name that the example leaves out) do not count.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "migrating-from-langchain.md"
BEGIN, END = "<!-- program rate -->", "<!-- end of program rate -->"
PACKAGES = (
    "langchain_core", "langchain", "langchain_classic", "langchain_text_splitters", "langchain_openai",
    "langchain_anthropic", "langgraph",
)  # fmt: skip
PRELOADED = {
    "langchain": "langchain_core.messages langchain_core.runnables langchain_core.prompts "
    "langchain_core.output_parsers langchain_core.tools langchain_openai langchain_anthropic langchain.agents "
    "langgraph.graph langchain_text_splitters langchain_classic.chains",
    "foldline": "foldline.messages foldline.runnables foldline.prompts foldline.output_parsers foldline.tools "
    "foldline.providers.openai foldline.providers.anthropic foldline.agents foldline.graph foldline.text_splitters "
    "foldline.chains",
}
"""What each process has imported before its program begins, so that the time is the program's."""
SECONDS = 10
BLOCK = re.compile(r"```python[^\n]*\n(.*?)```", re.DOTALL)
VOLATILE = (
    (re.compile(r"lc_run-[-\w]+|run-[-0-9a-f]+[-\d]*|[0-9a-f]{8}-[0-9a-f-]{27}"), "ID"),
    (re.compile(r"\bid='[^']*'"), "id=ID"),
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"foldline(\.\w+)*|langchain(_\w+)?(\.\w+)*|langgraph(\.\w+)*"), "LIB"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.\d]*([+-]\d\d:\d\d)?|\d+\.\d+ ?m?s"), "T"),
    (re.compile(r"datetime\.datetime\([^()]*\)"), "T"),
    (re.compile(r"<LIB object at 0x>|\b[A-Z]\w+\(\)"), "OBJECT"),
)
"""What differs from run to run, or is the name of the library, or of an object that shows no field -> its stand-in."""
MORE_FIELDS = frozenset({"finish_reason", "status"})
"""Fields that only our messages have, as the page says."""
SDK_FIELDS = frozenset({"content", "response_metadata"})
"""Fields in which a vendor's SDK, over which LangChain calls, says None under keys that nobody sent."""


# -- collecting


def collect() -> list[dict[str, str]]:
    """Return the examples in the docstrings of the packages that are installed here."""
    programs: list[dict[str, str]] = []
    codes: set[str] = set()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            for path in sorted(Path(folder).rglob("*.py")):
                for name, code in _examples(path):
                    if code not in codes:
                        codes.add(code)
                        place = path.relative_to(Path(folder).parent)
                        programs.append({"id": f"{place}:{name}:{len(programs)}", "code": code})
    return programs


def _examples(path: Path) -> Iterator[tuple[str, str]]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        for found in BLOCK.finditer(text or ""):
            code = textwrap.dedent(found[1])
            if re.search(r"^\s*(from|import) lang", code, re.MULTILINE) and _parses(code):
                yield getattr(node, "name", "module"), code


def _parses(code: str) -> bool:
    try:
        compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    except SyntaxError:
        return False
    return True


# -- running


def run_all(programs: list[dict[str, str]], library: str) -> dict[str, dict[str, Any]]:
    """Run each program in a process of its own; return what it printed and how it failed."""
    warnings.simplefilter("ignore")
    for module in PRELOADED[library].split():
        importlib.import_module(module)
    return {program["id"]: _run(program["code"]) for program in programs}


def _run(code: str) -> dict[str, Any]:
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        signal.alarm(SECONDS)
        try:
            os.write(writer, json.dumps(_outcome(code)).encode()[:60_000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(process, 0)
    try:
        outcome: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"error": "killed, or printed too much", "output": ""}
    return outcome


def _outcome(code: str) -> dict[str, Any]:
    tree = ast.parse(code)
    for place, node in enumerate(tree.body):  # as in a notebook, an expression shows its value
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            show = ast.Call(ast.Name("__show__", ast.Load()), [node.value], [])
            tree.body[place] = ast.Expr(show)
    output, error = io.StringIO(), None
    names = {"__name__": "__main__", "__show__": _show, "print": _print}
    random.seed(0)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        try:
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            body = compile(ast.fix_missing_locations(tree), "program", "exec", flags=flags)
            waiting = eval(body, names)
            if inspect.iscoroutine(waiting):
                asyncio.run(waiting)
        except BaseException as failure:  # noqa: BLE001  whatever a program raises
            error = f"{type(failure).__name__}: {str(failure)[:200]}"
    text = output.getvalue()
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return {"error": error, "output": text}


def _show(value: object) -> None:
    if value is not None:
        sys.stdout.write(_text(value) + "\n")


def _print(*values: object, **options: Any) -> None:
    options.pop("flush", None)
    print(*(value if isinstance(value, str) else _text(value) for value in values), **options)  # noqa: T201


def _text(value: Any, *, nulls: bool = True) -> str:
    """Return a value as text, with the keys of dicts and the fields of models in one order: they have none."""
    if type(value) is dict:
        told = [(key, one) for key, one in value.items() if nulls or one is not None]
        return (
            "{"
            + ", ".join(sorted(f"{key!r}: {_text(one, nulls=nulls)}" for key, one in told))
            + "}"
        )
    if type(value) in (list, tuple):
        inside = ", ".join(_text(one, nulls=nulls) for one in value)
        return f"[{inside}]" if type(value) is list else f"({inside})"
    if hasattr(type(value), "__pydantic_fields__") and hasattr(value, "__repr_args__"):
        fields = [
            f"{name}={_text(one, nulls=name not in SDK_FIELDS)}"
            for name, one in value.__repr_args__()
            if name not in MORE_FIELDS
        ]
        return f"{type(value).__name__}({', '.join(sorted(fields))})"
    return str(value) if isinstance(value, BaseException) else repr(value)


# -- comparing


def measure(python: str) -> dict[str, Any]:
    """Run all programs on both libraries; return the counts and what failed."""
    sys.path.insert(0, str(ROOT))
    from foldline.compat._rewrite import rewrite  # noqa: PLC0415  the other half runs without foldline
    from tests.servers.wires import serve_wires  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, serve_wires() as url:
        environment = {
            **os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1",
            "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_URL": url,
            "LANGSMITH_TRACING": "false", "PYTHONHASHSEED": "0", "HOME": folder,
        }  # fmt: skip

        def child(interpreter: str, task: str, programs: list[dict[str, str]]) -> Any:
            data = Path(folder) / f"{task}.json"
            data.write_text(json.dumps(programs), encoding="utf-8")
            command = [
                interpreter,
                "-W",
                "ignore",
                str(Path(__file__).resolve()),
                "--child",
                task,
                str(data),
            ]
            subprocess.run(command, check=True, env=environment, cwd=folder)
            return json.loads(data.read_text(encoding="utf-8"))

        programs = child(python, "collect", [])
        control = child(python, "langchain", programs)
        running = [one for one in programs if control[one["id"]]["error"] is None]
        migrated, gaps = [], set()
        for program in running:
            result = rewrite(program["code"])
            migrated.append({"id": program["id"], "code": result.source})
            if any(finding.is_gap for finding in result.findings):
                gaps.add(program["id"])
        ours = child(sys.executable, "foldline", migrated)
    failed = {name: one["error"] for name, one in ours.items() if one["error"] is not None}
    differing = [
        name
        for name, one in ours.items()
        if name not in failed and one["output"] != control[name]["output"]
    ]
    return {
        "collected": len(programs), "control": len(running), "run": len(running) - len(failed),
        "same": len(running) - len(failed) - len(differing), "failed": failed, "gaps": sorted(gaps & failed.keys()),
        "differing": {name: [control[name]["output"][:600], ours[name]["output"][:600]] for name in differing},
    }  # fmt: skip


def describe(found: dict[str, Any]) -> str:
    """Return the sentences of the docs."""
    share, same = (100 * found[name] // found["control"] for name in ("run", "same"))
    return textwrap.fill(
        f"Measured by `scripts/program_rate.py`: of the {found['collected']} examples in the docstrings of "
        "langchain-core, langchain, langchain-classic, -text-splitters, -openai, -anthropic and langgraph, "
        f"{found['control']} run on LangChain against one stub on loopback. After `foldline migrate`, {found['run']} "
        f"of them run ({share} %) and {found['same']} print the same ({same} %; aside: the order of keys, ids, paths "
        "of modules, objects that show no field, the two fields that only our messages have, and keys under which a "
        "vendor's SDK says None). "
        f"{len(found['gaps'])} of the {len(found['failed'])} others name something that has no home here, and the "
        "command says so.",
        width=118,
        break_on_hyphens=False,
    )


def main() -> None:
    """Measure, print, and write into the docs where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("python", help="the Python of an environment that has LangChain's packages")
    parser.add_argument("--write", action="store_true", help="write the figures into the docs")
    parser.add_argument(
        "--json", type=Path, help="write what failed and what differs into this file"
    )
    options = parser.parse_args()
    found = measure(options.python)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    sys.stdout.write(describe(found) + "\n")
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{describe(found)}\n{END}{after}", encoding="utf-8")


def _child(task: str, data: Path) -> None:
    sys.path.remove(
        str(Path(__file__).parent)
    )  # it has a folder `packaging`, as LangChain needs another
    programs = json.loads(data.read_text(encoding="utf-8"))
    result = collect() if task == "collect" else run_all(programs, task)
    data.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
