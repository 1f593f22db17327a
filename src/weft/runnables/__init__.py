"""Runnables: units of work that compose with `|`."""

from weft._config import RunnableConfig, ensure_config, get_config_list, merge_configs, patch_config
from weft.runnables import _verbs as _verbs  # lets verbs of messages be steps
from weft.runnables.base import Runnable
from weft.runnables.binding import RunnableBinding
from weft.runnables.branch import RunnableBranch
from weft.runnables.chain import chain
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
