from __future__ import annotations

import pytest

from foldline.caches import InMemoryCache
from foldline.exceptions import OutputRejectedError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatGeneration, ChatResult
from tests.language_models.scripted import KINDS, GenerateOnly, Narrow, Speaking, calls, read


def no_secrets(message):
    return "it says the secret" if "secret" in message.text else None


def censored(message):
    return AIMessage(message.text.replace("secret", "***"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_answer_is_an_error_that_holds_it(call, kind):
    model = kind(answers=["the secret word"], guards=[no_secrets])

    with pytest.raises(
        OutputRejectedError, match="no_secrets refused the answer: it says the secret"
    ) as excinfo:
        call.invoke(model, "x")

    assert excinfo.value.guard == "no_secrets"
    assert "secret" in excinfo.value.partial.text
    assert len(model.requests) == 1


def test_while_streaming_nothing_is_out_before_the_guards_have_passed(call):
    model = Speaking(answers=["the secret word"], guards=[no_secrets])

    events, error = read(model.stream_v2("x"))

    assert isinstance(error, OutputRejectedError)
    assert [event["event"] for event in events if event["event"].startswith("content")] == []


def test_what_passes_streams_as_it_would_have(call):
    model = Speaking(answers=["a fine word"], guards=[no_secrets])

    assert [chunk.text for chunk in call.stream(model, "x") if chunk.text] == [
        "a ",
        "fine ",
        "word ",
    ]


def test_with_post_the_text_is_out_and_the_stream_ends_in_the_error():
    model = Speaking(answers=["the secret word"], guards=[no_secrets], guard_mode="post")

    chunks, error = read(model.stream("x"))

    assert isinstance(error, OutputRejectedError)
    assert "".join(chunk.text for chunk in chunks) == "the secret word "


@pytest.mark.parametrize("kind", KINDS)
def test_a_guard_may_give_another_answer(call, kind):
    model = kind(answers=["the secret word"], guards=[censored, no_secrets])

    assert call.invoke(model, "x").text.strip() == "the *** word"
    assert "".join(chunk.text for chunk in call.stream(model, "x")).strip() == "the *** word"


def test_an_async_guard_works_in_an_async_call():
    import asyncio

    async def guard(message):
        return False

    with pytest.raises(OutputRejectedError):
        asyncio.run(Speaking(answers=["x"], guards=[guard]).ainvoke("x"))


def test_an_answer_kept_without_guards_is_not_given_with_them(call):
    cache = InMemoryCache()
    call.invoke(Speaking(answers=["the secret word"], cache=cache), "x")
    guarded = Speaking(answers=["the secret word"], cache=cache, guards=[no_secrets])

    with pytest.raises(OutputRejectedError):
        call.invoke(guarded, "x")


def test_a_guard_that_gives_nonsense_is_told(call):
    with pytest.raises(UsageError, match="the guard <lambda> returned 7"):
        call.invoke(Speaking(answers=["x"], guards=[lambda message: 7]), "x")


def banning(word):
    return lambda message: word not in message.text


def test_an_answer_kept_for_others_must_pass_the_guards_of_this_call(call):
    cache = InMemoryCache()
    first_model = Speaking(answers=["the secret word"], cache=cache, guards=[banning("dog")])
    second_model = Speaking(answers=["another word"], cache=cache, guards=[banning("secret")])

    call.invoke(first_model, "x")

    assert call.invoke(second_model, "x").text.strip() == "another word"
    assert "".join(chunk.text for chunk in call.stream(second_model, "x")).strip() == "another word"
    assert len(second_model.requests) == 1


def test_every_generation_must_pass(call):
    class TwoGenerations(GenerateOnly):
        def _generate(self, *args, **kwargs):
            first = super()._generate(*args, **kwargs).generations[0]
            second = ChatGeneration(message=AIMessage("the secret word"))
            return ChatResult(generations=[first, second])

    strict, mild = (
        TwoGenerations(answers=["fine"], guards=[guard]) for guard in (no_secrets, censored)
    )

    with pytest.raises(OutputRejectedError):
        call.generate(strict, [[HumanMessage("x")]])
    assert [
        generation.text for generation in call.generate(mild, [[HumanMessage("x")]]).generations[0]
    ] == [
        "fine",
        "the *** word",
    ]


def test_further_answers_of_a_model_that_speaks_in_events_must_pass_too(call):
    class TwoGenerations(Narrow):
        async def _events(self, request, run):
            async for event in super()._events(request, run):
                yield event
            name = request.options["tools"][0]["function"]["name"]
            request.others.append(calls((name, {}), text="the secret word"))

        async def _postprocess(self, request, result, run):
            others = [ChatGeneration(message=other) for other in request.others]
            return ChatResult(generations=[*result.generations, *others])

    tools = [{"type": "function", "function": {"name": "a.b", "parameters": {}}}]
    strict, free = (
        TwoGenerations(answers=["fine"], guards=guards) for guards in ([no_secrets], [])
    )

    with pytest.raises(OutputRejectedError):
        call.generate(strict, [[HumanMessage("x")]], tools=tools)
    second = call.generate(free, [[HumanMessage("x")]], tools=tools).generations[0][1]
    assert second.message.tool_calls[0]["name"] == "a.b"


class Endless(FakeListChatModel):
    """Its stream ends without its last event."""

    async def _events(self, request, run):
        yield {"event": "message-start", "role": "ai", "id": "m1"}
        yield {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
        delta = {"type": "text-delta", "text": self.responses[0]}
        yield {"event": "content-block-delta", "index": 0, "delta": delta}


def test_an_answer_without_its_end_is_guarded_too(call):
    assert call.stream_v2(Endless(responses=["fine"], guards=[no_secrets]), "x")[-1]["event"] == (
        "message-finish"
    )
    with pytest.raises(OutputRejectedError):
        call.stream_v2(Endless(responses=["the secret word"], guards=[no_secrets]), "x")
