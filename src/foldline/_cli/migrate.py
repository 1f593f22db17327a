"""`foldline migrate`: renames LangChain's imports in programs and notebooks, and lists names without a counterpart.

A file is written completely or not at all, and only after everything in it could be read. It keeps its encoding. In a
folder, links are not followed: what they lead to may belong to somebody else.
"""

from __future__ import annotations

import difflib
import io
import json
import os
import re
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from foldline._cli.start import Code
from foldline.compat._rewrite import Finding, UnparsableError, rewrite
from foldline.exceptions import UsageError

__all__ = ["migrate"]

SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Cell magics whose body is Python."""
MAGIC = re.compile(r"^(\s*)([%!?].*|.*\?)$")
NO_NOTEBOOK = "is not a notebook (open and save it in Jupyter)"
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
    link: str = ""
    """Where it leads, if it is a link that leads out of the folder."""
    encoding: str = "utf-8"


def migrate(path: Path, *, check: bool, diff: bool) -> int:
    """Rewrite a file or all programs of a folder; report names without a counterpart, and files that failed."""
    if not path.exists():
        raise UsageError(f"{path} does not exist: name a file or a folder")
    plans = [_plan(file, path) for file in _files(path)]
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
        links = [name for name in names if (folder_path / name).is_symlink()]
        programs = [name for name in sorted(files) if name.endswith((".py", ".ipynb"))]
        for name in [*links, *programs]:
            file = folder_path / name
            # A link to a place inside the folder: that place is visited itself.
            if not (file.is_symlink() and file.resolve().is_relative_to(path.resolve())):
                yield file


def _plan(path: Path, folder: Path) -> FilePlan:
    plan = FilePlan(path)
    if path != folder and path.is_symlink():
        plan.link = f"is a link to {path.resolve()}, outside the folder: it is left as it was"
        return plan
    try:
        plan.encoding, plan.old_source = _read(path)
        plan.new_source = plan.old_source
        if path.suffix == ".ipynb":
            _plan_notebook(plan)
        else:
            _plan_program(plan)
    except UnicodeDecodeError as error:
        name = "UTF-8" if error.encoding.startswith("utf") else error.encoding
        plan.problem = f"is not {name} (byte {error.start}): convert it first; it is left as it was"
    except SyntaxError as error:  # of the line that names the encoding
        plan.problem = f"cannot be decoded: {error.msg}; it is left as it was"
    except OSError as error:
        plan.problem = f"cannot be read: {error.strerror}"
    except UnparsableError as error:
        plan.new_source = plan.old_source
        plan.problem = f"{error}; it is left as it was"
        plan.findings = []
    return plan


def _read(path: Path) -> tuple[str, str]:
    """Return the encoding and the text of a file: a program may name its encoding in a comment (PEP 263)."""
    content = path.read_bytes()
    encoding = "utf-8"
    if path.suffix != ".ipynb":
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        except SyntaxError as error:
            if "invalid or missing" not in str(error.msg):
                raise
            content.decode("utf-8")  # raises the error that names the byte
    return encoding, content.decode(encoding)


def _plan_program(plan: FilePlan) -> None:
    try:
        result = rewrite(plan.old_source)
    except UnparsableError as error:
        raise UnparsableError(f"line {error.line}: {error}", error.line) from error
    plan.new_source = result.source
    plan.findings = [(str(finding.line), finding) for finding in result.findings]


def _plan_notebook(plan: FilePlan) -> None:
    notebook = _load_notebook(plan.old_source)
    cells = notebook["cells"]
    is_changed = False
    for place, cell in enumerate(cells, 1):
        if cell.get("cell_type") != "code":
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


def _load_notebook(source: str) -> dict[str, Any]:
    try:
        notebook: Any = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise UnparsableError(f"{NO_NOTEBOOK}: it is not JSON", 1) from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise UnparsableError(f'{NO_NOTEBOOK}: it has no list of "cells"', 1)
    for place, cell in enumerate(cells, 1):
        lines = cell.get("source", "") if isinstance(cell, dict) else None
        if not isinstance(lines, str | list) or not all(isinstance(line, str) for line in lines):
            raise UnparsableError(f"{NO_NOTEBOOK}: cell {place} has no text", 1)
    return cast("dict[str, Any]", notebook)


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
        if plan.problem or plan.link:
            out.write(f"{plan.path}: {plan.problem or plan.link}\n")
        for place, finding in plan.findings:
            out.write(f"{plan.path}:{place}: {finding.message}\n")
    changed = sum(plan.new_source != plan.old_source and not plan.problem for plan in plans)
    gaps = sum(finding.is_gap for plan in plans for _, finding in plan.findings)
    verb = "would change" if check or diff else "changed"
    links = sum(bool(plan.link) for plan in plans)
    out.write(
        f"{len(plans) - links} files read, {changed} {verb}, {gaps} imports have no home, "
        f"{sum(bool(plan.problem) for plan in plans)} could not be read or written\n"
    )
