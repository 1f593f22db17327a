"""Runnables: units of work that compose with `|`. The kinds of them are loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft._config import (
        RunnableConfig,
        ensure_config,
        get_config_list,
        merge_configs,
        patch_config,
    )
    from weft.runnables._chain import chain
    from weft.runnables.base import Runnable
    from weft.runnables.binding import RunnableBinding
    from weft.runnables.branch import RunnableBranch
    from weft.runnables.config import run_in_executor
    from weft.runnables.each import RunnableEach
    from weft.runnables.fallbacks import RunnableWithFallbacks
    from weft.runnables.generator import RunnableGenerator
    from weft.runnables.history import RunnableWithMessageHistory
    from weft.runnables.lambda_ import RunnableLambda
    from weft.runnables.parallel import RunnableMap, RunnableParallel
    from weft.runnables.passthrough import RunnableAssign, RunnablePassthrough, RunnablePick
    from weft.runnables.retry import RunnableRetry
    from weft.runnables.router import RouterInput, RouterRunnable
    from weft.runnables.sequence import RunnableSequence
    from weft.runnables.serializable import RunnableSerializable
    from weft.runnables.utils import (
        AddableDict,
        ConfigurableField,
        ConfigurableFieldMultiOption,
        ConfigurableFieldSingleOption,
        ConfigurableFieldSpec,
        aadd,
        add,
    )

__all__ = [
    "AddableDict",
    "ConfigurableField",
    "ConfigurableFieldMultiOption",
    "ConfigurableFieldSingleOption",
    "ConfigurableFieldSpec",
    "RouterInput",
    "RouterRunnable",
    "Runnable",
    "RunnableAssign",
    "RunnableBinding",
    "RunnableBranch",
    "RunnableConfig",
    "RunnableEach",
    "RunnableGenerator",
    "RunnableLambda",
    "RunnableMap",
    "RunnableParallel",
    "RunnablePassthrough",
    "RunnablePick",
    "RunnableRetry",
    "RunnableSequence",
    "RunnableSerializable",
    "RunnableWithFallbacks",
    "RunnableWithMessageHistory",
    "aadd",
    "add",
    "chain",
    "ensure_config",
    "get_config_list",
    "merge_configs",
    "patch_config",
    "run_in_executor",
]

__getattr__ = lazily(
    __name__,
    {
        "weft._config": "RunnableConfig ensure_config get_config_list merge_configs patch_config",
        "._chain": "chain",
        ".base": "Runnable",
        ".binding": "RunnableBinding",
        ".branch": "RunnableBranch",
        ".config": "run_in_executor",
        ".each": "RunnableEach",
        ".fallbacks": "RunnableWithFallbacks",
        ".generator": "RunnableGenerator",
        ".history": "RunnableWithMessageHistory",
        ".lambda_": "RunnableLambda",
        ".parallel": "RunnableMap RunnableParallel",
        ".passthrough": "RunnableAssign RunnablePassthrough RunnablePick",
        ".retry": "RunnableRetry",
        ".router": "RouterInput RouterRunnable",
        ".sequence": "RunnableSequence",
        ".serializable": "RunnableSerializable",
        ".utils": "AddableDict ConfigurableField ConfigurableFieldMultiOption "
        "ConfigurableFieldSingleOption ConfigurableFieldSpec aadd add",
    },
)
