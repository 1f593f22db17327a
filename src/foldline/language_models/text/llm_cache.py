"""LangChain's helpers for authors of text models: read and write a cache by hand, retry by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.callbacks.manager import BaseRunManager
from foldline.language_models.call.cache import Choice, cache_in_force
from foldline.outputs import Generation, LLMResult

__all__ = [
    "aget_prompts",
    "aupdate_cache",
    "create_base_retry_decorator",
    "get_prompts",
    "update_cache",
]

F = TypeVar("F", bound=Callable[..., Any])
Found = tuple[dict[int, list[Generation]], str, list[int], list[str]]

FIRST_WAIT, LONGEST_WAIT = 4.0, 10.0
"""Seconds between two tries: doubled each time, within these."""


async def _get(io: IO, params: dict[str, Any], prompts: list[str], cache: Choice) -> Found:
    key = str(sorted(params.items()))
    chosen = cache_in_force(cache)
    existing: dict[int, list[Generation]] = {}
    for place, prompt in enumerate(prompts):
        if chosen is None:
            break
        if io.blocking:
            found = chosen.lookup(prompt, key)
        else:
            found = await chosen.alookup(prompt, key)
        if found is not None:
            existing[place] = list(found)
    missing = [place for place in range(len(prompts)) if place not in existing]
    return existing, key, missing, [prompts[place] for place in missing]


async def _put(
    io: IO,
    cache: Choice,
    existing: dict[int, list[Generation]],
    key: str,
    missing: list[int],
    new: LLMResult,
    prompts: list[str],
) -> dict[str, Any] | None:
    chosen = cache_in_force(cache)
    for place, generations in zip(missing, new.generations, strict=False):
        existing[place] = generations
        if chosen is None:
            continue
        if io.blocking:
            chosen.update(prompts[place], key, existing[place])
        else:
            await chosen.aupdate(prompts[place], key, existing[place])
    return new.llm_output


def get_prompts(
    params: dict[str, Any],
    prompts: list[str],
    cache: Choice = None,
) -> Found:
    """Return the answers a cache has, its key, and the places and texts of the prompts it has not."""
    return drive(_get(BLOCKING, params, prompts, cache))


async def aget_prompts(
    params: dict[str, Any],
    prompts: list[str],
    cache: Choice = None,
) -> Found:
    """Return the answers a cache has, its key, and the places and texts of the prompts it has not."""
    return await _get(ASYNC, params, prompts, cache)


def update_cache(
    cache: Choice,
    existing_prompts: dict[int, list[Generation]],
    llm_string: str,
    missing_prompt_idxs: list[int],
    new_results: LLMResult,
    prompts: list[str],
) -> dict[str, Any] | None:
    """Keep new answers in a cache, and add them to those it had."""
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
    """Keep new answers in a cache, and add them to those it had."""
    return await _put(
        ASYNC, cache, existing_prompts, llm_string, missing_prompt_idxs, new_results, prompts
    )


def create_base_retry_decorator(
    error_types: list[type[BaseException]],
    max_retries: int = 1,
    run_manager: BaseRunManager | None = None,
) -> Callable[[F], F]:
    """Make a decorator that tries a function again when it raises one of these errors."""

    def decorate(function: F) -> F:
        @wraps(function)
        def tried(*args: object, **kwargs: object) -> object:
            for attempt in range(1, max(1, max_retries) + 1):
                try:
                    return function(*args, **kwargs)
                except tuple(error_types) as error:
                    if attempt >= max_retries:
                        raise
                    wait = min(LONGEST_WAIT, max(FIRST_WAIT, 2.0**attempt))
                    if run_manager is not None:
                        run_manager.on_retry({"attempt": attempt, "error": error, "delay": wait})
                    drive(BLOCKING.sleep(wait))
            raise AssertionError("unreachable")

        return cast("F", tried)

    return decorate
