"""Runnables: units of work that compose with `|`."""

from weft._config import RunnableConfig, ensure_config, get_config_list, merge_configs, patch_config
from weft.runnables.base import Runnable
from weft.runnables.lambda_ import RunnableLambda
from weft.runnables.sequence import RunnableSequence
from weft.runnables.serializable import RunnableSerializable
