"""Graphs under LangGraph's names, on the same run loop as agents and flows."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.agents.runtime import (
        InjectedState as InjectedState,
        InjectedStore as InjectedStore,
        ToolRuntime as ToolRuntime,
    )
    from foldline.checkpoint.base import BaseCheckpointSaver as BaseCheckpointSaver
    from foldline.checkpoint.memory import (
        InMemorySaver as InMemorySaver,
        MemorySaver as MemorySaver,
    )
    from foldline.checkpoint.postgres import (
        AsyncPostgresSaver as AsyncPostgresSaver,
        PostgresSaver as PostgresSaver,
    )
    from foldline.checkpoint.sqlite import (
        AsyncSqliteSaver as AsyncSqliteSaver,
        SqliteSaver as SqliteSaver,
    )
    from foldline.exceptions import (
        EmptyInputError as EmptyInputError,
        GraphRecursionError as GraphRecursionError,
        InvalidRouteError as InvalidRouteError,
        InvalidUpdateError as InvalidUpdateError,
        NothingToResumeError as NothingToResumeError,
        ThreadBusyError as ThreadBusyError,
        ThreadConflictError as ThreadConflictError,
        UnknownInterruptError as UnknownInterruptError,
    )
    from foldline.graph.builder import StateGraph as StateGraph
    from foldline.graph.cache import (
        BaseCache as BaseCache,
        InMemoryCache as InMemoryCache,
        SqliteCache as SqliteCache,
    )
    from foldline.graph.compiled import CompiledStateGraph as CompiledStateGraph
    from foldline.graph.func import entrypoint as entrypoint, task as task
    from foldline.graph.message_state import (
        REMOVE_ALL_MESSAGES as REMOVE_ALL_MESSAGES,
        MessagesState as MessagesState,
        add_messages as add_messages,
        push_message as push_message,
    )
    from foldline.graph.react import create_react_agent as create_react_agent
    from foldline.graph.runtime import (
        Runtime as Runtime,
        get_config as get_config,
        get_runtime as get_runtime,
        get_store as get_store,
        get_stream_writer as get_stream_writer,
    )
    from foldline.graph.schema import (
        EphemeralValue as EphemeralValue,
        IsLastStep as IsLastStep,
        RemainingSteps as RemainingSteps,
        UntrackedValue as UntrackedValue,
    )
    from foldline.graph.store.base import (
        BaseStore as BaseStore,
        GetOp as GetOp,
        IndexConfig as IndexConfig,
        Item as Item,
        PutOp as PutOp,
        SearchItem as SearchItem,
        SearchOp as SearchOp,
        TTLConfig as TTLConfig,
    )
    from foldline.graph.store.memory import InMemoryStore as InMemoryStore
    from foldline.graph.store.postgres import PostgresStore as PostgresStore
    from foldline.graph.store.sqlite import SqliteStore as SqliteStore
    from foldline.graph.tool_node import ToolNode as ToolNode, tools_condition as tools_condition
    from foldline.graph.types import (
        END as END,
        START as START,
        CachePolicy as CachePolicy,
        Command as Command,
        Interrupt as Interrupt,
        Overwrite as Overwrite,
        RetryPolicy as RetryPolicy,
        Send as Send,
        StateSnapshot as StateSnapshot,
        StateUpdate as StateUpdate,
        TaskError as TaskError,
        interrupt as interrupt,
        is_invalid_resume as is_invalid_resume,
    )
    from foldline.graph.validation_node import ValidationNode as ValidationNode
