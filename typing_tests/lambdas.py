# pyright: standard
"""What a type checker knows of a lambda that nothing else tells what it is given. Never run.

Not strict in pyright: what such a lambda returns is unknown to it, if it depends on its argument.
"""

from operator import itemgetter
from typing import assert_type

from foldline.messages import AIMessage
from foldline.prompts import ChatPromptTemplate
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import Runnable, RunnableBranch, RunnableLambda, RunnablePassthrough

MODEL = ChatOpenAI(model="gpt-5", api_key="k")
PROMPT = ChatPromptTemplate.from_messages([("human", "{question}")])


def test_a_lambda_of_unknown_input() -> None:
    increase = RunnableLambda(lambda x: x + 1)
    print(increase.invoke(1) + 1, (increase | increase).batch([1, 2]))
    assert_type(RunnableLambda(lambda x: len(x["question"])).invoke({}), int)
    assert_type(RunnableLambda(lambda _: "x").invoke(3), str)
    assert_type(RunnableLambda(lambda x: str(x)).bind(a=1).invoke(3), str)
    lengths: Runnable[str, int] = RunnableLambda(lambda text: len(text))
    print(lengths.invoke("x"))


def test_a_lambda_at_the_end_of_a_chain() -> None:
    contents = PROMPT | MODEL | RunnableLambda(lambda message: message.content)
    print(contents.invoke({}))
    calls = PROMPT | MODEL | (lambda message: message.tool_calls)
    print(calls.invoke({})[0]["name"])
    print((PROMPT | MODEL | RunnableLambda(lambda message: message.text.upper())).invoke({}))


def test_lambdas_in_dicts() -> None:
    print((RunnablePassthrough.assign(n=lambda d: len(d["q"])) | PROMPT).invoke({"q": "x"}))
    print(({"question": lambda x: x["q"], "b": itemgetter("b")} | PROMPT).invoke({"q": "x"}))


def test_functions_keep_their_types() -> None:
    def length(text: str, times: int = 1) -> int:
        return len(text) * times

    async def alength(text: str) -> int:
        return len(text)

    def choose(text: str) -> Runnable[str, int]:
        return RunnableLambda(length) if text else RunnableLambda(alength)

    assert_type(RunnableLambda(length), RunnableLambda[str, int])
    assert_type(RunnableLambda(alength), RunnableLambda[str, int])
    assert_type(RunnableLambda(length, alength), RunnableLambda[str, int])
    assert_type(RunnableLambda(choose).invoke("x"), int)
    assert_type(RunnableLambda(str).invoke(3), str)
    print(RunnableLambda(itemgetter("a")).invoke({"a": 1}))


def test_a_branch() -> None:
    def number(x: int) -> str:
        return str(x)

    async def anumber(x: int) -> str:
        return str(x)

    branch = RunnableBranch((lambda x: x == "a", PROMPT | MODEL), MODEL)
    assert_type(branch.invoke({}), AIMessage)
    other = RunnableBranch[str, str]((lambda x: x == "a", lambda x: x), lambda x: x)
    assert_type(other.invoke("x"), str)
    assert_type(RunnableBranch((lambda x: x > 1, number), number).invoke(3), str)
    assert_type(RunnableBranch((lambda x: x > 1, anumber), number).invoke(3), str)
    print(RunnableBranch((lambda x: x > 1, lambda x: x + 1), lambda x: x).invoke(3))
    print(RunnableBranch((lambda x: x["a"], {"a": itemgetter("a")}), itemgetter("b")).invoke({}))
