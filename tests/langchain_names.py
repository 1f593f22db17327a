"""Which of LangChain's public names foldline has, and which it lacks for a written reason.

`langchain_names.json` is the frozen list: every public name of langchain-core 1.7.2, at the path where the rename
`langchain_core` -> `foldline` expects it. `langchain_gaps.txt` lists what is not there, with reasons; a line for a
module covers what is below it. The test fails on a gap without a line, and on a line without a gap.

    python -m tests.langchain_names                    drop the lines of what exists now; tell what is missing
    python -m tests.langchain_names --accept "reason"  also write down what is missing, for that reason
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
GAPS = HERE / "langchain_gaps.txt"
NEVER = {
    "foldline.document_loaders.LangSmithLoader": "a client of a hosted service",
    "foldline.document_loaders.langsmith": "a client of a hosted service",
    "foldline.tracers.EvaluatorCallbackHandler": "a client of a hosted service",
    "foldline.tracers.LangChainTracer": "a client of a hosted service",
    "foldline.tracers.context.tracing_v2_enabled": "a client of a hosted service",
    "foldline.tracers.evaluation": "a client of a hosted service",
    "foldline.tracers.langchain": "a client of a hosted service",
    "foldline.utils.image": "an empty module in LangChain",
}
"""What foldline will not have. Everything else that is missing is on its way."""
HEADER = """\
# Names of langchain-core that foldline lacks, each with its reason. A line for a module covers what is below it.
# Renewed by `python -m tests.langchain_names`.
"""


def frozen_names() -> dict[str, list[str]]:
    """Module of foldline -> the names it should have."""
    modules = json.loads((HERE / "langchain_names.json").read_text(encoding="utf-8"))
    return {
        path: [name for name in names if f"{path}.{name}" not in NEVER]
        for path, names in modules.items()
        if path not in NEVER
    }


def find_module(path: str) -> ModuleType | None:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        # A module that exists and fails to import something else is an error, not a gap.
        if error.name is not None and (path == error.name or path.startswith(f"{error.name}.")):
            return None
        raise


def read_gaps() -> dict[str, str]:
    """Path -> reason, as written down."""
    lines = GAPS.read_text(encoding="utf-8").splitlines() if GAPS.exists() else []
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {path: reason for path, _, reason in pairs}


def find_missing() -> list[str]:
    """The paths that are missing now; of a missing module only its own path."""
    missing: list[str] = []
    for path, names in frozen_names().items():
        if any(path.startswith(f"{module}.") for module in missing):
            continue
        module = find_module(path)
        if module is None:
            missing.append(path)
        else:
            missing += [f"{path}.{name}" for name in names if not hasattr(module, name)]
    return missing


def reason_for(path: str, gaps: dict[str, str]) -> str | None:
    """The reason of the longest line that covers a path."""
    parts = path.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((gaps[prefix] for prefix in prefixes if prefix in gaps), None)


def unexplained(missing: list[str], gaps: dict[str, str]) -> list[str]:
    """Gaps without a line."""
    return [path for path in missing if reason_for(path, gaps) is None]


def stale(missing: list[str], gaps: dict[str, str]) -> list[str]:
    """Lines without a gap: what they name exists."""
    return sorted(set(gaps) - set(missing))


def renew(accept: str | None) -> list[str]:
    """Rewrite the list of gaps; return those that have no reason."""
    gaps, missing = read_gaps(), find_missing()
    reasons = {path: reason_for(path, gaps) or accept for path in missing}
    lines = [f"{path}: {reason}\n" for path, reason in sorted(reasons.items()) if reason]
    GAPS.write_text(HEADER + "".join(lines), encoding="utf-8")
    return [path for path, reason in reasons.items() if reason is None]


if __name__ == "__main__":
    without = renew(sys.argv[2] if sys.argv[1:2] == ["--accept"] else None)
    sys.stdout.write("".join(f"missing, without a reason: {path}\n" for path in without))
