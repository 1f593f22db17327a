"""Several prompts at once: each is a call of its own, and those that no cache answers share requests.

The calls go in step: all are prepared, then the model is asked, then all are concluded. The first call of a request
asks for all of its prompts, under its own reservation and retries; the others take their answers from it, and let them
pass their own policies. A call whose policies reject its answer, and ask again, asks for its own prompt alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, cast

from foldline._io import IO
from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer
from foldline._streams.state import MESSAGE
from foldline.language_models._call.author import Author
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.text._text_author import COMPLETE, TextAuthor, prompt_of
from foldline.language_models.text._text_call import TextCall

if TYPE_CHECKING:  # it makes these
    from foldline.language_models.text.base_llm import BaseLLM

__all__ = ["answer_prompts"]


async def answer_prompts(
    model: BaseLLM, prompts: Sequence[str], runs: Sequence[Run], io: IO
) -> list[TextCall]:
    """Answer prompts; return their calls, all concluded, or raise the first error, which all the others end with."""
    if len(prompts) == 1:
        call = TextCall(model, prompts[0], runs[0], stream=False)
        await call.answer_once()
        return [call]
    pairs = zip(prompts, runs, strict=True)
    calls = [GroupedCall(model, prompt, run, len(prompts)) for prompt, run in pairs]
    try:
        for call in calls:
            await call.begin()
        await _ask(calls, model, io)
        for call in calls:
            await call.conclude()
    except BaseException as error:
        attempts = max(call.attempts for call in calls)
        for call in calls:
            call.attempts = attempts  # for the error, which they share
            await call.abandon(error)
        raise
    return list(calls)


async def _ask(calls: Sequence[GroupedCall], model: BaseLLM, io: IO) -> None:
    """Let every call find its answer: in few requests, as many at once as the model allows."""
    requests = _requests([call for call in calls if call.answer is None], model._request_size())
    requests += [[call] for call in calls if call.answer is not None]
    limit = model._request_concurrency()
    if limit == 1 or len(requests) == 1:
        for request in requests:
            await _send(request)
        return
    outcomes = io.as_completed(_send, requests, limit=limit)
    async with aclosing(outcomes):
        async for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error


def _requests(calls: Sequence[GroupedCall], size: int | None) -> list[list[GroupedCall]]:
    """Divide calls into requests; policies may have given prompts different options, which cannot share one."""
    requests: list[list[GroupedCall]] = []
    for call in calls:
        last = requests[-1] if requests else []
        if last and (size is None or len(last) < size) and last[0].may_share(call):
            last.append(call)
        else:
            requests.append([call])
    return requests


async def _send(calls: Sequence[GroupedCall]) -> None:
    first, *others = calls
    if not others:
        await first.ask()
        return
    shared = SharedRequest(first, calls)
    first.author = shared
    await first.ask()
    for call, answer in zip_longest(others, shared.others):
        # Without an answer there was an error, in whose place a hook of the first call has put an answer.
        await call.take(answer or cast("Exception", first.failure))


class GroupedCall(TextCall):
    """One of several prompts: it pauses when it is prepared, and is concluded when all have their answers."""

    request: ChatRequest
    failure: Exception | None = None
    """The error that ended its attempts."""
    _looks_up = True  # so that `_source` is always called

    def __init__(self, model: CallModel, prompt: str, run: Run, batch_size: int) -> None:
        super().__init__(model, prompt, run, stream=False)
        self.batch_size = batch_size
        self._life_steps = self.batches(MESSAGE)
        self._answer_source: AsyncGenerator[Batch, None] | None = None
        self._received: list[Batch] = []

    async def _source(self, request: ChatRequest) -> AsyncGenerator[Batch, None]:
        # Pieces of several prompts would be mixed: they are not streamed.
        self.request = request.replace(stream=False) if request.stream else request
        self._answer_source = await super()._source(self.request)
        return self._pause()

    async def _pause(self) -> AsyncGenerator[Batch, None]:
        yield ()
        for batch in self._received:
            yield batch

    async def rescue(self, request: ChatRequest, error: Exception) -> CompleteAnswer | Exception:
        """Let the policies see the error that ends the call; keep it."""
        self.failure = error
        return await super().rescue(request, error)

    def may_share(self, other: GroupedCall) -> bool:
        """Return whether another prompt can be sent in the same request."""
        request, other_request = self.request, other.request
        return request.stop == other_request.stop and request.options == other_request.options

    # -- the steps

    async def begin(self) -> None:
        """Prepare the call; look into the cache."""
        await anext(self._life_steps)

    async def ask(self) -> None:
        """Receive the answer, and keep it."""
        source = cast("AsyncGenerator[Batch, None]", self._answer_source)
        async with aclosing(source):
            async for batch in source:
                self._received.append(batch)

    async def take(self, outcome: CompleteAnswer | Exception) -> None:
        """Take the answer of a request that another call has sent; for its error a hook may have an answer."""
        if isinstance(outcome, Exception):
            outcome = await self.rescue(self.request, outcome)
            if isinstance(outcome, Exception):
                raise outcome
            self.event_policies = ()
        self.author = SharedAnswer(self, outcome)
        self.reservations = ()
        await self.ask()

    async def conclude(self) -> None:
        """Report the end."""
        async for _ in self._life_steps:
            pass
        del self.request  # which knows its call: a cycle would be left for the collector

    async def abandon(self, error: BaseException) -> None:
        """End with the error of another call, unless this call is over."""
        with suppress(BaseException):  # the caller raises it
            await self._life_steps.athrow(error)


class SharedRequest(Author):
    """Answers the first call of a request, and keeps the answers of the others; once."""

    __slots__ = ("_author", "_call", "_calls", "others")

    def __init__(self, call: GroupedCall, calls: Sequence[GroupedCall]) -> None:
        super().__init__(COMPLETE)
        self._call = call
        self._calls = calls
        self._author = cast("TextAuthor", call.author)
        self.others: list[CompleteAnswer] = []

    def input_tokens(self, model: CallModel, request: ChatRequest) -> int:
        """Return the tokens of all prompts."""
        return sum(self._author.input_tokens(model, call.request) for call in self._calls)

    def output_limit(self, model: CallModel, request: ChatRequest) -> int | None:
        """Return the tokens that all answers have at most."""
        limit = self._author.output_limit(model, request)
        return None if limit is None else limit * len(self._calls)

    async def generate(self, model: CallModel, request: ChatRequest, run: Run) -> CompleteAnswer:
        """Send the prompts of all calls."""
        prompts = [prompt_of(call.request) for call in self._calls]
        answer, *self.others = await self._author.answer_prompts(model, prompts, request, run)
        self._call.author = self._author
        return answer


class SharedAnswer(Author):
    """Answers with what another call has received; once."""

    __slots__ = ("_answer", "_author", "_call", "_reservations")

    def __init__(self, call: GroupedCall, answer: CompleteAnswer) -> None:
        super().__init__(COMPLETE)
        self._call = call
        self._answer = answer
        self._author, self._reservations = call.author, call.reservations

    async def generate(self, *_: Any) -> CompleteAnswer:
        """Return the answer; another attempt asks the model."""
        self._call.author, self._call.reservations = self._author, self._reservations
        return self._answer
