"""A model that streams 4,096 pieces without pauses, and then waits if its message says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foldline.testing import ScriptedChatModel
from tests.serve.served import gated

PIECES = 4_096
PIECE = "x" * 255 + " "


def pieces(request: Any) -> Iterator[Any]:
    text = request.messages[-1].text
    for _ in range(
        PIECES * 4 if text.startswith("gate") else PIECES
    ):  # 7 MiB: no system buffers that
        yield PIECE
    if text.startswith("gate"):
        yield from gated(text.split()[-1])


flood = ScriptedChatModel(script=pieces, model="flood")
