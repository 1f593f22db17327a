"""`StateGraph`: builds a graph of nodes and edges, and checks it before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self

from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import UsageError
from foldline.graph._node_spec import (
    InputShape,
    NodeSpec,
    _returns as returns_of,
    literal_values,
    name_of,
)
from foldline.graph._plan import Branch, GraphPlan, WaitingEdge
from foldline.graph.cache import BaseCache
from foldline.graph.compiled import CompiledStateGraph
from foldline.graph.runtime import wanted_arguments
from foldline.graph.schema import StateKeys
from foldline.graph.store.base import BaseStore
from foldline.graph.types import (
    END,
    START,
    CachePolicy,
    ContextT,
    InputT,
    OutputT,
    RetryPolicy,
    StateT,
)
from foldline.runnables.base import Runnable
from foldline.utils._options import check_options

__all__ = ["StateGraph"]

Path = Callable[..., Any] | Runnable[Any, Any]
RESERVED = (START, END)


@dataclass(slots=True)
class _Defaults:
    retry_policy: Any = None
    cache_policy: CachePolicy | None = None
    timeout: float | None = None


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A graph whose nodes read and update one state.

    ```python
    from typing import TypedDict
    from foldline.graph import END, START, StateGraph

    class State(TypedDict):
        text: str

    graph = StateGraph(State)
    graph.add_node("shout", lambda state: {"text": state["text"].upper()})
    graph.add_edge(START, "shout")
    graph.add_edge("shout", END)
    print(graph.compile().invoke({"text": "hello"}))
    #> {'text': 'HELLO'}
    ```
    """

    def __repr__(self) -> str:
        schema = getattr(self.state_schema, "__name__", repr(self.state_schema))
        return f"{type(self).__name__}({schema}, nodes={list(self.nodes)})"

    @check_options(skip=("state_schema", "input_schema", "output_schema", "input", "output"))
    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
        config_schema: type[ContextT] | None = None,
        input: type[InputT] | None = None,
        output: type[OutputT] | None = None,
    ) -> None:
        self.state_schema = state_schema
        self.context_schema = context_schema or config_schema
        self.input_schema = input_schema or input or state_schema
        self.output_schema = output_schema or output or state_schema
        options: dict[str, object] = {
            "state_schema": state_schema,
            "input_schema": input_schema,
            "input": input,
        }
        options |= {"output_schema": output_schema, "output": output}
        _check_schemas(options)
        self.keys = StateKeys([state_schema, self.input_schema, self.output_schema])
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: set[tuple[str, str]] = set()
        self._edge_list: list[tuple[str, str]] = []
        self.branches: dict[str, dict[str, Branch]] = {}
        self.waiting_edges: list[WaitingEdge] = []
        self._defaults = _Defaults()

    @check_options(at_least={"timeout": 0})
    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: float | None = None,
    ) -> Self:
        """Set the defaults of nodes that are added later."""
        self._defaults = _Defaults(retry_policy, cache_policy, timeout)
        return self

    @check_options(at_least={"timeout": 0})
    def add_node(
        self,
        node: str | Any,  # noqa: ANN401  a name, a function or a runnable
        action: object = None,
        *,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        input_schema: object = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: float | None = None,
        destinations: Collection[str] | Mapping[str, str] | None = None,
        retry: RetryPolicy | Sequence[RetryPolicy] | None = None,
        input: object = None,
    ) -> Self:
        """Add a node: a function of the state, a runnable, or a compiled graph."""
        if not isinstance(node, str):
            action, node = node, name_of(node)
        elif action is None:
            raise UsageError(f"the node {node!r} needs a function: add_node({node!r}, function)")
        if node in RESERVED or not node or any(character in node for character in "|:"):
            raise UsageError(f"a node cannot be named {node!r}: choose a name without | and :")
        if node in self.nodes:
            raise UsageError(f"the graph already has a node {node!r}: choose another name")
        spec = NodeSpec(
            node,
            action,
            input_schema=input_schema or input,
            retry_policy=retry_policy or retry or self._defaults.retry_policy,
            cache_policy=cache_policy or self._defaults.cache_policy,
            timeout=timeout or self._defaults.timeout,
            defer=defer,
            metadata=metadata,
            destinations=destinations,
        )
        if self.keys.is_root:
            spec.input_schema = None  # a node is given the one value, whatever its annotation says
        if spec.input_schema is not None:
            _check_schemas({"input_schema": input_schema, "input": input})
            self.keys.add(spec.input_schema)
            self.keys.inputs[node] = spec.input_schema
        self.nodes[node] = spec
        return self

    @check_options()
    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """Add an edge from a node to another; from several, it is taken when all of them have run."""
        if isinstance(start_key, str):
            if start_key == END:
                raise UsageError("END leads nowhere: no edge can begin there")
            if end_key == START:
                raise UsageError("nothing leads to START: no edge can end there")
            if (start_key, end_key) not in self.edges:
                self.edges.add((start_key, end_key))
                self._edge_list.append((start_key, end_key))
            return self
        self.waiting_edges.append(WaitingEdge(tuple(start_key), end_key))
        return self

    @check_options()
    def add_conditional_edges(
        self,
        source: str,
        path: Path,
        path_map: Mapping[Hashable, str] | Collection[str] | None = None,
    ) -> Self:
        """Add a branch after a node: a function that returns a node's name, END, a Send, or a list of these."""
        name = name_of(path)
        branches = self.branches.setdefault(source, {})
        if name in branches:
            if name != "<lambda>":
                raise UsageError(
                    f"the node {source!r} already has a branch {name!r}: rename the function"
                )
            name = f"{name}{len(branches)}"
        ends: dict[Any, str] | None
        if isinstance(path_map, Mapping):
            ends = dict(path_map)
        elif path_map is not None:
            ends = {name: name for name in path_map}
        else:
            literal_names = None if isinstance(path, Runnable) else literal_values(returns_of(path))
            ends = None if literal_names is None else {name: name for name in literal_names}
        wants, count = ((), 1) if isinstance(path, Runnable) else wanted_arguments(path)
        branches[name] = Branch(name, path, ends, wants, count)
        return self

    @check_options()
    def add_sequence(self, nodes: Sequence[Any]) -> Self:
        """Add nodes that run one after another: functions, or pairs of a name and a function."""
        if not nodes:
            raise UsageError("add_sequence needs at least one node")
        previous: str | None = None
        for node in nodes:
            name, action = node if isinstance(node, tuple) else (name_of(node), node)
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """Set the first node."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Path, path_map: Mapping[Hashable, str] | Collection[str] | None = None
    ) -> Self:
        """Set a function that chooses the first node."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """End after a node."""
        return self.add_edge(key, END)

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Check nodes and edges; raise `UsageError` if one is missing."""
        self._plan().check(list(interrupt or ()))
        return self

    @check_options(skip=("checkpointer", "store"))
    def compile(
        self,
        checkpointer: BaseCheckpointSaver | bool | None = None,  # noqa: FBT001  LangGraph's signature
        *,
        cache: BaseCache | None = None,
        store: BaseStore | None = None,
        interrupt_before: Sequence[str] | str | None = None,
        interrupt_after: Sequence[str] | str | None = None,
        debug: bool = False,
        name: str | None = None,
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """Check the graph and return it as a runnable; with `debug` its runs print their updates and states."""
        if store is not None and not callable(getattr(store, "batch", None)):  # or one like ours
            raise UsageError(f"store must be a BaseStore, not {store!r:.80}")
        before, after = _names(interrupt_before, self.nodes), _names(interrupt_after, self.nodes)
        plan = self._plan()
        plan.check([*before, *after])
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise UsageError(
                f"checkpointer must be a saver of foldline.checkpoint, not {type(checkpointer).__name__}"
            )
        return CompiledStateGraph(
            plan,
            builder=self,
            name=name or "LangGraph",
            checkpointer=checkpointer,
            cache=cache,
            store=store,
            interrupt_before=before,
            interrupt_after=after,
            debug=debug,
        )

    def _plan(self) -> GraphPlan:
        for spec in self.nodes.values():
            schema = spec.input_schema
            if schema is None:
                schema = getattr(spec.action, "input_shape_schema", None) or self.state_schema
            spec.shape = InputShape(schema, self.keys)
        return GraphPlan(
            self.keys,
            dict(self.nodes),
            list(self._edge_list),
            {source: list(branches.values()) for source, branches in self.branches.items()},
            list(self.waiting_edges),
            InputShape(self.state_schema, self.keys),
            InputShape(self.input_schema, self.keys),
            InputShape(self.output_schema, self.keys),
            self.context_schema,
        )


def _check_schemas(options: Mapping[str, object]) -> None:
    """Raise `UsageError` for an option that is no schema, with its name."""
    for name, schema in options.items():
        if schema is not None:
            try:
                StateKeys([schema])
            except UsageError as error:
                raise UsageError(f"{name}={schema!r:.80}: {error}") from error


def _names(names: Sequence[str] | str | None, nodes: Mapping[str, NodeSpec]) -> list[str]:
    if names == "*":
        return list(nodes)
    return [names] if isinstance(names, str) else list(names or ())
