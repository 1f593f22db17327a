"""`ChatResult`: the result of a chat model's `_generate` for one prompt."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializeAsAny

from foldline.outputs.chat_generation import ChatGeneration
from foldline.utils._signature import SIGNATURE, ClassSignature

__all__ = ["ChatResult"]


class ChatResult(BaseModel):
    """The candidate answers to one prompt.

    ```python
    from foldline.messages import AIMessage
    from foldline.outputs import ChatGeneration, ChatResult

    result = ChatResult(generations=[ChatGeneration(message=AIMessage("hello"))])
    print(result.generations[0].text)
    #> hello
    ```
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    generations: list[SerializeAsAny[ChatGeneration]]
    """One for each candidate."""
    llm_output: dict[str, Any] | None = None
    """Other output of the provider, in its format."""
