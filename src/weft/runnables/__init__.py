"""Runnables: units of work that compose with `|`."""

from weft._config import RunnableConfig, ensure_config, get_config_list, merge_configs, patch_config
from weft.runnables.base import Runnable
from weft.runnables.binding import RunnableBinding
from weft.runnables.branch import RunnableBranch
from weft.runnables.chain import chain
from weft.runnables.each import RunnableEach
from weft.runnables.generator import RunnableGenerator
from weft.runnables.lambda_ import RunnableLambda
from weft.runnables.parallel import RunnableMap, RunnableParallel
from weft.runnables.passthrough import RunnableAssign, RunnablePassthrough, RunnablePick
from weft.runnables.router import RouterInput, RouterRunnable
from weft.runnables.sequence import RunnableSequence
from weft.runnables.serializable import RunnableSerializable
from weft.runnables.utils import AddableDict, aadd, add

__all__ = [
    "AddableDict",
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
    "RunnableSequence",
    "RunnableSerializable",
    "aadd",
    "add",
    "chain",
    "ensure_config",
    "get_config_list",
    "merge_configs",
    "patch_config",
]
