"""Several prompts at once: each is a call, and those without an answer share requests, reservations and retries."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import ModelRateLimitError, OutputRejectedError
from foldline.language_models import (
    LLM,
    BaseLLM,
    Limits,
    ModelHooks,
    Policy,
    RetryPolicy,
    usage_scope,
)
from foldline.messages import AIMessage
from foldline.outputs import Generation, LLMResult

FAST = RetryPolicy(max_retries=2, initial=0.0, jitter=False)
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


class Listener(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.outputs: list[Any] = []
        self.errors: list[BaseException] = []
        self._prompts: dict[Any, str] = {}

    def on_llm_start(
        self, serialized: Any, prompts: list[str], *, run_id: Any, **kwargs: Any
    ) -> None:
        self._prompts[run_id] = prompts[0]
        self.events.append(("start", prompts[0]))
        assert kwargs["batch_size"] > 1

    def on_retry(self, retry_state: Any, *, run_id: Any, **kwargs: Any) -> None:
        self.events.append(("retry", self._prompts[run_id]))

    def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
        self.events.append(("end", self._prompts[run_id]))
        self.outputs.append(response.llm_output)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        self.events.append(("error", self._prompts[run_id]))
        self.errors.append(error)


class Many(BaseLLM):
    """Answers many prompts in one request; fails as often as it is told."""

    failures: int = 0
    requests: Any = None
    retry_on_error: Any = FAST

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"kind": "many"}

    def _generate(
        self, prompts: list[str], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        if self.requests is not None:
            self.requests.append((prompts, kwargs))
        if self.failures:
            self.failures -= 1
            raise ModelRateLimitError("slow down", retry_after=0.0)
        return LLMResult(
            generations=[[Generation(text=prompt.upper())] for prompt in prompts],
            llm_output={"token_usage": USAGE},
        )


class Single(LLM):
    """Answers one prompt at a time; fails at one of them."""

    fails_at: str = ""
    requests: Any = None
    retry_on_error: Any = FAST

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        self.requests.append(prompt)
        if prompt == self.fails_at:
            raise ModelRateLimitError("slow down", retry_after=0.0)
        return prompt.upper()


def texts(result: LLMResult) -> list[str]:
    return [answers[0].text for answers in result.generations]


def prompts_of(model: Any) -> list[list[str]]:
    return [prompts for prompts, _ in model.requests]


def test_all_calls_start_before_the_request_and_end_after_it(call):
    listener = Listener()

    assert texts(call.generate(Many(), ["a", "b"], callbacks=[listener])) == ["A", "B"]

    assert listener.events == [("start", "a"), ("start", "b"), ("end", "a"), ("end", "b")]
    assert listener.outputs == [{"token_usage": USAGE}, {"token_usage": {}}]


def test_calls_of_single_requests_go_in_step_too(call):
    listener = Listener()
    model = Single(requests=[])

    assert texts(call.generate(model, ["a", "b"], callbacks=[listener])) == ["A", "B"]

    assert listener.events == [("start", "a"), ("start", "b"), ("end", "a"), ("end", "b")]
    assert model.requests == ["a", "b"]


def test_a_request_for_many_prompts_is_tried_again_as_one(call):
    model, listener = Many(failures=2, requests=[]), Listener()

    with usage_scope() as usage:
        result = call.generate(model, ["a", "b", "c"], callbacks=[listener])

    assert texts(result) == ["A", "B", "C"]
    assert prompts_of(model) == [["a", "b", "c"]] * 3
    assert usage.model_calls == 3
    assert (usage.input_tokens, usage.output_tokens) == (7, 5)
    assert [event for event in listener.events if event[0] == "retry"] == [("retry", "a")] * 2


def test_every_call_ends_with_the_error_of_their_request(call):
    model, listener = Many(failures=9, requests=[]), Listener()

    with pytest.raises(ModelRateLimitError) as excinfo:
        call.generate(model, ["a", "b"], callbacks=[listener])

    assert excinfo.value.attempts == 3
    assert [event for event in listener.events if event[0] == "error"] == [
        ("error", "a"),
        ("error", "b"),
    ]
    assert listener.errors == [excinfo.value] * 2


def test_an_error_of_one_prompt_ends_the_others_that_have_started(call):
    model, listener = Single(requests=[], fails_at="b"), Listener()

    with pytest.raises(ModelRateLimitError):
        call.generate(model, ["a", "b", "c"], callbacks=[listener])

    assert model.requests == ["a", "b", "b", "b"]
    assert sorted(event for event in listener.events if event[0] == "error") == [
        ("error", "a"),
        ("error", "b"),
        ("error", "c"),
    ]


def test_the_cache_answers_some_and_one_request_the_others(call):
    model = Many(requests=[], cache=InMemoryCache())
    call.generate(model, ["b", "d"])
    listener = Listener()

    result = call.generate(model, ["a", "b", "c", "d"], callbacks=[listener])

    assert texts(result) == ["A", "B", "C", "D"]
    assert prompts_of(model) == [["b", "d"], ["a", "c"]]
    assert listener.outputs == [{"token_usage": USAGE}, {}, {"token_usage": {}}, {}]
    assert result.llm_output == {"token_usage": USAGE}
    assert call.generate(model, ["a", "b"]).llm_output == {}


def test_prompts_whose_options_a_hook_changed_are_sent_apart(call):
    def before(request: Any) -> Any:
        is_long = len(request.messages[0].text) > 1
        return request.replace(options={"seed": 1}) if is_long else None

    model = Many(requests=[], hooks=ModelHooks(before=before))

    assert texts(call.generate(model, ["a", "b", "long", "c"])) == ["A", "B", "LONG", "C"]
    assert model.requests == [(["a", "b"], {}), (["long"], {"seed": 1}), (["c"], {})]


def test_hooks_are_called_for_every_prompt(call):
    hooks = ModelHooks(
        after=lambda request, message: AIMessage(f"{request.messages[0].text}={message.text}")
    )

    assert call.batch(Many(hooks=hooks), ["a", "b"]) == ["a=A", "b=B"]


def test_a_hook_may_answer_every_prompt_in_place_of_the_error(call):
    model = Many(failures=9, requests=[])
    model.hooks = ModelHooks(
        on_error=lambda request, error: AIMessage(f"no {request.messages[0].text}")
    )

    assert call.batch(model, ["a", "b", "c"]) == ["no a", "no b", "no c"]
    assert len(model.requests) == 3


def test_a_hook_that_answers_one_prompt_leaves_the_error_of_the_others(call):
    def on_error(request: Any, error: Exception) -> Any:
        return AIMessage("no") if request.messages[0].text == "a" else None

    model, listener = Many(failures=9, hooks=ModelHooks(on_error=on_error)), Listener()

    with pytest.raises(ModelRateLimitError):
        call.generate(model, ["a", "b"], callbacks=[listener])

    assert len(listener.errors) == 2


def test_a_guard_is_run_for_every_answer(call):
    model = Many(guards=[lambda message: message.text != "B"])

    assert call.batch(model, ["a", "c"]) == ["A", "C"]
    with pytest.raises(OutputRejectedError) as excinfo:
        call.batch(model, ["a", "b"])
    assert excinfo.value.partial.text == "B"


class Picky(Policy):
    """Rejects the first answer to a prompt."""

    watches_events = True
    rejected: str

    async def on_events(self, batch: Any) -> Any:
        if batch.message.text == self.rejected.upper() and not self.done:
            self.done.append(True)
            raise ModelRateLimitError("once more", retry_after=0.0)
        return batch


@pytest.mark.parametrize("rejected", ["a", "b"])
def test_a_rejected_answer_is_asked_for_again_alone_and_counted(call, rejected):
    model = Many(requests=[])
    policy = type("Picky", (Picky,), {"rejected": rejected, "done": []})

    with usage_scope(Limits(model_calls=2)) as usage:
        assert call.batch(model, ["a", "b", "c"], policies=[policy]) == ["A", "B", "C"]

    assert prompts_of(model) == [["a", "b", "c"], [rejected]]
    assert usage.model_calls == 2
    assert not usage.under_way


def test_a_scope_that_has_no_room_refuses_all_before_anything_is_sent(call):
    model = Many(requests=[])

    with usage_scope(Limits(model_calls=0)), pytest.raises(Exception, match="model_calls"):
        call.batch(model, ["a", "b"])

    assert model.requests == []


def test_an_interrupted_batch_leaves_no_share_reserved(call):
    class Interrupted(Many):
        def _generate(self, prompts: list[str], **kwargs: Any) -> LLMResult:
            raise KeyboardInterrupt

    listener = Listener()
    with usage_scope(Limits(total_tokens=1_000)) as usage, pytest.raises(KeyboardInterrupt):
        call.generate(Interrupted(), ["a", "b"], callbacks=[listener])

    assert not usage.under_way
    assert len(listener.errors) == 2
