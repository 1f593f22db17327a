"""Writes the state of the playground as a file: a Python program, a test, or a prompt to load."""

from __future__ import annotations

import json
import pprint
from typing import Any

from foldline.load import dumps
from foldline.prompts import ChatPromptTemplate
from foldline.studio._messages import messages_from_json

__all__ = ["FORMS", "write_code"]

FORMS = ("python", "pytest", "prompt")


def write_code(form: str, state: dict[str, Any]) -> str:
    """Return the text of the file."""
    if form == "prompt":
        return _prompt(state)
    return _program(state) if form == "python" else _test(state)


def _prompt(state: dict[str, Any]) -> str:
    pairs = [
        (str(message.get("role")), _escape(_text(message)))
        for message in state.get("messages") or []
        if message.get("role") in ("system", "user", "assistant")
    ]
    roles = {"user": "human", "assistant": "ai"}
    prompt = ChatPromptTemplate([(roles.get(role, role), text) for role, text in pairs])
    return dumps(prompt, pretty=True) + "\n"


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content", message.get("text", ""))
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _messages(state: dict[str, Any]) -> str:
    plain = []
    for message in state.get("messages") or []:
        fields = {
            "role": message.get("role"),
            "content": message.get("content", message.get("text", "")),
        }
        for name in ("tool_calls", "tool_call_id"):
            if message.get(name):
                fields[name] = message[name]
        plain.append(fields)
    messages_from_json(plain)  # raises for messages that could not be sent
    return pprint.pformat(plain, width=96, sort_dicts=False)


def _parameters(state: dict[str, Any]) -> str:
    parameters = {
        key: value
        for key, value in (state.get("parameters") or {}).items()
        if value not in (None, "") and str(key).isidentifier()
    }
    return "".join(f", {key}={value!r}" for key, value in parameters.items())


def _program(state: dict[str, Any]) -> str:
    model = f"init_chat_model({str(state.get('model') or '')!r}{_parameters(state)})"
    lines = [
        "from foldline.chat_models import init_chat_model",
        "",
        f"model = {model}",
        f"messages = {_messages(state)}",
    ]
    if state.get("schema"):
        schema = pprint.pformat({"title": "answer", **state["schema"]}, width=96, sort_dicts=False)
        lines += [
            f"schema = {schema}",
            "print(model.with_structured_output(schema).invoke(messages))",
        ]
    else:
        lines += [
            "for chunk in model.stream(messages):",
            '    print(chunk.text, end="", flush=True)',
            "print()",
        ]
    return "\n".join(lines) + "\n"


def _test(state: dict[str, Any]) -> str:
    model = f"init_chat_model({str(state.get('model') or '')!r}{_parameters(state)})"
    answer = str(state.get("answer") or "")
    return (
        '"""Made in the studio\'s playground. Say in the last line what the answer must have."""\n\n'
        "from foldline.chat_models import init_chat_model\n\n"
        f"MESSAGES = {_messages(state)}\n"
        f"ANSWER = {answer!r}\n"
        '"""What the model said when this test was made."""\n\n\n'
        "def test_the_answer():\n"
        f"    model = {model}\n\n"
        "    answer = model.invoke(MESSAGES)\n\n"
        "    assert answer.text.strip()\n"
    )
