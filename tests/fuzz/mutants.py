"""How much the tests notice: `python -m tests.fuzz.mutants --each 40` breaks our code at random, one place at a time.

A mutant is a copy of the package with one small mistake: a comparison turned round, a condition negated, a sum made a
difference, a statement left out. It is killed if the tests of that file fail (or hang). Survivors are printed: each is
a test that is missing, or a line that does not matter.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.shares import share_of
from tests.security.page import save

ROOT = Path(__file__).parents[2]
SUBJECTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # part -> its files, the tests that should notice
    "decoder": (
        ("_sse.py", "providers/_reading.py"),
        ("tests/test_sse.py", "tests/providers/test_shared_reading.py"),
    ),
    "assembler": (
        ("protocol/fold.py", "protocol/folded_message.py"),
        ("tests/protocol", "tests/language_models/test_stream_checklist.py",
         "tests/language_models/test_chat_model_stream.py", "tests/language_models/test_driven_streams.py"),
    ),
    "retry": (
        ("language_models/_call/retry_policy.py", "_retry.py", "language_models/_call/attempt.py"),
        ("tests/language_models/test_retry.py", "tests/runnables/test_retry.py",
         "tests/language_models/test_defects.py", "tests/language_models/test_turn.py",
         "tests/language_models/test_usage.py", "tests/language_models/test_stream_checklist.py",
         "tests/language_models/test_model_checklist.py", "tests/language_models/test_policies.py",
         "tests/language_models/test_managed.py", "tests/language_models/test_guards.py",
         "tests/language_models/test_structured.py", "tests/language_models/test_structured_cut.py",
         "tests/language_models/test_unlimited_scopes.py", "tests/language_models/test_network_errors.py",
         "tests/language_models/test_one_body.py", "tests/language_models/test_tool_names.py",
         "tests/language_models/test_sources.py", "tests/language_models/test_stream_ends.py"),
    ),
    "serde": (
        ("load/_reader.py", "load/dump.py"),
        ("tests/load",),
    ),
}  # fmt: skip
PATIENCE = 300
"""Seconds for the tests without a mutant."""
TIMES_LONGER = 8
"""How much longer the tests of a mutant may take before it counts as noticed: it hangs."""
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
Change = Callable[[], None]


def changes(tree: ast.Module) -> Iterator[tuple[int, str, Change]]:
    """Yield every possible mutation of a file: its line, its description, and a function that applies it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
            yield node.lineno, f"turn {ast.unparse(node)}", lambda node=node: turn(node)
        elif isinstance(node, ast.BoolOp):
            yield node.lineno, f"and/or {ast.unparse(node)}", lambda node=node: swap(node)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.lineno, f"negate {ast.unparse(node.test)}", lambda node=node: negate(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            yield node.lineno, f"+/- {ast.unparse(node)}", lambda node=node: other_sign(node)
        elif isinstance(node, ast.Return) and node.value is not None and not is_none(node.value):
            yield (
                node.lineno,
                f"give None for {ast.unparse(node.value)}",
                lambda node=node: give_none(node),
            )
        if isinstance(body := getattr(node, "body", None), list) and isinstance(node, ast.stmt):
            yield from left_out(body)


def left_out(body: list[ast.stmt]) -> Iterator[tuple[int, str, Change]]:
    for place, statement in enumerate(body):
        is_call = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
        if is_call or isinstance(statement, ast.AugAssign | ast.Raise | ast.Continue):
            yield (
                statement.lineno,
                f"leave out {ast.unparse(statement)}",
                lambda place=place: set_pass(body, place),
            )


def turn(node: ast.Compare) -> None:
    node.ops[0] = TURNED[type(node.ops[0])]()


def swap(node: ast.BoolOp) -> None:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def negate(node: ast.If | ast.While | ast.IfExp) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


def other_sign(node: ast.BinOp) -> None:
    node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()


def give_none(node: ast.Return) -> None:
    node.value = ast.Constant(None)


def set_pass(body: list[ast.stmt], place: int) -> None:
    body[place] = ast.Pass()


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def mutated(source: str, number: int) -> tuple[str, str]:
    """The file with its n-th mistake, and what that is."""
    tree = copy.deepcopy(ast.parse(source))
    line, description, change = list(changes(tree))[number]
    change()
    return ast.unparse(ast.fix_missing_locations(tree)), f"line {line}: {description:.100}"


def is_killed(package: Path, tests: tuple[str, ...], patience: float = PATIENCE) -> bool:
    """Whether the tests fail on a copy of the package, or take longer than some seconds."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        "-m",
        "not timing",  # what fails on a busy machine would count as noticed
        *tests,
    ]
    try:
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return result.returncode != 0


def places(package: Path, files: tuple[str, ...]) -> list[tuple[str, int]]:
    """Every mistake that can be made in a part: the file, and the number of the mistake in it."""
    return [
        (file, number)
        for file in files
        for number in range(len(list(changes(ast.parse(_read(package, file))))))
    ]


def _read(package: Path, file: str) -> str:
    return (package / "foldline" / file).read_text(encoding="utf-8")


def score(name: str, each: int, seed: int, share: tuple[int, int] = (0, 1)) -> dict[str, Any]:
    """Mutate one part in some places, chosen at random, and count the killed mutants; a share is every n-th of them."""
    files, tests = SUBJECTS[name]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src"
        shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(package, quiet=2)  # once, not in every run
        start = time.monotonic()
        if is_killed(package, tests):
            raise SystemExit(f"the tests of {name} fail without a mutant: {' '.join(tests)}")
        patience = TIMES_LONGER * (time.monotonic() - start)
        every = places(package, files)
        sample = random.Random(seed).sample(every, min(each, len(every)))[share[0] :: share[1]]
        survivors: list[str] = []
        for file, number in sample:
            source = _read(package, file)
            text, description = mutated(source, number)
            target = package / "foldline" / file
            target.write_text(text, encoding="utf-8")
            if not is_killed(package, tests, patience):
                survivors.append(f"{file}, {description}")
                print(f"{name}: survived: {file}, {description}", flush=True)
            target.write_text(source, encoding="utf-8")
    print(f"{name}: {len(sample) - len(survivors)} of {len(sample)} killed", flush=True)
    return {
        "files": list(files),
        "possible": len(every),
        "tried": len(sample),
        "killed": len(sample) - len(survivors),
        "survivors": survivors,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutants", description=__doc__)
    parser.add_argument("--each", type=int, default=40, help="mutants of each file")
    parser.add_argument("--only", nargs="*", default=list(SUBJECTS), choices=list(SUBJECTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--share", type=share_of, default=(0, 1), help="K/N: every N-th, from the K-th"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--save", action="store_true", help="renew docs/reliability.json and its page"
    )
    options = parser.parse_args(arguments)
    scores = {name: score(name, options.each, options.seed, options.share) for name in options.only}
    if options.json:
        options.json.write_text(json.dumps({"subjects": scores}, indent=1) + "\n")
    if options.save:
        command = f"python -m tests.fuzz.mutants --each {options.each} --seed {options.seed}"
        save("mutants", command, {"subjects": scores})
    return 0


if __name__ == "__main__":
    sys.exit(main())
