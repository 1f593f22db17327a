"""The types of a runnable: what goes in, what comes out, and their Pydantic and JSON schemas."""

from __future__ import annotations


class Types:
    """Input, output and config types of a `Runnable`."""
