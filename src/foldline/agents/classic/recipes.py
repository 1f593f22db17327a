"""The classic agents: sequences of a prompt, a model and a parser, for `AgentExecutor`.

For new programs `create_agent` is shorter and does more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from foldline.agents.classic.parsers import (
    OpenAIFunctionsAgentOutputParser,
    SelfAskOutputParser,
    XMLAgentOutputParser,
)
from foldline.agents.format_scratchpad import (
    format_log_to_messages,
    format_log_to_str,
    format_to_openai_function_messages,
    format_to_tool_messages,
    format_xml,
)
from foldline.agents.output_parsers import (
    AgentOutputParser,
    JSONAgentOutputParser,
    ReActSingleInputOutputParser,
    ToolsAgentOutputParser,
)
from foldline.exceptions import UsageError
from foldline.language_models._types import LanguageModelLike
from foldline.outputs.agent import AgentAction
from foldline.prompts.base import BasePromptTemplate
from foldline.runnables.base import Runnable
from foldline.runnables.passthrough import RunnablePassthrough
from foldline.tools.base import BaseTool
from foldline.tools.render import render_text_description, render_text_description_and_args
from foldline.utils._signature import show_defaults
from foldline.utils.function_calling import convert_to_openai_function

__all__ = [
    "create_json_chat_agent",
    "create_openai_functions_agent",
    "create_openai_tools_agent",
    "create_react_agent",
    "create_self_ask_with_search_agent",
    "create_structured_chat_agent",
    "create_tool_calling_agent",
    "create_xml_agent",
]

Renderer = Callable[[list[BaseTool]], str]
Prompt = BasePromptTemplate[Any]
SCRATCHPAD = "agent_scratchpad"
SEARCH_TOOL = "Intermediate Answer"
"""The name of the only tool that `create_self_ask_with_search_agent` takes."""
TEMPLATE_TOOL_RESPONSE = """TOOL RESPONSE:
---------------------
{observation}

USER'S INPUT
--------------------

Given that, what is the answer to my last message? What came from a tool must be said in full: I have not seen it. \
Answer with one JSON object in a code block, with a single action and nothing else."""


def _check(prompt: Prompt, required: Sequence[str]) -> None:
    variables = {
        *prompt.input_variables,
        *prompt.partial_variables,
        *getattr(prompt, "optional_variables", ()),
    }
    missing = [name for name in required if name not in variables]
    if missing:
        raise UsageError(
            f"the prompt needs the variables {', '.join(required)}; it has no {', '.join(missing)}"
        )


def _with_tools(prompt: Prompt, tools: Sequence[BaseTool], renderer: Renderer) -> Prompt:
    return prompt.partial(
        tools=renderer(list(tools)), tool_names=", ".join(tool.name for tool in tools)
    )


def _with_stop(llm: LanguageModelLike, stop_sequence: bool | list[str]) -> object:  # noqa: FBT001  LangChain's argument
    if not stop_sequence:
        return llm
    return llm.bind(stop=["\nObservation"] if stop_sequence is True else stop_sequence)


def _sequence(
    format_steps: Callable[[Any], Any], prompt: Prompt, model: object, parser: object
) -> Runnable[Any, Any]:
    steps: Any = RunnablePassthrough.assign(
        **{SCRATCHPAD: lambda inputs: format_steps(inputs["intermediate_steps"])}
    )
    sequence: Runnable[Any, Any] = steps | prompt | model | parser
    return sequence


@show_defaults
def create_react_agent(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: Prompt,
    output_parser: AgentOutputParser | None = None,
    tools_renderer: Renderer = render_text_description,
    *,
    stop_sequence: bool | list[str] = True,
) -> Runnable[Any, Any]:
    """Make an agent that thinks aloud: Thought, Action, Action Input, Observation, until a Final Answer."""
    _check(prompt, ("tools", "tool_names", SCRATCHPAD))
    prompt_with_tools = _with_tools(prompt, tools, tools_renderer)
    parser = output_parser or ReActSingleInputOutputParser()
    return _sequence(format_log_to_str, prompt_with_tools, _with_stop(llm, stop_sequence), parser)


@show_defaults
def create_tool_calling_agent(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: Prompt,
    *,
    message_formatter: Callable[[Any], Any] = format_to_tool_messages,
) -> Runnable[Any, Any]:
    """Make an agent for a model that calls tools."""
    _check(prompt, (SCRATCHPAD,))
    if not hasattr(llm, "bind_tools"):
        raise UsageError(
            f"{type(llm).__name__} takes no tools: create_tool_calling_agent needs a chat model"
        )
    return _sequence(
        message_formatter, prompt, llm.bind_tools(list(tools)), ToolsAgentOutputParser()
    )


create_openai_tools_agent = create_tool_calling_agent


@show_defaults
def create_structured_chat_agent(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: Prompt,
    tools_renderer: Renderer = render_text_description_and_args,
    *,
    stop_sequence: bool | list[str] = True,
) -> Runnable[Any, Any]:
    """Make an agent that asks for tools of several arguments by JSON objects in its text."""
    _check(prompt, ("tools", "tool_names", SCRATCHPAD))
    prompt_with_tools = _with_tools(prompt, tools, tools_renderer)
    return _sequence(
        format_log_to_str,
        prompt_with_tools,
        _with_stop(llm, stop_sequence),
        JSONAgentOutputParser(),
    )


@show_defaults
def create_json_chat_agent(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: Prompt,
    stop_sequence: bool | list[str] = True,  # noqa: FBT001, FBT002  LangChain's signature
    tools_renderer: Renderer = render_text_description,
    template_tool_response: str = TEMPLATE_TOOL_RESPONSE,
) -> Runnable[Any, Any]:
    """Make an agent that answers in JSON objects, for chat models; results are sent as user messages."""
    if "{observation}" not in template_tool_response:
        raise UsageError("template_tool_response needs {observation}")
    _check(prompt, ("tools", "tool_names", SCRATCHPAD))

    def format_steps(steps: Sequence[tuple[AgentAction, Any]]) -> object:
        return format_log_to_messages(steps, template_tool_response=template_tool_response)

    prompt_with_tools = _with_tools(prompt, tools, tools_renderer)
    return _sequence(
        format_steps, prompt_with_tools, _with_stop(llm, stop_sequence), JSONAgentOutputParser()
    )


def create_openai_functions_agent(
    llm: LanguageModelLike, tools: Sequence[BaseTool], prompt: Prompt
) -> Runnable[Any, Any]:
    """Make an agent for a model that calls one function at a time, with OpenAI's older `functions`."""
    _check(prompt, (SCRATCHPAD,))
    functions = [convert_to_openai_function(tool) for tool in tools]
    model = llm.bind(functions=functions) if functions else llm
    return _sequence(
        format_to_openai_function_messages, prompt, model, OpenAIFunctionsAgentOutputParser()
    )


@show_defaults
def create_xml_agent(
    llm: LanguageModelLike,
    tools: Sequence[BaseTool],
    prompt: Prompt,
    tools_renderer: Renderer = render_text_description,
    *,
    stop_sequence: bool | list[str] = True,
) -> Runnable[Any, Any]:
    """Make an agent that asks for tools by tags: <tool>, <tool_input>, until a <final_answer>."""
    _check(prompt, ("tools", SCRATCHPAD))
    prompt_with_tools = prompt.partial(tools=tools_renderer(list(tools)))
    stop = ["</tool_input>"] if stop_sequence is True else stop_sequence
    return _sequence(format_xml, prompt_with_tools, _with_stop(llm, stop), XMLAgentOutputParser())


def create_self_ask_with_search_agent(
    llm: LanguageModelLike, tools: Sequence[BaseTool], prompt: Prompt
) -> Runnable[Any, Any]:
    """Make an agent that asks itself follow-up questions, which its only tool answers."""
    _check(prompt, (SCRATCHPAD,))
    names = [tool.name for tool in tools]
    if names != [SEARCH_TOOL]:
        raise UsageError(
            f"create_self_ask_with_search_agent takes one tool, named {SEARCH_TOOL!r}, not {names}"
        )

    def format_steps(steps: Sequence[tuple[AgentAction, Any]]) -> str:
        return format_log_to_str(steps, observation_prefix="\nIntermediate answer: ", llm_prefix="")

    model = llm.bind(stop=["\nIntermediate answer:"])
    return _sequence(format_steps, prompt, model, SelfAskOutputParser())
