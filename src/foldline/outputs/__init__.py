"""The outputs of models: generations, and the results that contain them.

The values of agents (`foldline.outputs.agent`) are here too, and are public in `foldline.agents`.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.outputs.chat_generation import (
        ChatGeneration as ChatGeneration,
        ChatGenerationChunk as ChatGenerationChunk,
        merge_chat_generation_chunks as merge_chat_generation_chunks,
    )
    from foldline.outputs.chat_result import ChatResult as ChatResult
    from foldline.outputs.generation import (
        Generation as Generation,
        GenerationChunk as GenerationChunk,
    )
    from foldline.outputs.llm_result import LLMResult as LLMResult
    from foldline.outputs.run_info import RunInfo as RunInfo
