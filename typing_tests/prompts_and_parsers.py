"""Types of prompts, parsers and chains of them, as a type checker sees them."""

from typing import assert_type

from pydantic import BaseModel

from foldline.messages import AIMessage
from foldline.output_parsers import BaseOutputParser, PydanticOutputParser, StrOutputParser
from foldline.prompt_values import PromptValue
from foldline.prompts import ChatPromptTemplate, PromptTemplate
from foldline.runnables import Runnable


class Model(Runnable[PromptValue, AIMessage]):
    pass


class Joke(BaseModel):
    setup: str


class YesOrNo(BaseOutputParser[bool]):
    def parse(self, text: str) -> bool:
        return text == "yes"


def test_a_chain_of_prompt_model_and_parser_knows_its_ends() -> None:
    prompt = ChatPromptTemplate.from_messages([("human", "{q}")])
    assert_type((prompt | Model() | StrOutputParser()).invoke({}), str)
    assert_type((prompt | Model() | YesOrNo()).batch([{}]), list[bool])
    assert_type((prompt | Model()).invoke({"q": 1}), AIMessage)


def test_a_prompt_gives_a_prompt_value_and_text() -> None:
    assert_type(PromptTemplate.from_template("{a}").invoke({"a": 1}), PromptValue)
    assert_type(PromptTemplate.from_template("{a}").format(a=1), str)


def test_a_parser_knows_what_it_gives() -> None:
    parser = PydanticOutputParser(pydantic_object=Joke)
    assert_type(parser.parse("{}"), Joke)
    assert_type(StrOutputParser().parse("x"), str)
    assert_type(YesOrNo().invoke("yes"), bool)
