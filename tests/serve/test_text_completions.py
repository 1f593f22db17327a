"""`/v1/completions` with the unmodified `openai` package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.serve.process import ServeProcess

HELLO = "Hello there, my friend."


@pytest.fixture
def client(server: ServeProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_S53_prompts_are_answered_whole(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="chat", prompt=["hi", "remember me"], n=2)

    assert (answer.object, answer.id[:5]) == ("text_completion", "cmpl-")
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in answer.choices] == [
        HELLO,
        HELLO,
        "remember me",
        "remember me",
    ]
    assert {choice.finish_reason for choice in answer.choices} == {"stop"}
    assert answer.usage is not None
    assert answer.usage.total_tokens == 4 * 18


def test_S53_a_prompt_is_streamed_with_its_usage(client: openai.OpenAI) -> None:
    chunks = list(
        client.completions.create(
            model="chat", prompt="hi", stream=True, stream_options={"include_usage": True}
        )
    )

    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == HELLO
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 18


def test_S53_options_reach_the_model(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="chat", prompt="options", max_tokens=9, temperature=0.5, top_p=0.5, seed=3, stop=["x"]
    )
    for option in ("'max_tokens', 9", "'temperature', 0.5", "'top_p', 0.5", "'seed', 3", "['x']"):
        assert option in answer.choices[0].text


@pytest.mark.parametrize(
    "wrong",
    [
        {"suffix": "end"},
        {"echo": True},
        {"best_of": 2},
        {"logprobs": 0},
        {"prompt": [1, 2, 3]},
        {"prompt": []},
        {"prompt": None},
        {"n": 129},
        {"prompt": ["hi"] * 70, "n": 2},
    ],
)
def test_S53_what_this_server_does_not_do_is_an_error(server: ServeProcess, wrong: Any) -> None:
    body = {"model": "chat", "prompt": "hi", **wrong}
    answer = httpx.post(f"{server.url}/v1/completions", json=body)
    assert answer.status_code == 400
    assert next(name for name in wrong) in answer.json()["error"]["message"]
