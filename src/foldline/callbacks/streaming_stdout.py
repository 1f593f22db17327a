"""A handler that writes a model's tokens to standard output as they arrive, and nothing else."""

from __future__ import annotations

import sys
from typing import Any

from foldline.callbacks.base import BaseCallbackHandler

__all__ = ["StreamingStdOutCallbackHandler"]


class StreamingStdOutCallbackHandler(BaseCallbackHandler):
    """Writes each token as it arrives.

    ```python
    from foldline.callbacks import StreamingStdOutCallbackHandler

    StreamingStdOutCallbackHandler().on_llm_new_token("hel")
    StreamingStdOutCallbackHandler().on_llm_new_token("lo")
    #> hello
    ```
    """

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]], **kwargs: object) -> None:
        """Write a token; blocks that are no text have nothing to show."""
        sys.stdout.write(token if isinstance(token, str) else "".join(_texts(token)))
        sys.stdout.flush()


def _texts(blocks: list[str | dict[str, Any]]) -> list[str]:
    return [
        block if isinstance(block, str) else str(block.get("text", ""))
        for block in blocks
        if isinstance(block, str) or block.get("type") == "text"
    ]
