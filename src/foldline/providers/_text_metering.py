"""Rate limits and budgets for the requests of text models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from foldline._io import IO
from foldline.language_models._call.deadline import bounded_source
from foldline.language_models._call.meter import RequestMeter
from foldline.outputs import GenerationChunk
from foldline.providers._completions.wire import decode_usage

__all__ = ["metered_pieces", "read_usage"]


async def metered_pieces(
    meter: RequestMeter | None, pieces: AsyncGenerator[GenerationChunk, None], io: IO
) -> AsyncGenerator[GenerationChunk, None]:
    """Yield the pieces of an answer while a meter is held, and report their token counts to it."""
    if meter is None:
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece
        return
    async with meter:
        source = bounded_source(pieces, io, meter.in_use)
        async with aclosing(source):
            async for piece in source:
                meter.is_begun = True
                meter.usage = read_usage(piece.generation_info) or meter.usage
                yield piece


def read_usage(output: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the token counts in the metadata of an answer or a piece, under our names."""
    counts = (output or {}).get("token_usage")
    return decode_usage(counts) if isinstance(counts, dict) else None
