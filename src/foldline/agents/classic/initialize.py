"""`initialize_agent`: makes an executor from tools, a model and the name of a kind of agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from foldline.agents.classic import _prompts as prompts
from foldline.agents.classic.executor import AgentExecutor, planner_of
from foldline.agents.classic.parsers import ConvoOutputParser, ReActDocstoreOutputParser
from foldline.agents.classic.recipes import (
    create_json_chat_agent,
    create_openai_functions_agent,
    create_openai_tools_agent,
    create_react_agent,
    create_self_ask_with_search_agent,
    create_structured_chat_agent,
)
from foldline.agents.output_parsers import ReActJsonSingleInputOutputParser
from foldline.callbacks.base import Callbacks
from foldline.exceptions import UsageError
from foldline.language_models._types import LanguageModelLike
from foldline.prompts.base import BasePromptTemplate
from foldline.runnables.base import Runnable
from foldline.tools.base import BaseTool

__all__ = ["AgentType", "initialize_agent"]

Options = Mapping[str, Any]
Maker = Callable[[Any, Sequence[BaseTool], BasePromptTemplate[Any], Options], Runnable[Any, Any]]


class AgentType(StrEnum):
    """The kinds of agents that `initialize_agent` makes."""

    ZERO_SHOT_REACT_DESCRIPTION = "zero-shot-react-description"
    """Thinks aloud, and asks for one tool at a time."""
    REACT_DOCSTORE = "react-docstore"
    """Searches a store of documents and looks up terms in them."""
    SELF_ASK_WITH_SEARCH = "self-ask-with-search"
    """Asks itself follow-up questions, which a search answers."""
    CONVERSATIONAL_REACT_DESCRIPTION = "conversational-react-description"
    """Thinks aloud within a conversation."""
    CHAT_ZERO_SHOT_REACT_DESCRIPTION = "chat-zero-shot-react-description"
    """Thinks aloud, and asks for tools by JSON; for chat models."""
    CHAT_CONVERSATIONAL_REACT_DESCRIPTION = "chat-conversational-react-description"
    """Answers in JSON within a conversation; for chat models."""
    STRUCTURED_CHAT_ZERO_SHOT_REACT_DESCRIPTION = "structured-chat-zero-shot-react-description"
    """Asks for tools of several arguments by JSON; for chat models."""
    OPENAI_FUNCTIONS = "openai-functions"
    """Calls one function at a time."""
    OPENAI_MULTI_FUNCTIONS = "openai-multi-functions"
    """Calls several tools at once."""


class Kind(NamedTuple):
    """How an agent of one kind is made, and which options its prompt takes."""

    prompt: Callable[..., BasePromptTemplate[Any]]
    make: Maker
    options: frozenset[str]


def _react(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: BasePromptTemplate[Any],
    options: Options,
) -> Runnable[Any, Any]:
    return create_react_agent(llm, tools, prompt, options.get("output_parser"))


def _docstore(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: BasePromptTemplate[Any],
    options: Options,
) -> Runnable[Any, Any]:
    names = sorted(tool.name for tool in tools)
    if names != ["Lookup", "Search"]:
        raise UsageError(
            f"{AgentType.REACT_DOCSTORE.value} takes the tools Search and Lookup, not {names}"
        )
    parser = options.get("output_parser") or ReActDocstoreOutputParser()
    return create_react_agent(llm, tools, prompt, parser)


def _conversational(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: BasePromptTemplate[Any],
    options: Options,
) -> Runnable[Any, Any]:
    parser = options.get("output_parser") or ConvoOutputParser(
        ai_prefix=options.get("ai_prefix", "AI")
    )
    return create_react_agent(llm, tools, prompt, parser)


def _chat_react(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: BasePromptTemplate[Any],
    options: Options,
) -> Runnable[Any, Any]:
    parser = options.get("output_parser") or ReActJsonSingleInputOutputParser()
    return create_react_agent(llm, tools, prompt, parser)


def _without_options(create: Callable[..., Runnable[Any, Any]]) -> Maker:
    return lambda llm, tools, prompt, options: create(llm, tools, prompt)


TEXT_OPTIONS = frozenset({"prefix", "suffix", "format_instructions"})
TEXT_AND_PARSER_OPTIONS = TEXT_OPTIONS | {"output_parser"}
CHAT_OPTIONS = frozenset({"system_message", "extra_prompt_messages"})
KINDS: dict[AgentType, Kind] = {
    AgentType.ZERO_SHOT_REACT_DESCRIPTION: Kind(prompts.react, _react, TEXT_AND_PARSER_OPTIONS),
    AgentType.REACT_DOCSTORE: Kind(prompts.docstore, _docstore, frozenset({"output_parser"})),
    AgentType.SELF_ASK_WITH_SEARCH: Kind(
        prompts.self_ask, _without_options(create_self_ask_with_search_agent), frozenset()
    ),
    AgentType.CONVERSATIONAL_REACT_DESCRIPTION: Kind(
        prompts.conversational,
        _conversational,
        TEXT_AND_PARSER_OPTIONS | {"ai_prefix", "human_prefix"},
    ),
    AgentType.CHAT_ZERO_SHOT_REACT_DESCRIPTION: Kind(
        prompts.chat_react, _chat_react, TEXT_AND_PARSER_OPTIONS
    ),
    AgentType.CHAT_CONVERSATIONAL_REACT_DESCRIPTION: Kind(
        prompts.chat_conversational,
        _without_options(create_json_chat_agent),
        frozenset({"system_message"}),
    ),
    AgentType.STRUCTURED_CHAT_ZERO_SHOT_REACT_DESCRIPTION: Kind(
        prompts.structured_chat, _without_options(create_structured_chat_agent), TEXT_OPTIONS
    ),
    AgentType.OPENAI_FUNCTIONS: Kind(
        prompts.functions, _without_options(create_openai_functions_agent), CHAT_OPTIONS
    ),
    AgentType.OPENAI_MULTI_FUNCTIONS: Kind(
        prompts.functions, _without_options(create_openai_tools_agent), CHAT_OPTIONS
    ),
}
"""Kind of agent -> its prompt, its maker, the options that `agent_kwargs` may contain."""
PARSER_OPTIONS = frozenset({"output_parser"})
INTERNAL_VARIABLES = frozenset({"agent_scratchpad", "tools", "tool_names"})
"""Variables of a prompt that callers do not pass."""


def initialize_agent(
    tools: Sequence[BaseTool],
    llm: LanguageModelLike,
    agent: AgentType | str | None = None,
    callback_manager: Callbacks = None,
    agent_path: str | None = None,
    agent_kwargs: dict[str, Any] | None = None,
    *,
    tags: Sequence[str] | None = None,
    **kwargs: Any,
) -> AgentExecutor:
    """Make an executor from tools, a model and a kind of agent; `kwargs` are the executor's.

    `agent_kwargs` change the kind's prompt (`prefix`, `suffix`, `system_message`, …) or its `output_parser`.
    """
    if agent_path is not None:
        raise UsageError("agents are not loaded from files: name the kind of agent as `agent=`")
    kind = _kind_of(agent)
    row, options = KINDS[kind], dict(agent_kwargs or {})
    unknown = options.keys() - row.options
    if unknown:
        allowed = ", ".join(sorted(row.options)) or "none"
        raise UsageError(
            f"agent_kwargs of {kind.value} are {allowed}; not {', '.join(sorted(unknown))}"
        )
    prompt_options = {name: value for name, value in options.items() if name not in PARSER_OPTIONS}
    prompt = row.prompt(**prompt_options)
    runnable = row.make(llm, tools, prompt, options)
    inputs = [name for name in prompt.input_variables if name not in INTERNAL_VARIABLES]
    planner = planner_of(runnable, input_keys_arg=inputs, return_keys_arg=["output"])
    all_tags = [*(tags or ()), kind.value]
    callbacks = kwargs.pop("callbacks", None) or callback_manager
    return AgentExecutor.from_agent_and_tools(
        planner, tools, callbacks=callbacks, tags=all_tags, **kwargs
    )


def _kind_of(agent: AgentType | str | None) -> AgentType:
    if agent is None:
        return AgentType.ZERO_SHOT_REACT_DESCRIPTION
    try:
        return AgentType(agent)
    except ValueError as error:
        kinds = ", ".join(kind.value for kind in AgentType)
        raise UsageError(f"there is no agent {agent!r}; the kinds are {kinds}") from error
