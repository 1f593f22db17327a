"""Middleware for agents, one file each, under the names LangChain gives them."""

from weft.agents.middleware.base import AgentMiddleware

__all__ = ["AgentMiddleware"]
