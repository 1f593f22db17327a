"""`create_sql_query_chain`: from a question to an SQL statement."""

from __future__ import annotations

from typing import Any

from foldline.exceptions import UsageError
from foldline.messages.base import BaseMessage
from foldline.prompts import BasePromptTemplate, PromptTemplate
from foldline.runnables import RunnableLambda, RunnablePassthrough
from foldline.runnables.base import Runnable
from foldline.utils.sql_database import SQLDatabase

__all__ = ["create_sql_query_chain"]

SQL_PROMPT = PromptTemplate.from_template(
    "Write one {dialect} statement that reads what answers the question from the tables below, and nothing else. "
    "Unless the question says how many, read at most {top_k} rows; name the columns that are needed, and only such "
    "that there are; never change anything.\n\nTables:\n{table_info}\n\nQuestion: {input}"
)


def create_sql_query_chain(
    llm: Runnable[Any, Any],
    db: SQLDatabase,
    prompt: BasePromptTemplate[Any] | None = None,
    k: int = 5,
    *,
    get_col_comments: bool | None = None,
) -> Runnable[Any, str]:
    """Make a runnable from `{"question": …}` to the text of a statement, which is not executed.

    `table_names_to_use` in the input limits the tables that the prompt describes.
    """
    template = prompt or SQL_PROMPT
    variables = {*template.input_variables, *template.partial_variables}
    missing = {"input", "top_k", "table_info"} - variables
    if missing:
        raise UsageError(
            f"Prompt must have input variables: 'input', 'top_k', 'table_info'; it lacks {sorted(missing)}"
        )
    if "dialect" in template.input_variables:
        template = template.partial(dialect=db.dialect)
    inputs = RunnablePassthrough.assign(
        input=lambda values: values["question"] + "\nSQLQuery: ",
        table_info=lambda values: db.get_table_info(values.get("table_names_to_use")),
        top_k=lambda values: str(values.get("k", k)),
    )
    return inputs | template | llm.bind(stop=["\nSQLResult:"]) | RunnableLambda(_statement)


def _statement(answer: object) -> str:
    text = str(answer.text if isinstance(answer, BaseMessage) else answer)
    return text.strip()
