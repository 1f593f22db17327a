"""The prompts of `initialize_agent`, one function per kind of agent; their texts may be replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline.messages import BaseMessage, SystemMessage
from foldline.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate

__all__ = [
    "chat_conversational", "chat_react", "conversational", "docstore", "functions", "react", "self_ask",
    "structured_chat",
]  # fmt: skip

REACT_PREFIX = "Answer the question as well as you can. You may use these tools:"
REACT_FORMAT = """Write in this form:

Question: the question to answer
Thought: what to do next
Action: the tool to use, one of [{tool_names}]
Action Input: what to give the tool
Observation: what the tool said
... (Thought, Action, Action Input and Observation may come several times)
Thought: I know the answer
Final Answer: the answer to the question"""
REACT_SUFFIX = """Question: {input}
Thought: {agent_scratchpad}"""

DOCSTORE = """Answer the question by thinking and by looking into documents, in turns: Thought, Action, Observation.
An action is one of:
Search[term]: find the document about a term
Lookup[term]: find the next sentence with a term in the document that was found
Finish[answer]: give the answer
You have: {tools} ({tool_names})

Question: Who wrote the play that the film West Side Story goes back to?
Thought: I search for West Side Story and see what it goes back to.
Action: Search[West Side Story]
Observation: West Side Story is a film of 1961, after a musical inspired by Romeo and Juliet.
Thought: Romeo and Juliet is a play by William Shakespeare.
Action: Finish[William Shakespeare]

Question: {input}
Thought: {agent_scratchpad}"""

SELF_ASK = """Question: Is the tower in Paris taller than the one in Tokyo?
Are follow up questions needed here: Yes.
Follow up: How tall is the Eiffel Tower?
Intermediate answer: The Eiffel Tower is 330 metres tall.
Follow up: How tall is the Tokyo Tower?
Intermediate answer: The Tokyo Tower is 333 metres tall.
So the final answer is: No

Question: {input}
Are follow up questions needed here:{agent_scratchpad}"""

CONVERSATION_PREFIX = (
    "You are an assistant that talks with a person and answers plainly. You may use these tools:"
)
CONVERSATION_FORMAT = """To use a tool, write:

Thought: Do I need a tool? Yes
Action: the tool to use, one of [{tool_names}]
Action Input: what to give the tool
Observation: what the tool said

To answer the person, write:

Thought: Do I need a tool? No
AI_PREFIX: your answer"""
CONVERSATION_SUFFIX = """The conversation so far:
{chat_history}

HUMAN_PREFIX: {input}
{agent_scratchpad}"""

CHAT_FORMAT = """Use a tool by a JSON object in a code block, with "action" (one of: {tool_names}) and
"action_input":

```
{{"action": "the tool", "action_input": "what to give it"}}
```

Write in this form:

Question: the question to answer
Thought: what to do next
Action:
the code block, with one action
Observation: what the tool said
... (Thought, Action and Observation may come several times)
Thought: I know the answer
Final Answer: the answer to the question"""
CHAT_SUFFIX = "Write exactly `Final Answer` before the answer."

STRUCTURED_PREFIX = "Answer as helpfully and exactly as you can. You may use these tools:"
STRUCTURED_FORMAT = """Speak by one JSON object in a code block, with "action" and "action_input". An action is
"Final Answer" or one of: {tool_names}. One action at a time:

```
{{"action": "the tool", "action_input": {{"argument": "value"}}}}
```

Write in this form:

Question: the question to answer
Thought: what was done and what comes next
Action:
the code block
Observation: what the tool said
... (Thought, Action and Observation may come several times)
Thought: I know what to answer
Action:
```
{{"action": "Final Answer", "action_input": "the answer"}}
```"""
STRUCTURED_SUFFIX = "Always answer with a code block that holds one action. Answer directly where no tool is needed."

ASSISTANT = "You are an assistant that answers plainly and uses tools where they help."
JSON_CHAT = """You may use these tools:

{tools}

Answer with one JSON object in a code block, and nothing else. To use a tool (one of: {tool_names}):

```json
{{"action": "the tool", "action_input": "what to give it"}}
```

To answer the person:

```json
{{"action": "Final Answer", "action_input": "the answer"}}
```

The person says:

{input}"""
HELPFUL = "You are a helpful AI assistant."


def react(
    prefix: str = REACT_PREFIX, format_instructions: str = REACT_FORMAT, suffix: str = REACT_SUFFIX
) -> PromptTemplate:
    """Return the prompt of an agent that thinks aloud."""
    return PromptTemplate.from_template(
        "\n\n".join([prefix, "{tools}", format_instructions, suffix])
    )


def docstore() -> PromptTemplate:
    """Return the prompt of an agent that searches documents."""
    return PromptTemplate.from_template(DOCSTORE)


def self_ask() -> PromptTemplate:
    """Return the prompt of an agent that asks itself follow-up questions."""
    return PromptTemplate.from_template(SELF_ASK)


def conversational(
    prefix: str = CONVERSATION_PREFIX,
    format_instructions: str = CONVERSATION_FORMAT,
    suffix: str = CONVERSATION_SUFFIX,
    ai_prefix: str = "AI",
    human_prefix: str = "Human",
) -> PromptTemplate:
    """Return the prompt of an agent that thinks aloud within a conversation."""
    text = "\n\n".join([prefix, "{tools}", format_instructions, suffix])
    text = text.replace("AI_PREFIX", ai_prefix).replace("HUMAN_PREFIX", human_prefix)
    return PromptTemplate.from_template(text)


def chat_react(
    prefix: str = REACT_PREFIX, format_instructions: str = CHAT_FORMAT, suffix: str = CHAT_SUFFIX
) -> ChatPromptTemplate:
    """Return the prompt of an agent that thinks aloud and asks for tools by JSON."""
    system = "\n\n".join([prefix, "{tools}", format_instructions, suffix])
    return ChatPromptTemplate.from_messages(
        [("system", system), ("human", "{input}\n\n{agent_scratchpad}")]
    )


def structured_chat(
    prefix: str = STRUCTURED_PREFIX,
    format_instructions: str = STRUCTURED_FORMAT,
    suffix: str = STRUCTURED_SUFFIX,
) -> ChatPromptTemplate:
    """Return the prompt of an agent that asks for tools of several arguments."""
    return chat_react(prefix, format_instructions, suffix)


def chat_conversational(system_message: str = ASSISTANT) -> ChatPromptTemplate:
    """Return the prompt of an agent that speaks in JSON within a conversation."""
    return ChatPromptTemplate.from_messages(
        [
            SystemMessage(system_message),
            MessagesPlaceholder("chat_history", optional=True),
            ("human", JSON_CHAT),
            MessagesPlaceholder("agent_scratchpad"),
        ]
    )


def functions(
    system_message: BaseMessage | str | None = HELPFUL, extra_prompt_messages: Sequence[Any] = ()
) -> ChatPromptTemplate:
    """Return the prompt of an agent that calls functions; `extra_prompt_messages` come before the question."""
    system = SystemMessage(system_message) if isinstance(system_message, str) else system_message
    return ChatPromptTemplate.from_messages(
        [
            *([] if system is None else [system]),
            *extra_prompt_messages,
            ("human", "{input}"),
            MessagesPlaceholder("agent_scratchpad"),
        ]
    )
