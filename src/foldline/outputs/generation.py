"""`Generation`: one answer of a text model, and its chunks.

`_trusted` builds from values that are known to be valid, without validation, for streaming.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from foldline.load.serializable import Serializable
from foldline.protocol.merge import merge_dicts
from foldline.utils._trusted import build_trusted

__all__ = [
    "Generation",
    "GenerationChunk",
]

Info = dict[str, Any] | None


class Generation(Serializable):
    """One answer, as text.

    ```python
    from foldline.outputs import Generation

    print(Generation(text="hello", generation_info={"finish_reason": "stop"}))
    #> text='hello' generation_info={'finish_reason': 'stop'}
    ```
    """

    text: str
    """The answer."""
    generation_info: dict[str, Any] | None = None
    """Provider information about the answer, such as its finish reason."""
    type: Literal["Generation"] = "Generation"
    """The kind of generation, for serialisation."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether generations can be serialized: yes."""
        return True


class GenerationChunk(Generation):
    """A chunk of an answer; chunks add up with `+`."""

    @classmethod
    def _trusted(cls, text: str, generation_info: Info = None) -> Self:
        fields = {"text": text, "generation_info": generation_info, "type": "Generation"}
        return build_trusted(cls, fields)

    def __add__(self, other: GenerationChunk) -> GenerationChunk:
        """Add another chunk."""
        if not isinstance(other, GenerationChunk):
            return NotImplemented
        info = join_info(self.generation_info, other.generation_info)
        return GenerationChunk._trusted(self.text + other.text, info)


def join_info(left: Info, right: Info) -> Info:
    """Return the merged information of two chunks; None if neither has any."""
    if not left or not right:
        return left or right or None
    return merge_dicts(left, right)
