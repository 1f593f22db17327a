"""The outputs of models: generations, and the results that contain them.

The values of agents (`foldline.outputs.agent`) are here too, and are public in `foldline.agents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.outputs.chat_generation import (
        ChatGeneration,
        ChatGenerationChunk,
        merge_chat_generation_chunks,
    )
    from foldline.outputs.chat_result import ChatResult
    from foldline.outputs.generation import Generation, GenerationChunk
    from foldline.outputs.llm_result import LLMResult
    from foldline.outputs.run_info import RunInfo

__all__ = [
    "ChatGeneration",
    "ChatGenerationChunk",
    "ChatResult",
    "Generation",
    "GenerationChunk",
    "LLMResult",
    "RunInfo",
    "merge_chat_generation_chunks",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".chat_generation": "ChatGeneration ChatGenerationChunk merge_chat_generation_chunks",
        ".chat_result": "ChatResult",
        ".generation": "Generation GenerationChunk",
        ".llm_result": "LLMResult",
        ".run_info": "RunInfo",
    },
)
