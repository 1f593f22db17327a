"""Runnables: units of work that compose with `|`. Each kind is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline._config import (
        RunnableConfig,
        ensure_config,
        get_config_list,
        merge_configs,
        patch_config,
    )
    from foldline.runnables._chain import chain
    from foldline.runnables.base import Runnable
    from foldline.runnables.binding import RunnableBinding
    from foldline.runnables.branch import RunnableBranch
    from foldline.runnables.config import run_in_executor
    from foldline.runnables.each import RunnableEach
    from foldline.runnables.fallbacks import RunnableWithFallbacks
    from foldline.runnables.generator import RunnableGenerator
    from foldline.runnables.history import RunnableWithMessageHistory
    from foldline.runnables.lambda_ import RunnableLambda
    from foldline.runnables.parallel import RunnableMap, RunnableParallel
    from foldline.runnables.passthrough import RunnableAssign, RunnablePassthrough, RunnablePick
    from foldline.runnables.retry import RunnableRetry
    from foldline.runnables.router import RouterInput, RouterRunnable
    from foldline.runnables.sequence import RunnableSequence
    from foldline.runnables.serializable import RunnableSerializable
    from foldline.runnables.utils import (
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

__getattr__: Loader = lazy_exports(
    __name__,
    {
        "foldline._config": "RunnableConfig ensure_config get_config_list merge_configs patch_config",
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
