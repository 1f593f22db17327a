"""Which form a model's content takes: "v0", plain text where it is plain text, or "v1", always standard blocks.

Said per model or per call; else by the environment: `FOLDLINE_OUTPUT_VERSION`, then LangChain's `LC_OUTPUT_VERSION`.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, cast

from foldline.exceptions import UsageError

__all__ = ["OutputVersion", "output_version"]

OutputVersion: TypeAlias = Literal["v0", "v1"]

VARIABLES = ("FOLDLINE_OUTPUT_VERSION", "LC_OUTPUT_VERSION")


def output_version(asked: str | None = None) -> OutputVersion:
    """Return the version asked for, else the environment's, else "v0"."""
    where = "output_version"
    for variable in VARIABLES:
        if asked:
            break
        where, asked = variable, os.environ.get(variable)
    if not asked:
        return "v0"
    if (
        asked == "responses/v1"
    ):  # LangChain's, of one interface: what it adds, the standard blocks have
        return "v1"
    if asked not in ("v0", "v1"):
        raise UsageError(f"{where} is 'v0' or 'v1', not {asked!r}")
    return cast("OutputVersion", asked)
