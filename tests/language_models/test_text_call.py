"""A call of a text model is the call of a chat model: retries, hooks, guards, policies; and what handlers get."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import (
    ContextOverflowError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
    OutputRejectedError,
    StreamClosedError,
    UsageError,
)
from foldline.language_models import (
    LLM,
    BaseLLM,
    CompleteAnswer,
    Decision,
    FakeListLLM,
    Limits,
    ModelHooks,
    Policy,
    RetryPolicy,
    usage_scope,
)
from foldline.messages import AIMessage, SystemMessage
from foldline.outputs import ChatGeneration, ChatResult, Generation, GenerationChunk, LLMResult

FAST = RetryPolicy(max_retries=2, initial=0.0, jitter=False)


class Listener(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def last(self, name: str) -> Any:
        return [value for each, value in self.events if each == name][-1]

    def on_llm_start(self, serialized: Any, prompts: list[str], **kwargs: Any) -> None:
        self.events.append(("start", prompts))

    def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> None:
        self.events.append(("token", chunk))

    def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
        self.events.append(("retry", retry_state))

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.events.append(("end", response))

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.events.append(("error", (error, kwargs["response"])))


class Echo(LLM):
    """Fails as often as it is told, then repeats the prompt."""

    failures: int = 0
    requests: Any = None
    retry_on_error: Any = FAST

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"kind": "echo"}

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        self._note(prompt, kwargs)
        return prompt.upper()

    def _note(self, prompt: str, kwargs: dict[str, Any]) -> None:
        if self.requests is not None:
            self.requests.append((prompt, kwargs))
        if self.failures:
            self.failures -= 1
            raise ModelRateLimitError("slow down", retry_after=0.0)


class Spelling(Echo):
    """Streams letters; breaks before the letter at `breaks_at`."""

    breaks_at: int | None = None

    def _stream(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self._note(prompt, kwargs)
        for index, letter in enumerate(prompt):
            if index == self.breaks_at:
                raise ModelOverloadedError("broken")
            yield GenerationChunk(text=letter.upper(), generation_info={"at": [index]})


class AsyncSpelling(Spelling):
    async def _astream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        for chunk in self._stream(prompt, stop, run_manager, **kwargs):
            yield chunk


STREAMING = [Spelling, AsyncSpelling]


# -- retries


@pytest.mark.parametrize("method", ["invoke", "stream", "batch"])
def test_a_request_that_fails_is_tried_again_and_handlers_are_told(call, method):
    listener = Listener()
    model = Spelling(failures=2, requests=[])

    answer = getattr(call, method)(
        model, ["ab"] if method == "batch" else "ab", {"callbacks": [listener]}
    )

    assert "".join(answer) == "AB"
    assert len(model.requests) == 3
    assert [name for name in listener.names() if name != "token"] == [
        "start", "retry", "retry", "end",
    ]  # fmt: skip
    assert listener.last("retry")["attempt"] == 2


def test_an_error_says_how_many_attempts_there_were(call):
    with pytest.raises(ModelRateLimitError) as excinfo:
        call.invoke(Echo(failures=9), "a")

    assert excinfo.value.attempts == 3


def test_a_call_may_have_another_number_of_retries(call):
    model = Echo(failures=9, requests=[])

    with pytest.raises(ModelRateLimitError):
        call.invoke(model, "a", retry_on_error=False)

    assert model.requests == [("a", {})]


@pytest.mark.parametrize("cls", STREAMING)
@pytest.mark.parametrize("on_partial", ["raise", "reset"])
def test_a_stream_is_not_tried_again_after_its_first_piece(call, cls, on_partial):
    listener = Listener()
    policy = RetryPolicy(max_retries=2, initial=0.0, on_partial=on_partial)
    model = cls(breaks_at=1, requests=[], retry_on_error=policy)

    with pytest.raises(ModelOverloadedError) as excinfo:
        call.stream(model, "abc", {"callbacks": [listener]})

    assert len(model.requests) == 1
    assert excinfo.value.partial.text == "A"
    ((_, partial),) = [value for name, value in listener.events if name == "error"]
    assert partial.generations == [[GenerationChunk(text="A", generation_info={"at": [0]})]]


def test_every_attempt_counts_in_a_usage_scope(call):
    with usage_scope() as usage:
        call.invoke(Echo(failures=1), "a")

    assert usage.model_calls == 2


def test_a_limit_of_calls_holds_between_attempts(call):
    model = Echo(failures=2, requests=[])

    with usage_scope(Limits(model_calls=1)), pytest.raises(Exception, match="model_calls"):
        call.invoke(model, "a")

    assert len(model.requests) == 1


# -- hooks


def test_hooks_may_change_the_prompt_and_the_text(call):
    hooks = ModelHooks(
        before=lambda request: request.replace(
            messages=[request.messages[0].model_copy(update={"content": "changed"})]
        ),
        after=lambda request, message: message.model_copy(update={"content": f"<{message.text}>"}),
    )
    listener = Listener()

    assert call.invoke(Echo(hooks=hooks), "a", {"callbacks": [listener]}) == "<CHANGED>"

    assert listener.events[0] == ("start", ["a"])
    assert listener.last("end").generations == [[Generation(text="<CHANGED>")]]


def test_a_hook_that_adds_messages_makes_them_part_of_the_prompt(call):
    hooks = ModelHooks(
        before=lambda request: request.replace(
            messages=[SystemMessage("Be brief."), *request.messages]
        )
    )

    assert call.invoke(Echo(hooks=hooks), "a") == "SYSTEM: BE BRIEF.\nHUMAN: A"


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_a_hook_may_answer_in_place_of_an_error(call, method):
    hooks = ModelHooks(on_error=lambda request, error: AIMessage("sorry"))
    listener = Listener()

    answer = getattr(call, method)(
        Spelling(failures=9, hooks=hooks), "a", {"callbacks": [listener]}
    )

    assert "".join(answer) == "sorry"
    assert listener.last("end").generations[0][0].text == "sorry"


# -- guards


def no_secret(message: AIMessage) -> bool:
    return "SECRET" not in str(message.text)


@pytest.mark.parametrize("cls", STREAMING)
def test_a_guard_holds_a_stream_back_until_it_has_passed(call, cls):
    listener = Listener()
    model = cls(guards=[no_secret])

    assert "".join(call.stream(model, "abc")) == "ABC"
    with pytest.raises(OutputRejectedError, match="no_secret"):
        call.stream(model, "a secret", {"callbacks": [listener]})

    assert "token" not in listener.names()


@pytest.mark.parametrize("cls", STREAMING)
def test_pieces_that_a_guard_passed_are_the_authors(call, cls):
    listener = Listener()

    pieces = call.stream(cls(guards=[no_secret]), "ab", {"callbacks": [listener]})

    assert pieces == ["A", "B"]
    assert [chunk.generation_info for name, chunk in listener.events if name == "token"] == [
        {"at": [0]},
        {"at": [1]},
    ]


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_a_guard_may_return_another_text(call, method):
    model = Spelling(guards=[lambda message: AIMessage("[removed]")])

    assert "".join(getattr(call, method)(model, "a secret")) == "[removed]"


def test_a_guard_that_follows_the_stream_ends_it_with_an_error(call):
    with pytest.raises(OutputRejectedError):
        call.stream(Spelling(guards=[no_secret], guard_mode="post"), "a secret")


def test_a_cached_text_that_a_guard_rejects_counts_as_not_cached(call):
    cache = InMemoryCache()
    model = FakeListLLM(responses=["A SECRET", "fine"], cache=cache)
    call.invoke(model, "x")
    guarded = model.bind(guards=[no_secret])

    assert call.invoke(guarded, "x") == "fine"
    assert call.invoke(guarded, "x") == "fine"
    assert call.invoke(model, "x") == "A SECRET"


# -- policies


class Audit(Policy):
    applies_to = "settings"
    watches_events = True
    log: list[str]

    async def before(self, request: Any) -> Any:
        self.log.append(f"before {request.messages[0].text}")
        return request

    async def on_events(self, batch: Any) -> Any:
        self.log.append("events")
        return batch

    async def after(self, request: Any, message: Any) -> Any:
        self.log.append(f"after {message.text}")
        return message


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_a_policy_of_a_program_sees_the_call(call, method):
    log: list[str] = []
    audit = type("Audit", (Audit,), {"log": log})

    "".join(getattr(call, method)(Spelling().bind(policies=[audit]), "ab"))

    assert (log[0], log[-1]) == ("before ab", "after AB")
    assert log.count("events") == (1 if method == "invoke" else 3)


def test_a_policy_may_answer_in_place_of_the_model(call):
    class Tape(Policy):
        async def answer(self, request: Any) -> Any:
            generation = ChatGeneration(message=AIMessage("recorded"))
            return CompleteAnswer(ChatResult(generations=[generation]))

    model = Spelling(requests=[])

    assert call.invoke(model, "a", policies=[Tape]) == "recorded"
    assert call.stream(model, "a", policies=[Tape]) == ["recorded"]
    assert model.requests == []


def test_a_policy_may_decide_about_a_retry(call):
    class Twice(Policy):
        def judge(self, failure: Any) -> Decision | None:
            return Decision(repeats=failure.attempts < 2)

    class Odd(Echo):
        def _note(self, prompt: str, kwargs: dict[str, Any]) -> None:
            self.requests.append(prompt)
            raise ValueError("odd")

    model = Odd(requests=[])

    with pytest.raises(ValueError, match="odd"):
        call.invoke(model, "a", policies=[Twice])

    assert model.requests == ["a", "a"]


# -- settings


def test_settings_of_a_call_do_not_reach_the_author(call):
    model = Echo(requests=[])

    call.invoke(model, "a", guards=[no_secret], hooks=ModelHooks(), temperature=1)

    assert model.requests == [("a", {"temperature": 1})]


def test_options_of_the_model_are_merged_with_those_of_the_call(call):
    model = Echo(requests=[], model_options={"temperature": 0, "seed": 1})

    call.invoke(model, "a", temperature=1)

    assert model.requests == [("a", {"temperature": 1, "seed": 1})]


def test_a_prompt_that_is_too_long_is_not_sent(call):
    model = Echo(requests=[], max_input_tokens=5)

    with pytest.raises(ContextOverflowError, match="5"):
        call.invoke(model, "x" * 100)

    assert call.invoke(model, "short") == "SHORT"
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "options", [{"guards": [3]}, {"hooks": {"x": 1}}, {"retry_on_error": {"x": 1}}]
)
def test_a_setting_without_meaning_is_refused(options):
    with pytest.raises((UsageError, ValueError)):
        Echo(**options)


def test_an_author_may_have_a_field_named_profile(call):
    class Regional(Echo):
        profile: str = "eu"

    assert call.invoke(Regional(), "a", temperature=1) == "A"


# -- what handlers and callers get


class Choices(BaseLLM):
    def _generate(
        self, prompts: list[str], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        answers = [
            [
                GenerationChunk(text=f"{prompt}{number}", generation_info={"n": object})
                for number in range(2)
            ]
            for prompt in prompts
        ]
        return LLMResult(generations=answers, llm_output={"token_usage": {"total_tokens": 5}})


def test_the_authors_own_generations_reach_handlers_and_callers(call):
    listener = Listener()

    result = call.generate(Choices(), ["a"], callbacks=[listener])

    assert [type(each) for each in result.generations[0]] == [GenerationChunk] * 2
    assert [each.text for each in result.generations[0]] == ["a0", "a1"]
    assert result.generations[0][0].generation_info == {"n": object}
    assert listener.last("end").generations[0][1] is result.generations[0][1]
    assert result.llm_output == {"token_usage": {"total_tokens": 5}}


def test_a_cost_in_a_scope_is_no_part_of_the_authors_information(call):
    with usage_scope(Limits(model_calls=5)):
        result = call.generate(Choices(), ["a"])

    assert result.generations[0][0].generation_info == {"n": object}


@pytest.mark.parametrize("cls", STREAMING)
def test_the_chunks_of_a_stream_reach_handlers_as_they_are(call, cls):
    listener = Listener()

    call.stream(cls(), "ab", {"callbacks": [listener]})

    assert [chunk for name, chunk in listener.events if name == "token"] == [
        GenerationChunk(text="A", generation_info={"at": [0]}),
        GenerationChunk(text="B", generation_info={"at": [1]}),
    ]
    total = GenerationChunk(text="AB", generation_info={"at": [0, 1]})
    assert listener.last("end").generations == [[total]]


def test_empty_pieces_and_half_characters_are_yielded_as_they_came(call):
    pieces = ["", "a", "\ud83d", "\ude00", ""]

    class Pieces(Echo):
        def _stream(self, prompt: str, **kwargs: Any) -> Any:
            yield from (GenerationChunk(text=piece) for piece in pieces)

    assert call.stream(Pieces(), "x") == pieces


def test_a_stream_without_a_chunk_is_an_error(call):
    class Nothing(Echo):
        def _stream(self, prompt: str, **kwargs: Any) -> Any:
            yield from ()

    with pytest.raises(UsageError, match="no chunk at all"):
        call.stream(Nothing(), "x")


def test_a_stream_that_is_left_is_told_as_closed():
    listener = Listener()

    stream = Spelling().stream("abc", {"callbacks": [listener]})
    next(stream)
    stream.close()

    error, partial = listener.last("error")
    assert isinstance(error, StreamClosedError)
    assert partial.generations[0][0].text == "A"


def test_a_stream_is_not_cached(call):
    cache = InMemoryCache()
    model = Spelling(requests=[], cache=cache)

    call.stream(model, "a")
    call.stream(model, "a")
    call.invoke(model, "a")
    call.invoke(model, "a")
    call.stream(model, "a")

    assert len(model.requests) == 4


def test_the_key_of_a_cached_text_is_the_prompt_and_the_model(call):
    keys: list[tuple[str, str]] = []

    class Noting(InMemoryCache):
        def lookup(self, prompt: str, llm_string: str) -> Any:
            keys.append((prompt, llm_string))
            return super().lookup(prompt, llm_string)

    call.invoke(FakeListLLM(responses=["x"], cache=Noting()), "hi", stop=["."], seed=1)

    ((prompt, model),) = keys
    assert prompt == "hi"
    assert model == (
        '{"class":"foldline.language_models.fake.FakeListLLM","options":{"seed":1},'
        '"params":{"responses":["x"]},"stop":["."],"type":"fake-list"}'
    )


def test_a_network_error_of_an_author_is_a_model_error_and_tried_again(call):
    class Offline(Echo):
        def _note(self, prompt: str, kwargs: dict[str, Any]) -> None:
            self.requests.append(prompt)
            raise ConnectionError("no route")

    model = Offline(requests=[])

    with pytest.raises(ModelError, match="no route") as excinfo:
        call.invoke(model, "a")

    assert len(model.requests) == 3
    assert isinstance(excinfo.value.__cause__, ConnectionError)
