"""`LLMChain`: a prompt, a model, a parser. `ConversationChain`: the same with a memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Self

from pydantic import Field

from foldline._run import Run
from foldline.callbacks.base import Callbacks
from foldline.chains._legacy_calls import Values
from foldline.chains.base import GeneratorChain
from foldline.exceptions import UsageError
from foldline.memory import BaseMemory, ConversationBufferMemory
from foldline.memory._field_types import AnyParser, AnyPrompt
from foldline.output_parsers import StrOutputParser
from foldline.outputs import LLMResult
from foldline.prompts import PromptTemplate
from foldline.runnables.base import Runnable
from foldline.utils.input import get_colored_text

__all__ = [
    "ConversationChain",
    "LLMChain",
]

CONVERSATION_PROMPT = PromptTemplate.from_template(
    "This is a conversation between a person and an assistant that answers plainly and says so when it does not know."
    "\n\n{history}\nHuman: {input}\nAI:"
)


class LLMChain(GeneratorChain):
    """Formats a prompt, calls a model, parses the answer.

    ```python
    from foldline.chains import LLMChain
    from foldline.language_models import FakeListChatModel
    from foldline.prompts import PromptTemplate

    chain = LLMChain(prompt=PromptTemplate.from_template("Say {word}"), llm=FakeListChatModel(responses=["hi"]))
    print(chain.run("hi"))
    #> hi
    ```
    """

    prompt: AnyPrompt
    llm: Runnable[Any, Any]
    output_key: str = "text"
    """The name of the output."""
    output_parser: AnyParser = Field(default_factory=StrOutputParser)
    return_final_only: bool = True
    """Return the parsed answer only, or also the model's generation as `full_generation`."""
    llm_kwargs: Values = Field(default_factory=dict)
    """Options for every call of the model."""

    @property
    def input_keys(self) -> list[str]:
        """The variables of the prompt."""
        return self.prompt.input_variables

    @property
    def output_keys(self) -> list[str]:
        """The answer, and the generation unless `return_final_only`."""
        return [self.output_key] if self.return_final_only else [self.output_key, "full_generation"]

    @property
    def _chain_type(self) -> str:
        return "llm_chain"

    def _bound_model(self, inputs: Values) -> Runnable[Any, Any]:
        options = {**self.llm_kwargs, **({"stop": inputs["stop"]} if "stop" in inputs else {})}
        return self.llm.bind(**options) if options else self.llm

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        prompt = await self.prompt._invoke_body(
            {key: inputs[key] for key in self.prompt.input_variables}, run.child()
        )
        if run.manager is not None:
            colored_text = get_colored_text(prompt.to_string(), "green")
            await run.dispatch("on_text", f"Prompt after formatting:\n{colored_text}", end="\n")
        model = self._bound_model(inputs)
        if stream and self.return_final_only:
            chunks = (model | self.output_parser)._step_stream(prompt, run.child())
            async with aclosing(chunks):
                async for piece in chunks:
                    yield {self.output_key: piece}
            return
        answer = await model._step(prompt, run.child())
        outputs = {self.output_key: await self.output_parser._invoke_body(answer, run.child())}
        if not self.return_final_only:
            outputs["full_generation"] = answer
        yield outputs

    def predict(self, callbacks: Callbacks = None, **kwargs: object) -> object:
        """Run the chain with inputs by name; return the answer."""
        return self(kwargs, callbacks=callbacks)[self.output_key]

    async def apredict(self, callbacks: Callbacks = None, **kwargs: object) -> object:
        """Run the chain with inputs by name; return the answer."""
        return (await self.acall(kwargs, callbacks=callbacks))[self.output_key]

    def apply(self, input_list: list[Values], callbacks: Callbacks = None) -> list[Values]:
        """Run the chain on each input; return the outputs without the inputs."""
        return [
            self(inputs, return_only_outputs=True, callbacks=callbacks) for inputs in input_list
        ]

    async def aapply(self, input_list: list[Values], callbacks: Callbacks = None) -> list[Values]:
        """Run the chain on each input; return the outputs without the inputs."""
        return [
            await self.acall(inputs, return_only_outputs=True, callbacks=callbacks)
            for inputs in input_list
        ]

    def generate(self, input_list: list[Values]) -> LLMResult:
        """Call the model once for each input; return all generations."""
        prompts = [self.prompt.format_prompt(**inputs) for inputs in input_list]
        result: LLMResult = self.llm.generate_prompt(prompts)  # type: ignore[attr-defined]
        return result

    async def agenerate(self, input_list: list[Values]) -> LLMResult:
        """Call the model once for each input; return all generations."""
        prompts = [await self.prompt.aformat_prompt(**inputs) for inputs in input_list]
        result: LLMResult = await self.llm.agenerate_prompt(prompts)  # type: ignore[attr-defined]
        return result

    @classmethod
    def from_string(cls, llm: Runnable[Any, Any], template: str) -> Self:
        """Make a chain of a model and the text of a prompt."""
        return cls(llm=llm, prompt=PromptTemplate.from_template(template))


class ConversationChain(LLMChain):
    """A conversation: a prompt, a model and a memory of the earlier turns.

    ```python
    from foldline.chains import ConversationChain
    from foldline.language_models import FakeListChatModel

    chain = ConversationChain(llm=FakeListChatModel(responses=["hello", "you said hi"]))
    chain.run("hi")
    print(chain.run("what did I say?"))
    #> you said hi
    ```
    """

    memory: BaseMemory | None = Field(default_factory=ConversationBufferMemory)
    prompt: AnyPrompt = Field(default_factory=lambda: CONVERSATION_PROMPT)
    input_key: str = "input"
    output_key: str = "response"

    @property
    def input_keys(self) -> list[str]:
        """The user's message."""
        return [self.input_key]

    def model_post_init(self, context: object) -> None:
        """Check that prompt and memory fit each other."""
        memory_keys = set(self.memory.memory_variables) if self.memory else set()
        prompt_keys = set(self.prompt.input_variables)
        if prompt_keys != {*memory_keys, self.input_key}:
            raise UsageError(
                f"the prompt wants {sorted(prompt_keys)}, but the memory has {sorted(memory_keys)} and the input is "
                f"{self.input_key!r}: rename a variable of the prompt, memory_key or input_key"
            )
