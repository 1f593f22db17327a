"""The policies of a call are a list: which a given call has, in which order, and that a plain one has none."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from foldline._io.drive import drive
from foldline._run import Run
from foldline._streams.answer import chat_result
from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import ModelError, UsageError
from foldline.language_models import (
    Batch,
    CallContext,
    ChatRequest,
    CompleteAnswer,
    Decision,
    Failure,
    FakeListChatModel,
    GenericFakeChatModel,
    Limits,
    ModelHooks,
    Policy,
    RetryPolicy,
    usage_scope,
)
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.policies import stack
from foldline.language_models._call.policies.stack import POLICIES
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.protocol.fold import fold
from foldline.providers.openai import ChatOpenAI
from foldline.testing import ScriptedChatModel

TOOL = {"type": "function", "function": {"name": "files.read", "parameters": {"type": "object"}}}
PICTURE = HumanMessage([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}])


def no_secrets(message: Any) -> bool:
    return "secret" not in message.text


def policies_of(model: Any, value: Any = "Hi", **options: Any) -> list[str]:
    call = ChatCall(model, value, Run.blocking(None, options), stream=False)
    drive(call.prepare())
    return [type(policy).__name__ for policy in call.policies]


def fake(**settings: Any) -> FakeListChatModel:
    return FakeListChatModel(responses=["hello"], **settings)


@pytest.mark.parametrize(
    ("model", "value", "options", "expected"),
    [
        (fake(), "Hi", {}, []),
        (fake(), "Hi", {"temperature": 1}, []),
        (fake(), [PICTURE], {}, ["FilesPolicy"]),
        (fake(max_input_tokens=100), "Hi", {}, ["OptionsPolicy", "WindowPolicy"]),
        (
            fake(guards=[no_secrets]),
            "Hi",
            {},
            ["OptionsPolicy", "GuardsPolicy"],
        ),
        (ChatOpenAI(model="gpt-5-mini", api_key="k"), "Hi", {}, ["WindowPolicy"]),
        (
            ChatOpenAI(model="gpt-5-mini", api_key="k"),
            "Hi",
            {"tools": [TOOL], "reasoning_effort": "low"},
            ["ReasoningPolicy", "OptionsPolicy", "WindowPolicy", "ToolNamesPolicy"],
        ),
        (
            fake(hooks=ModelHooks(before=lambda request: None)),
            "Hi",
            {},
            ["HooksPolicy", "ReasoningPolicy", "OptionsPolicy", "FilesPolicy"],
        ),
    ],
)
def test_a_call_has_the_policies_it_needs(model, value, options, expected):
    assert policies_of(model, value, **options) == expected


def test_a_usage_scope_adds_its_policy():
    with usage_scope(Limits(model_calls=1)):
        assert policies_of(fake()) == ["UsagePolicy"]


def test_checks_are_screening_and_a_verdict():
    bound = fake().bind_tools([TOOL], validate="retry")
    assert policies_of(bound.bound, "Hi", **bound.kwargs)[-2:] == [
        "ChecksPolicy",
        "ToolCallScreening",
    ]


def test_the_list_is_in_the_order_in_which_policies_act():
    names = [policy.__name__ for policy in POLICIES]
    assert names == sorted(set(names), key=names.index)
    assert names.index("GuardsPolicy") < names.index(
        "ChecksPolicy"
    )  # events come out: checks first
    assert names.index("ChecksPolicy") < names.index("ToolNamesPolicy")


class Audit(Policy):
    """A policy of a program: it sees the caller's names, and the message as the caller gets it."""

    watches_events = True
    heard: ClassVar[list[str]] = []

    async def before(self, request: ChatRequest) -> ChatRequest:
        self.heard.append(f"before {request.options['tools'][0]['function']['name']}")
        return request

    async def on_events(self, batch: Batch) -> Batch:
        self.heard.append("events")
        return batch

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        self.heard.append(f"after {message.text}")
        return message


def test_a_program_adds_its_own_policy(call):
    Audit.heard.clear()

    answer = call.invoke(fake(), "Hi", tools=[TOOL], policies=[Audit])

    assert answer.text == "hello"
    assert Audit.heard == ["before files.read", "events", "after hello"]


class Patient(Policy):
    """Retries what nothing else would retry."""

    def judge(self, failure: Failure) -> Decision | None:
        return Decision(repeats=failure.attempts < 3)


def test_a_policy_of_a_program_decides_about_a_failure(call):
    asked = []

    class Failing(FakeListChatModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            asked.append(1)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        call.invoke(Failing(responses=[""]), "Hi", policies=[Patient])

    assert len(asked) == 3


class Numbered(Policy):
    """Notes what is called, with the number of its subclass."""

    watches_events = True
    number: ClassVar[int]
    calls: ClassVar[list[str]] = []

    def note(self, what: str) -> None:
        self.calls.append(f"{what} {self.number}")

    async def before(self, request: ChatRequest) -> ChatRequest:
        self.note("before")
        return request

    async def on_events(self, batch: Batch) -> Batch:
        self.note("on_events")
        return batch

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        self.note("after")
        return message

    async def on_error(self, request: ChatRequest, error: Exception) -> Exception | AIMessage:
        self.note("on_error")
        return error

    async def approve(self, answer: CompleteAnswer) -> CompleteAnswer | None:
        self.note("approve")
        return answer

    def judge(self, failure: Failure) -> Decision | None:
        self.note("judge")
        return None


class First(Numbered):
    number = 1


class Second(Numbered):
    number = 2


@pytest.fixture
def calls():
    Numbered.calls.clear()
    return Numbered.calls


def test_a_request_goes_in_through_the_policies_and_an_answer_comes_out(call, calls):
    call.invoke(fake(), "Hi", policies=[First, Second])

    assert calls == ["before 1", "before 2", "on_events 2", "on_events 1", "after 2", "after 1"]


def test_an_error_comes_out_and_the_outermost_policy_judges_first(call, calls):
    with pytest.raises(ModelError):
        call.invoke(ScriptedChatModel(script=[ModelError("no")]), "Hi", policies=[First, Second])

    assert calls == ["before 1", "before 2", "judge 1", "judge 2", "on_error 2", "on_error 1"]


def test_an_answer_of_the_cache_comes_out_through_every_policy(call, calls):
    model = fake(cache=InMemoryCache())
    call.invoke(model, "Hi")

    assert call.invoke(model, "Hi", policies=[First, Second]).text == "hello"

    assert calls == [
        "before 1", "before 2", "approve 2", "approve 1", "after 2", "after 1",
    ]  # fmt: skip


def test_a_policy_that_is_added_to_the_list_is_used(call, calls, monkeypatch):
    class Thirteenth(Numbered):
        number = 13
        applies_to = "all"

    kinds = [*POLICIES, Thirteenth]
    monkeypatch.setattr(stack, "POLICIES", tuple(kinds))
    monkeypatch.setattr(stack, "MANAGED", tuple(k for k in kinds if k.applies_to != "settings"))
    monkeypatch.setattr(stack, "PLAIN", tuple(k for k in kinds if k.applies_to == "all"))

    call.invoke(fake(), "Hi")
    call.invoke(fake(), "Hi", max_tokens=3)
    call.invoke(fake(guards=[no_secrets]), "Hi")

    assert calls.count("before 13") == calls.count("after 13") == 3


class Tape(Policy):
    """Answers in place of the model."""

    async def answer(self, request: ChatRequest) -> CompleteAnswer | None:
        if request.messages[-1].text != "recorded?":
            return None
        return CompleteAnswer(chat_result(AIMessage("from the tape", id="t1")))


def test_a_policy_answers_in_place_of_the_model_and_the_policies_outside_see_it(call, calls):
    model = ScriptedChatModel(script=["from the model"], cache=InMemoryCache())

    assert call.invoke(model, "recorded?", policies=[First, Tape, Second]).text == "from the tape"
    assert model.requests == []
    assert calls == ["before 1", "before 2", "approve 1", "after 2", "after 1"]
    assert call.invoke(model, "recorded?").text == "from the model", "a tape must not be cached"


def test_an_answer_of_a_policy_is_streamed(call):
    model = ScriptedChatModel(script=[])

    chunks = list(call.stream(model, "recorded?", policies=[Tape]))
    events = call.stream_v2(model, "recorded?", policies=[Tape])

    assert "".join(chunk.text for chunk in chunks) == "from the tape"
    assert fold(events).blocks == [{"type": "text", "text": "from the tape"}]
    assert model.requests == []


def test_a_policy_without_an_answer_lets_the_model_answer(call):
    model = ScriptedChatModel(script=["from the model"])

    assert call.invoke(model, "new?", policies=[Tape]).text == "from the model"


def test_an_error_of_judge_is_raised_with_the_error_that_it_judged(call):
    class Broken(Policy):
        def judge(self, failure: Failure) -> Decision | None:
            raise RuntimeError("a mistake in judge")

    with pytest.raises(RuntimeError, match="a mistake in judge") as caught:
        call.invoke(ScriptedChatModel(script=[ModelError("no")]), "Hi", policies=[Broken])

    assert isinstance(caught.value.__cause__, ModelError)


def test_every_reservation_is_settled_also_if_one_of_them_fails(call):
    settled: list[str] = []

    class Reserving(Policy):
        name = "first"

        def __init__(self, context: CallContext) -> None:
            self.is_settled = True
            self.has_deadline = False

        @property
        def reservation(self) -> Any:
            return self

        async def reserve(self, request: ChatRequest) -> None:
            self.is_settled = False

        def settle(self, usage: Any) -> None:
            self.is_settled = True
            settled.append(self.name)
            if self.name == "first":
                raise RuntimeError("the ledger is closed")

        async def flush(self) -> None:
            pass

    class Other(Reserving):
        name = "other"

    with pytest.raises(RuntimeError, match="the ledger is closed"):
        call.invoke(ScriptedChatModel(script=[ModelError("no")]), "Hi", policies=[Reserving, Other])

    assert settled == ["first", "other"]


@pytest.mark.parametrize("policies", [["audit"], First, [First(None)]])  # type: ignore[arg-type]
def test_policies_that_are_none_are_refused(call, policies):
    with pytest.raises(UsageError, match="policies is a list of subclasses of Policy"):
        call.invoke(fake(), "Hi", policies=policies)


USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize("way", ["invoke", "stream", "stream_v2"])
def test_an_error_after_the_answer_carries_the_answer_and_its_usage(call, way):
    class Late(Policy):
        async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
            raise ModelError("too late")

    class Errors(BaseCallbackHandler):
        run_inline = True

        def on_llm_error(self, error: BaseException, *, response: Any, **kwargs: Any) -> None:
            reported.append(response.generations[0][0].message)

    reported: list[Any] = []
    model = GenericFakeChatModel(messages=iter([AIMessage("hello", usage_metadata=USAGE)]))

    with pytest.raises(ModelError, match="too late") as caught:
        getattr(call, way)(model, "Hi", {"callbacks": [Errors()]}, policies=[Late])

    for message in (caught.value.partial, *reported):
        assert message.text == "hello"
        assert message.usage_metadata == USAGE
    assert len(reported) == 1


def test_the_answer_of_a_rejected_attempt_is_not_that_of_the_next(call):
    class Choosy(Policy):
        """Rejects further answers, which it sees after the first was taken."""

        watches_events = True
        sees_further_answers = True

        async def on_events(self, batch: Batch) -> Batch:
            if isinstance(batch, CompleteAnswer) and batch.message.text == "second":
                raise ModelError("no", is_retryable=True)
            return batch

    class Two(FakeListChatModel):
        asked: ClassVar[list[int]] = []

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            self.asked.append(1)
            if len(self.asked) > 1:
                raise ModelError("down")
            return ChatResult(generations=[ChatGeneration(message=AIMessage("first"))])

    Two.asked.clear()

    class Others(Policy):
        async def before(self, request: ChatRequest) -> ChatRequest:
            request.others.append(AIMessage("second"))
            return request

    model = Two(responses=[""], retry_on_error=RetryPolicy(1, initial=0.0))
    with pytest.raises(ModelError, match="down") as caught:
        call.invoke(model, "Hi", policies=[Others, Choosy])

    assert caught.value.partial.text == ""


def test_policies_are_bound_and_a_call_overrides_them(call, calls):
    bound = fake().bind(policies=[First])

    call.invoke(bound, "Hi")
    call.invoke(bound, "Hi", policies=[Second])

    assert [each for each in calls if each.startswith("before")] == ["before 1", "before 2"]


@pytest.mark.parametrize("is_late", [True, False], ids=["too late", "in time"])
def test_a_retry_near_a_deadline_waits_only_if_there_is_time(call, is_late):
    model = ScriptedChatModel(
        script=[ModelError("busy", is_retryable=True), "in time"],
        retry_on_error=RetryPolicy(
            1, initial=60.0 if is_late else 0.001, jitter=False, max_delay=60
        ),
    )
    with usage_scope(Limits(timeout=20)):
        if is_late:
            with pytest.raises(ModelError, match="busy"):
                call.invoke(model, "Hi")
        else:
            assert call.invoke(model, "Hi").text == "in time"
    assert len(model.requests) == (1 if is_late else 2)
