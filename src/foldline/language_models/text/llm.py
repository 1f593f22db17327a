"""`LLM`: a text model whose author answers one prompt at a time; public in `foldline.language_models.llms`."""

from __future__ import annotations

from typing import Any, cast

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive
from foldline.callbacks.manager import AsyncCallbackManagerForLLMRun
from foldline.language_models.text.base_llm import BaseLLM
from foldline.outputs import Generation, LLMResult

__all__ = ["LLM"]


class LLM(BaseLLM):
    """A text model whose author writes `_call`: one prompt in, text out."""

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> str:
        if type(self)._acall is LLM._acall:
            raise NotImplementedError(f"{type(self).__name__} must implement `_call`")
        return drive(BLOCKING.settle(self._acall(prompt, stop, None, **kwargs)))

    async def _acall(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> str:
        blocking = run_manager.get_sync() if run_manager is not None else None
        return cast(
            "str", await ASYNC.call(self._call, prompt, stop=stop, run_manager=blocking, **kwargs)
        )

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> LLMResult:
        options: Any = {"stop": stop, "run_manager": run_manager, **kwargs}
        return _result([self._call(prompt, **options) for prompt in prompts])

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> LLMResult:
        options: Any = {"stop": stop, "run_manager": run_manager, **kwargs}
        return _result([await self._acall(prompt, **options) for prompt in prompts])

    def _request_size(self) -> int | None:
        cls = type(self)
        is_own = cls._generate is LLM._generate and cls._agenerate is LLM._agenerate
        return 1 if is_own else None


def _result(texts: list[str]) -> LLMResult:
    return LLMResult._trusted([[Generation(text=text)] for text in texts], None)
