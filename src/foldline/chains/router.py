"""Chains that choose another chain, by a rule or by asking a model."""

from __future__ import annotations

from abc import ABC
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import NamedTuple

from foldline._run import Run
from foldline.chains._legacy_calls import Values
from foldline.chains.base import Chain, GeneratorChain
from foldline.chains.llm import ConversationChain, LLMChain
from foldline.exceptions import OutputParserException, UsageError
from foldline.output_parsers import BaseOutputParser
from foldline.prompts import PromptTemplate
from foldline.utils.json import parse_and_check_json_markdown

__all__ = [
    "LLMRouterChain",
    "MultiPromptChain",
    "MultiRouteChain",
    "Route",
    "RouterChain",
    "RouterOutputParser",
]

ROUTER_PROMPT = (
    "Choose who should answer. Candidates:\n<CANDIDATES>\n\n"
    'Answer with JSON alone: {{"destination": "<name of a candidate, or DEFAULT>", '
    '"next_inputs": "<the input, improved where that helps>"}}\n\nInput: {input}\nJSON:'
)
"""A template whose candidates are inserted before it is parsed; braces in their text are escaped."""


class Route(NamedTuple):
    """The name of the chosen chain (None: the default) and its inputs."""

    destination: str | None
    next_inputs: Values


class RouterChain(GeneratorChain, ABC):
    """A chain whose output is a route."""

    @property
    def output_keys(self) -> list[str]:
        """The route."""
        return ["destination", "next_inputs"]


class RouterOutputParser(BaseOutputParser[Values]):
    """Reads a route from a model's JSON."""

    default_destination: str = "DEFAULT"
    next_inputs_inner_key: str = "input"

    def parse(self, text: str) -> Values:
        """Return the route; a destination of DEFAULT becomes None."""
        try:
            route = parse_and_check_json_markdown(text, ["destination", "next_inputs"])
        except ValueError as error:
            raise OutputParserException(
                f"no route in the model's answer: {error}", llm_output=text
            ) from error
        destination, inputs = route["destination"], route["next_inputs"]
        if not isinstance(destination, str):
            raise OutputParserException(
                f"'destination' must be text, not {destination!r}", llm_output=text
            )
        is_default = destination.strip().lower() == self.default_destination.lower()
        next_inputs = inputs if isinstance(inputs, dict) else {self.next_inputs_inner_key: inputs}
        return {
            "destination": None if is_default else destination.strip(),
            "next_inputs": next_inputs,
        }


class LLMRouterChain(RouterChain):
    """Asks a model for the route."""

    llm_chain: LLMChain

    @classmethod
    def from_llm(cls, llm: object, prompt: object, **kwargs: object) -> LLMRouterChain:
        """Make the chain for a model and a prompt that asks for a route."""
        chain = LLMChain(llm=llm, prompt=prompt, output_parser=RouterOutputParser())
        return cls(llm_chain=chain, **kwargs)

    @property
    def input_keys(self) -> list[str]:
        """The inputs of the prompt."""
        return self.llm_chain.input_keys

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        child = run.child().patched(kwargs={"return_only_outputs": True})
        answer = await self.llm_chain._step(inputs, child)
        yield answer[self.llm_chain.output_key]


class MultiRouteChain(GeneratorChain):
    """Asks a router, then runs the chain it names."""

    router_chain: RouterChain
    destination_chains: Mapping[str, Chain]
    default_chain: Chain
    silent_errors: bool = False
    """Run the default chain where the router names one that does not exist, instead of raising."""

    @property
    def input_keys(self) -> list[str]:
        """The inputs of the router."""
        return self.router_chain.input_keys

    @property
    def output_keys(self) -> list[str]:
        """Empty: the chosen chain checks its own outputs."""
        return []

    def _select_chain(self, destination: str | None) -> Chain:
        if destination is None:
            return self.default_chain
        chain = self.destination_chains.get(destination)
        if chain is None and not self.silent_errors:
            raise UsageError(
                f"the router chose {destination!r}, which is not one of {sorted(self.destination_chains)}: "
                "add it, or set silent_errors=True to use the default chain"
            )
        return chain or self.default_chain

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        call_options = {"return_only_outputs": True}
        route = await self.router_chain._step(inputs, run.child().patched(kwargs=call_options))
        chain = self._select_chain(route["destination"])
        child = run.child().patched(kwargs=call_options)
        if stream:
            async with aclosing(chain._step_stream(route["next_inputs"], child)) as pieces:
                async for piece in pieces:
                    yield piece
        else:
            yield await chain._step(route["next_inputs"], child)


class MultiPromptChain(MultiRouteChain):
    """Lets a model choose among prompts."""

    @classmethod
    def from_prompts(
        cls,
        llm: object,
        prompt_infos: list[dict[str, str]],
        default_chain: Chain | None = None,
        **kwargs: object,
    ) -> MultiPromptChain:
        """Make the chain from prompts with a `name`, a `description` and a `prompt_template` with `{input}`."""
        candidates = "\n".join(f"{info['name']}: {info['description']}" for info in prompt_infos)
        escaped = candidates.replace("{", "{{").replace("}", "}}")
        template = ROUTER_PROMPT.replace("<CANDIDATES>", escaped)
        router = LLMRouterChain.from_llm(llm, PromptTemplate.from_template(template))
        chains = {
            info["name"]: LLMChain(
                llm=llm, prompt=PromptTemplate.from_template(info["prompt_template"])
            )
            for info in prompt_infos
        }
        fallback_chain = default_chain or ConversationChain(llm=llm, output_key="text")
        return cls(
            router_chain=router, destination_chains=chains, default_chain=fallback_chain, **kwargs
        )
