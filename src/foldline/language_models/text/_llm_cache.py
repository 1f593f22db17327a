"""LangChain's helpers for authors of text models: explicit use of a cache, explicit retries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._retry import Backoff
from foldline.callbacks.manager import BaseRunManager
from foldline.language_models._call.cache import Choice, cache_in_force
from foldline.outputs import Generation, LLMResult

__all__ = [
    "aget_prompts",
    "aupdate_cache",
    "create_base_retry_decorator",
    "get_prompts",
    "update_cache",
]

F = TypeVar("F", bound=Callable[..., Any])
CacheLookup = tuple[dict[int, list[Generation]], str, list[int], list[str]]

BACKOFF = Backoff(initial=2.0, shortest=4.0, longest=10.0)
"""Seconds between two attempts: doubled each time, within these."""


async def _get(io: IO, params: dict[str, Any], prompts: list[str], cache: Choice) -> CacheLookup:
    key = str(sorted(params.items()))
    active_cache = cache_in_force(cache)
    existing: dict[int, list[Generation]] = {}
    for index, prompt in enumerate(prompts):
        if active_cache is None:
            break
        if io.blocking:
            generations = active_cache.lookup(prompt, key)
        else:
            generations = await active_cache.alookup(prompt, key)
        if generations is not None:
            existing[index] = list(generations)
    missing = [index for index in range(len(prompts)) if index not in existing]
    return existing, key, missing, [prompts[index] for index in missing]


async def _put(
    io: IO,
    cache: Choice,
    existing: dict[int, list[Generation]],
    key: str,
    missing: list[int],
    new_result: LLMResult,
    prompts: list[str],
) -> dict[str, Any] | None:
    active_cache = cache_in_force(cache)
    for index, generations in zip(missing, new_result.generations, strict=False):
        existing[index] = generations
        if active_cache is None:
            continue
        if io.blocking:
            active_cache.update(prompts[index], key, existing[index])
        else:
            await active_cache.aupdate(prompts[index], key, existing[index])
    return new_result.llm_output


def get_prompts(
    params: dict[str, Any],
    prompts: list[str],
    cache: Choice = None,
) -> CacheLookup:
    """Return the cached answers, the cache key, and the indexes and texts of the prompts without one."""
    return drive(_get(BLOCKING, params, prompts, cache))


async def aget_prompts(
    params: dict[str, Any],
    prompts: list[str],
    cache: Choice = None,
) -> CacheLookup:
    """Return the cached answers, the cache key, and the indexes and texts of the prompts without one."""
    return await _get(ASYNC, params, prompts, cache)


def update_cache(
    cache: Choice,
    existing_prompts: dict[int, list[Generation]],
    llm_string: str,
    missing_prompt_idxs: list[int],
    new_results: LLMResult,
    prompts: list[str],
) -> dict[str, Any] | None:
    """Store new answers in a cache, and add them to the cached ones."""
    return drive(
        _put(
            BLOCKING, cache, existing_prompts, llm_string, missing_prompt_idxs, new_results, prompts
        )
    )


async def aupdate_cache(
    cache: Choice,
    existing_prompts: dict[int, list[Generation]],
    llm_string: str,
    missing_prompt_idxs: list[int],
    new_results: LLMResult,
    prompts: list[str],
) -> dict[str, Any] | None:
    """Store new answers in a cache, and add them to the cached ones."""
    return await _put(
        ASYNC, cache, existing_prompts, llm_string, missing_prompt_idxs, new_results, prompts
    )


def create_base_retry_decorator(
    error_types: list[type[BaseException]],
    max_retries: int = 1,
    run_manager: BaseRunManager | None = None,
) -> Callable[[F], F]:
    """Return a decorator that retries a function when it raises one of these errors."""

    def decorate(function: F) -> F:
        @wraps(function)
        def with_retries(*args: object, **kwargs: object) -> object:
            for attempt in range(1, max(1, max_retries) + 1):
                try:
                    return function(*args, **kwargs)
                except tuple(error_types) as error:
                    if attempt >= max_retries:
                        raise
                    wait = BACKOFF.delay(attempt)
                    if run_manager is not None:
                        run_manager.on_retry({"attempt": attempt, "error": error, "delay": wait})
                    drive(BLOCKING.sleep(wait))
            raise AssertionError("unreachable")

        return cast("F", with_retries)

    return decorate
