"""`JsonObject`: the type of JSON objects in requests, answers and events of the run log."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["JsonObject"]

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object. `Body` checks those of a request field by field; the others were written by this server."""
