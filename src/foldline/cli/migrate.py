"""`foldline migrate`: renames LangChain's imports in programs and notebooks, and lists names without a counterpart.

A file is written completely or not at all, and only after everything in it could be read.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from foldline.cli.start import Code
from foldline.compat.rewrite import Finding, UnparsableError, rewrite
from foldline.exceptions import UsageError

__all__ = ["migrate"]

SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Cell magics whose body is Python."""
MAGIC = re.compile(r"^(\s*)([%!?].*|.*\?)$")
MARK = "pass  # foldline-magic-"


@dataclass
class FilePlan:
    """The changes of one file."""

    path: Path
    old_source: str = ""
    new_source: str = ""
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    """Place in the file -> finding."""
    problem: str = ""
    encoding: str = "utf-8"


def migrate(path: Path, *, check: bool, diff: bool) -> int:
    """Rewrite a file or all programs of a folder; report names without a counterpart, and files that failed."""
    if not path.exists():
        raise UsageError(f"{path} does not exist: name a file or a folder")
    plans = [_plan(file) for file in _files(path)]
    for plan in plans:
        if not (plan.problem or check or diff) and plan.new_source != plan.old_source:
            _write(plan)
    _report(plans, check=check, diff=diff)
    if any(plan.problem for plan in plans):
        return Code.FILES
    gaps = any(finding.is_gap for plan in plans for _, finding in plan.findings)
    return Code.FAILED if check and gaps else Code.FINE


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, names, files in os.walk(path):
        folder_path = Path(folder)
        names[:] = sorted(
            name
            for name in names
            if name not in SKIPPED
            and not name.startswith(".")
            and not (folder_path / name / "pyvenv.cfg").exists()
        )
        for file in sorted(files):
            if file.endswith((".py", ".ipynb")):
                yield folder_path / file


def _plan(path: Path) -> FilePlan:
    plan = FilePlan(path)
    try:
        plan.old_source = plan.new_source = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        plan.problem = f"is not UTF-8 (byte {error.start}): convert it first; it is left as it was"
        return plan
    except OSError as error:
        plan.problem = f"cannot be read: {error.strerror}"
        return plan
    try:
        if path.suffix == ".ipynb":
            _plan_notebook(plan)
        else:
            _plan_program(plan)
    except UnparsableError as error:
        plan.new_source = plan.old_source
        plan.problem = f"{error}; it is left as it was"
        plan.findings = []
    return plan


def _plan_program(plan: FilePlan) -> None:
    try:
        result = rewrite(plan.old_source)
    except UnparsableError as error:
        raise UnparsableError(f"line {error.line}: {error}", error.line) from error
    plan.new_source = result.source
    plan.findings = [(str(finding.line), finding) for finding in result.findings]


def _plan_notebook(plan: FilePlan) -> None:
    try:
        notebook = json.loads(plan.old_source)
        cells = notebook["cells"]
    except (ValueError, TypeError, KeyError) as error:
        raise UnparsableError(
            "is not a notebook: it has no JSON with cells; open and save it in Jupyter", 1
        ) from error
    is_changed = False
    for place, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        text = cell.get("source", "")
        source = text if isinstance(text, str) else "".join(text)
        changed, findings = _cell(source, place)
        plan.findings += [(f"cell {place}:{finding.line}", finding) for finding in findings]
        if changed != source:
            is_changed = True
            cell["source"] = changed if isinstance(text, str) else changed.splitlines(keepends=True)
    if is_changed:
        plan.new_source = _dump_like(plan.old_source, notebook)


def _cell(source: str, place: int) -> tuple[str, tuple[Finding, ...]]:
    first = source.lstrip().split("\n", 1)[0]
    if first.startswith("%%") and not first.startswith(PYTHON_MAGICS):
        return source, ()
    magics: list[str] = []
    lines = []
    for line in source.split("\n"):
        if (match := MAGIC.match(line)) and not _is_python(line):
            magics.append(line)
            lines.append(f"{match[1]}{MARK}{len(magics) - 1}")
        else:
            lines.append(line)
    try:
        result = rewrite("\n".join(lines))
    except UnparsableError as error:
        raise UnparsableError(f"cell {place}, line {error.line}: {error}", error.line) from error
    restored = re.sub(
        rf"^\s*{re.escape(MARK)}(\d+)$",
        lambda match: magics[int(match[1])],
        result.source,
        flags=re.MULTILINE,
    )
    return restored, result.findings


def _is_python(line: str) -> bool:
    """Whether a line that looks like a magic is Python: a part of an expression (`% 2`), or a comment."""
    return line.lstrip().startswith("#") or bool(re.match(r"\s*%\s", line))


def _dump_like(original: str, notebook: object) -> str:
    """Return a notebook as JSON with the indentation and the last line of the original."""
    match = re.search(r"\n( +|\t)", original)
    indent = None if match is None else (match[1] if "\t" in match[1] else len(match[1]))
    text = json.dumps(notebook, indent=indent, ensure_ascii="\\u" in original)
    return text + "\n" if original.endswith("\n") else text


def _write(plan: FilePlan) -> None:
    """Write a temporary file and rename it, so that the file is never half-written."""
    if not os.access(plan.path, os.W_OK):
        plan.problem = "may not be written: make it writable; it is left as it was"
        return
    name = ""
    try:
        mode = plan.path.stat().st_mode
        target = plan.path.resolve()
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as file:
            name = file.name
            file.write(plan.new_source.encode(plan.encoding))
        Path(name).chmod(mode)
        Path(name).replace(target)
    except OSError as error:
        plan.problem = f"cannot be written: {error.strerror}; it is left as it was"
        if name:
            Path(name).unlink(missing_ok=True)


def _report(plans: list[FilePlan], *, check: bool, diff: bool) -> None:
    out = sys.stdout
    for plan in plans:
        if diff and plan.new_source != plan.old_source:
            out.writelines(
                difflib.unified_diff(
                    plan.old_source.splitlines(keepends=True),
                    plan.new_source.splitlines(keepends=True),
                    str(plan.path),
                    str(plan.path),
                )
            )
        if plan.problem:
            out.write(f"{plan.path}: {plan.problem}\n")
        for place, finding in plan.findings:
            out.write(f"{plan.path}:{place}: {finding.message}\n")
    changed = sum(plan.new_source != plan.old_source and not plan.problem for plan in plans)
    gaps = sum(finding.is_gap for plan in plans for _, finding in plan.findings)
    verb = "would change" if check or diff else "changed"
    out.write(
        f"{len(plans)} files read, {changed} {verb}, {gaps} imports have no home, "
        f"{sum(bool(plan.problem) for plan in plans)} could not be read or written\n"
    )
