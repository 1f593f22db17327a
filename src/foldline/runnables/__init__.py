"""Runnables: units of work that compose with `|`. Each kind is loaded when it is first used."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline._config import (
        RunnableConfig as RunnableConfig,
        ensure_config as ensure_config,
        get_config_list as get_config_list,
        merge_configs as merge_configs,
        patch_config as patch_config,
    )
    from foldline.runnables._chain import chain as chain
    from foldline.runnables.base import Runnable as Runnable
    from foldline.runnables.binding import RunnableBinding as RunnableBinding
    from foldline.runnables.branch import RunnableBranch as RunnableBranch
    from foldline.runnables.config import run_in_executor as run_in_executor
    from foldline.runnables.each import RunnableEach as RunnableEach
    from foldline.runnables.fallbacks import RunnableWithFallbacks as RunnableWithFallbacks
    from foldline.runnables.generator import RunnableGenerator as RunnableGenerator
    from foldline.runnables.history import RunnableWithMessageHistory as RunnableWithMessageHistory
    from foldline.runnables.lambda_ import RunnableLambda as RunnableLambda
    from foldline.runnables.parallel import (
        RunnableMap as RunnableMap,
        RunnableParallel as RunnableParallel,
    )
    from foldline.runnables.passthrough import (
        RunnableAssign as RunnableAssign,
        RunnablePassthrough as RunnablePassthrough,
        RunnablePick as RunnablePick,
    )
    from foldline.runnables.retry import RunnableRetry as RunnableRetry
    from foldline.runnables.router import (
        RouterInput as RouterInput,
        RouterRunnable as RouterRunnable,
    )
    from foldline.runnables.sequence import RunnableSequence as RunnableSequence
    from foldline.runnables.serializable import RunnableSerializable as RunnableSerializable
    from foldline.runnables.utils import (
        AddableDict as AddableDict,
        ConfigurableField as ConfigurableField,
        ConfigurableFieldMultiOption as ConfigurableFieldMultiOption,
        ConfigurableFieldSingleOption as ConfigurableFieldSingleOption,
        ConfigurableFieldSpec as ConfigurableFieldSpec,
        aadd as aadd,
        add as add,
    )
