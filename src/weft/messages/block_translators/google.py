"""Blocks as google writes them."""

from __future__ import annotations

from weft.messages.block_translators.common import Block

__all__ = ["translate"]


def translate(block: Block) -> list[Block] | None:
    """Read one native block."""
    return None
