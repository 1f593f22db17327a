"""Chains: named inputs to named outputs, with memory; each on runnables."""

from weft.chains.base import RUN_KEY, Chain

__all__ = ["RUN_KEY", "Chain"]
