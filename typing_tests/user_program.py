"""A program as users of LangChain write it: no checker may find fault with it. Never run."""

import asyncio

from pydantic import BaseModel, Field

from foldline.agents import create_agent
from foldline.callbacks import BaseCallbackHandler
from foldline.chat_models import init_chat_model
from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.language_models import BaseChatModel
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate, MessagesPlaceholder
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from foldline.tools import tool
from foldline.vectorstores import InMemoryVectorStore


class Person(BaseModel):
    """A person."""

    name: str = Field(description="The name.")
    age: int | None = None


@tool
def search(query: str, limit: int = 3) -> list[str]:
    """Search the web."""
    return [query] * limit


class Printer(BaseCallbackHandler):
    def on_llm_new_token(self, token: str, **kwargs: object) -> None:
        print(token, end="")


def join(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


model = ChatOpenAI(model="gpt-5-mini", temperature=0, api_key="sk-...", callbacks=[Printer()])
other: BaseChatModel = init_chat_model("anthropic:claude-sonnet-4-5")
answer: AIMessage = model.invoke([SystemMessage("Be short."), HumanMessage("Hi")])
print(answer.content, answer.tool_calls, answer.usage_metadata)

total: AIMessageChunk | None = None
for chunk in model.stream("Tell me a story"):
    total = chunk if total is None else total + chunk

person: Person = model.with_structured_output(Person).invoke("Ann is 5")
print(person.name.upper())

store = InMemoryVectorStore.from_texts(["a", "b"], DeterministicFakeEmbedding(size=8))
retriever = store.as_retriever(search_kwargs={"k": 1})
prompt = ChatPromptTemplate.from_messages(
    [("system", "Use: {context}"), MessagesPlaceholder("history"), ("human", "{question}")]
)
chain = (
    RunnableParallel(
        context=retriever | RunnableLambda(join),
        question=RunnablePassthrough(),
        history=RunnableLambda(lambda _: [HumanMessage("before")]),
    )
    | prompt
    | model.with_fallbacks([other])
    | StrOutputParser()
)
text: str = chain.invoke("What is a?")
texts: list[str] = chain.batch(["a", "b"], config={"max_concurrency": 2})

agent = create_agent(model.bind(stop=["END"]), tools=[search])
state = agent.invoke({"messages": [{"role": "user", "content": "Find it"}]})
print(state["messages"][-1])


async def main() -> None:
    message = await model.bind_tools([search]).ainvoke("Search for cats")
    print(message.tool_calls)
    async for piece in chain.astream("What is b?"):
        print(piece.upper())
    async for event in chain.astream_events("c", version="v2"):
        print(event["event"])


asyncio.run(main())
