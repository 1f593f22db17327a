"""Graphs under LangGraph's names, on the same run loop as agents and flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.agents.runtime import InjectedState, InjectedStore, ToolRuntime
    from foldline.checkpoint.base import BaseCheckpointSaver
    from foldline.checkpoint.memory import InMemorySaver, MemorySaver
    from foldline.checkpoint.postgres import AsyncPostgresSaver, PostgresSaver
    from foldline.checkpoint.sqlite import AsyncSqliteSaver, SqliteSaver
    from foldline.exceptions import (
        EmptyInputError,
        GraphRecursionError,
        InvalidRouteError,
        InvalidUpdateError,
        NothingToResumeError,
        ThreadBusyError,
        ThreadConflictError,
        UnknownInterruptError,
    )
    from foldline.graph.builder import StateGraph
    from foldline.graph.cache import BaseCache, InMemoryCache, SqliteCache
    from foldline.graph.compiled import CompiledStateGraph
    from foldline.graph.func import entrypoint, task
    from foldline.graph.message_state import (
        REMOVE_ALL_MESSAGES,
        MessagesState,
        add_messages,
        push_message,
    )
    from foldline.graph.react import create_react_agent
    from foldline.graph.runtime import (
        Runtime,
        get_config,
        get_runtime,
        get_store,
        get_stream_writer,
    )
    from foldline.graph.schema import EphemeralValue, IsLastStep, RemainingSteps, UntrackedValue
    from foldline.graph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        PutOp,
        SearchItem,
        SearchOp,
        TTLConfig,
    )
    from foldline.graph.store.memory import InMemoryStore
    from foldline.graph.store.postgres import PostgresStore
    from foldline.graph.store.sqlite import SqliteStore
    from foldline.graph.tool_node import ToolNode, tools_condition
    from foldline.graph.types import (
        END,
        START,
        CachePolicy,
        Command,
        Interrupt,
        Overwrite,
        RetryPolicy,
        Send,
        StateSnapshot,
        StateUpdate,
        TaskError,
        interrupt,
        is_invalid_resume,
    )
    from foldline.graph.validation_node import ValidationNode

__all__ = [
    "END",
    "REMOVE_ALL_MESSAGES",
    "START",
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "BaseCache",
    "BaseCheckpointSaver",
    "BaseStore",
    "CachePolicy",
    "Command",
    "CompiledStateGraph",
    "EmptyInputError",
    "EphemeralValue",
    "GetOp",
    "GraphRecursionError",
    "InMemoryCache",
    "InMemorySaver",
    "InMemoryStore",
    "IndexConfig",
    "InjectedState",
    "InjectedStore",
    "Interrupt",
    "InvalidRouteError",
    "InvalidUpdateError",
    "IsLastStep",
    "Item",
    "MemorySaver",
    "MessagesState",
    "NothingToResumeError",
    "Overwrite",
    "PostgresSaver",
    "PostgresStore",
    "PutOp",
    "RemainingSteps",
    "RetryPolicy",
    "Runtime",
    "SearchItem",
    "SearchOp",
    "Send",
    "SqliteCache",
    "SqliteSaver",
    "SqliteStore",
    "StateGraph",
    "StateSnapshot",
    "StateUpdate",
    "TTLConfig",
    "TaskError",
    "ThreadBusyError",
    "ThreadConflictError",
    "ToolNode",
    "ToolRuntime",
    "UnknownInterruptError",
    "UntrackedValue",
    "ValidationNode",
    "add_messages",
    "create_react_agent",
    "entrypoint",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "is_invalid_resume",
    "push_message",
    "task",
    "tools_condition",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        "foldline.agents.runtime": "InjectedState InjectedStore ToolRuntime",
        "foldline.checkpoint.base": "BaseCheckpointSaver",
        "foldline.checkpoint.memory": "InMemorySaver MemorySaver",
        "foldline.checkpoint.postgres": "AsyncPostgresSaver PostgresSaver",
        "foldline.checkpoint.sqlite": "AsyncSqliteSaver SqliteSaver",
        "foldline.exceptions": (
            "EmptyInputError GraphRecursionError InvalidRouteError InvalidUpdateError NothingToResumeError "
            "ThreadBusyError ThreadConflictError UnknownInterruptError"
        ),
        ".builder": "StateGraph",
        ".cache": "BaseCache InMemoryCache SqliteCache",
        ".compiled": "CompiledStateGraph",
        ".func": "entrypoint task",
        ".message_state": "REMOVE_ALL_MESSAGES MessagesState add_messages push_message",
        ".react": "create_react_agent",
        ".runtime": "Runtime get_config get_runtime get_store get_stream_writer",
        ".schema": "EphemeralValue IsLastStep RemainingSteps UntrackedValue",
        ".store.base": "BaseStore GetOp IndexConfig Item PutOp SearchItem SearchOp TTLConfig",
        ".store.memory": "InMemoryStore",
        ".store.postgres": "PostgresStore",
        ".store.sqlite": "SqliteStore",
        ".tool_node": "ToolNode tools_condition",
        ".validation_node": "ValidationNode",
        ".types": (
            "END START CachePolicy Command Interrupt Overwrite RetryPolicy Send StateSnapshot StateUpdate TaskError"
            " interrupt is_invalid_resume"
        ),
    },
)
