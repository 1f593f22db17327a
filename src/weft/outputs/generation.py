"""`Generation`: one answer of a text model, and the pieces it arrives in.

`_trusted` builds from values that are known to be right, without validation, for the paths that stream.
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel

from weft.load.serializable import Serializable
from weft.protocol.merge import merge_dicts

__all__ = ["Generation", "GenerationChunk", "build_trusted", "join_info"]

# The slots of a Pydantic model, set directly: four calls of `object.__setattr__` take three times as long.
_slots = vars(BaseModel)
_set_dict = _slots["__dict__"].__set__
_set_fields_set = _slots["__pydantic_fields_set__"].__set__
_set_extra = _slots["__pydantic_extra__"].__set__
_set_private = _slots["__pydantic_private__"].__set__

Info = dict[str, Any] | None
Model = TypeVar("Model", bound=BaseModel)


class Generation(Serializable):
    """One answer, as text.

    ```python
    from weft.outputs import Generation

    print(Generation(text="hello", generation_info={"finish_reason": "stop"}))
    #> text='hello' generation_info={'finish_reason': 'stop'}
    ```
    """

    text: str
    """The answer."""
    generation_info: dict[str, Any] | None = None
    """What the provider said about it, such as why it stopped."""
    type: Literal["Generation"] = "Generation"
    """The kind of generation, for serialisation."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Say that generations can be written and read back."""
        return True


class GenerationChunk(Generation):
    """A piece of an answer; pieces add up with `+`."""

    @classmethod
    def _trusted(cls, text: str, generation_info: Info = None) -> Self:
        fields = {"text": text, "generation_info": generation_info, "type": "Generation"}
        return build_trusted(cls, fields)

    def __add__(self, other: GenerationChunk) -> GenerationChunk:
        """Join two pieces."""
        if not isinstance(other, GenerationChunk):
            return NotImplemented
        info = join_info(self.generation_info, other.generation_info)
        return GenerationChunk._trusted(self.text + other.text, info)


def join_info(left: Info, right: Info) -> Info:
    """Merge what two pieces say about themselves; None where neither says anything."""
    if not left or not right:
        return left or right or None
    return merge_dicts(left, right)


def build_trusted(cls: type[Model], fields: dict[str, Any]) -> Model:
    """Make a model of fields that need no validation."""
    made = cls.__new__(cls)
    _set_dict(made, fields)
    _set_fields_set(made, set(fields))
    _set_extra(made, None)
    _set_private(made, None)
    return made
