from __future__ import annotations

import pytest

from foldline.caches import InMemoryCache
from foldline.exceptions import ContextOverflowError, ModelError, ModelRateLimitError, UsageError
from foldline.language_models import ModelHooks
from foldline.messages import AIMessage, HumanMessage
from tests.language_models.scripted import KINDS, Speaking


class Log:
    def __init__(self):
        self.before, self.after, self.errors = 0, 0, []

    def hooks(self, **replaced):
        def before(request):
            self.before += 1
            return replaced.get("request") and replaced["request"](request)

        def after(request, message):
            self.after += 1
            return replaced.get("message")

        def on_error(request, error):
            self.errors.append(error)
            return replaced.get("error")

        return ModelHooks(before, after, on_error)


@pytest.mark.parametrize("kind", KINDS)
def test_each_hook_is_called_once_per_outcome(call, kind):
    good, bad = Log(), Log()
    fine = kind(answers=[ModelRateLimitError("slow"), "hi"], hooks=good.hooks())
    broken = kind(answers=[ModelRateLimitError("slow")], hooks=bad.hooks())

    call.invoke(fine, "x")
    with pytest.raises(ModelRateLimitError):
        call.invoke(broken, "x")

    assert (good.before, good.after, good.errors) == (1, 1, [])
    assert (bad.before, bad.after, len(bad.errors)) == (1, 0, 1)
    assert len(broken.requests) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_request_result_and_error_may_be_replaced(call, kind):
    def louder(request):
        return request.replace(messages=[HumanMessage(request.messages[0].text.upper())])

    log = Log()
    hooks = log.hooks(request=louder, message=AIMessage("other"), error=ModelError("mine"))
    model = kind(answers=["hi", ValueError("theirs")], hooks=hooks)

    assert call.invoke(model, "x").text == "other"
    assert model.requests[0].messages[0].text == "X"
    with pytest.raises(ModelError, match="mine") as excinfo:
        call.invoke(model, "x")
    assert isinstance(excinfo.value.__cause__, ValueError)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_may_be_turned_into_an_answer(call, kind):
    hooks = ModelHooks(on_error=lambda request, error: AIMessage("sorry"))
    model = kind(answers=[ModelError("broken")], hooks=hooks)

    assert call.invoke(model, "x").text == "sorry"
    assert "".join(chunk.text for chunk in call.stream(model, "x")) == "sorry"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_instead_of_an_error_has_an_id_as_every_answer(call, kind):
    sorry = AIMessage("sorry")
    model = kind(
        answers=[ModelError("broken")], hooks=ModelHooks(on_error=lambda request, error: sorry)
    )

    first, second = call.invoke(model, "x"), call.invoke(model, "x")
    assert first.id
    assert second.id
    assert first.id != second.id
    assert all(chunk.id for chunk in call.stream(model, "x"))
    assert call.stream_v2(model, "x")[0]["id"]
    assert sorry.id is None  # the program's own message is left as it is


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_instead_of_an_error_is_given_before_anything_was_sent_too(call, kind):
    hooks = ModelHooks(on_error=lambda request, error: AIMessage("too long"))
    model = kind(answers=["hi"], max_input_tokens=1, hooks=hooks)

    assert call.invoke(model, "long " * 50).text == "too long"
    assert "".join(chunk.text for chunk in call.stream(model, "long " * 50)) == "too long"
    assert model.requests == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_instead_of_an_error_is_not_kept_and_not_seen_by_after(call, kind):
    log = Log()
    hooks = log.hooks(error=AIMessage("sorry"))
    model = kind(answers=[ModelError("broken"), "hi"], hooks=hooks, cache=InMemoryCache())

    assert call.invoke(model, "x").text == "sorry"
    assert (log.after, len(log.errors)) == (0, 1)
    assert call.invoke(model, "x").text.strip() == "hi"
    assert (log.after, len(log.errors)) == (1, 1)


def test_an_error_before_anything_was_sent_is_seen_too(call):
    log = Log()
    model = Speaking(answers=["x"], max_input_tokens=1, hooks=log.hooks())

    with pytest.raises(ContextOverflowError):
        call.invoke(model, "long " * 50)

    assert len(log.errors) == 1


def test_a_streams_output_is_what_the_hook_gave(call):
    model = Speaking(
        answers=["hi"], hooks=ModelHooks(after=lambda request, message: AIMessage("other"))
    )

    stream = model.stream_v2("x")

    assert stream.output.text == "other"


def test_a_hook_of_the_call_goes_over_the_models(call):
    call_log, model_log = Log(), Log()
    model = Speaking(answers=["hi"], hooks=model_log.hooks())

    call.invoke(model, "x", hooks=call_log.hooks())

    assert (call_log.before, model_log.before) == (1, 0)
    assert model.requests[0].options == {}


def test_a_hook_that_gives_something_else_is_told(call):
    model = Speaking(answers=["hi"], hooks=ModelHooks(before=lambda request: "nonsense"))

    with pytest.raises(UsageError, match="ModelHooks"):
        call.invoke(model, "x")


def test_closing_a_stream_is_no_error_for_hooks():
    log = Log()
    model = Speaking(answers=["one two three"], hooks=log.hooks())

    stream = model.stream("x")
    next(stream)
    stream.close()

    assert log.errors == []
    assert model.closed == 1


def test_hooks_may_be_a_dict_and_what_is_no_hook_is_told(call):
    model = Speaking(answers=["hi"], hooks={"after": lambda request, message: AIMessage("other")})

    assert call.invoke(model, "x").text == "other"
    with pytest.raises(ValueError, match="before, after, on_error"):
        Speaking(answers=["hi"], hooks={"later": print})
    with pytest.raises(UsageError, match="before, after, on_error"):
        call.invoke(model, "x", hooks=print)
