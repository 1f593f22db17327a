"""`python -m foldline.compat FILE`: run a program that imports `langchain_core`, on foldline."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from foldline.compat import langchain

USAGE = "usage: python -m foldline.compat FILE [ARGUMENTS], or python -m foldline.compat -m MODULE [ARGUMENTS]"


def main(arguments: list[str]) -> int:
    """Run a file or a module with the import hook in place."""
    if not langchain.is_installed() or not arguments or arguments[0] in ("-h", "--help"):
        sys.stderr.write(USAGE + "\n")
        return 2
    if arguments[0] == "-m":
        if len(arguments) < 2:
            sys.stderr.write(USAGE + "\n")
            return 2
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    if not Path(arguments[0]).exists():
        sys.stderr.write(f"there is no file {arguments[0]!r}\n{USAGE}\n")
        return 2
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
