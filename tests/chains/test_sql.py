from __future__ import annotations

import pytest
import sqlalchemy

from foldline.chains import create_sql_query_chain
from foldline.exceptions import UsageError
from foldline.language_models import FakeListChatModel
from foldline.prompts import PromptTemplate
from foldline.utils.sql_database import SQLDatabase
from tests.language_models.scripted import Speaking


@pytest.fixture
def uri(tmp_path):
    address = f"sqlite:///{tmp_path / 'shop.db'}"
    engine = sqlalchemy.create_engine(address)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE film (id INTEGER PRIMARY KEY, title TEXT, year INTEGER)"
        )
        connection.exec_driver_sql("CREATE TABLE actor (name TEXT)")
        connection.exec_driver_sql("CREATE VIEW old AS SELECT * FROM film WHERE year < 1990")
        connection.exec_driver_sql(
            "INSERT INTO film VALUES (1, 'Robots; and more', 1984), (2, 'Love', 1997)"
        )
    engine.dispose()
    return address


@pytest.fixture
def database(uri):
    sql_database = SQLDatabase.from_uri(uri)
    yield sql_database
    sql_database._engine.dispose()


def test_tables_are_described_with_rows(database):
    text = database.get_table_info(["film"])

    assert database.dialect == "sqlite"
    assert list(database.get_usable_table_names()) == ["actor", "film"]
    assert "CREATE TABLE film" in text
    assert "3 rows from film table:\nid\ttitle\tyear\n1\tRobots; and more\t1984" in text
    assert database.get_context()["table_names"] == "actor, film"
    assert "Error: table_names {'x'}" in database.get_table_info_no_throw(["x"])


def test_statements_that_read_are_run(database):
    assert database.run("SELECT title FROM film WHERE year > 1990;") == "[('Love',)]"
    assert database.run("SELECT id, year FROM film", include_columns=True).startswith("[{'id': 1,")
    assert database.run("SELECT id FROM film ORDER BY id", fetch="one") == "[(1,)]"
    assert database.run("SELECT id FROM film WHERE id = :n", parameters={"n": 2}) == "[(2,)]"
    assert database.run("SELECT id FROM film WHERE id = 9") == ""
    assert database.run("SELECT id FROM film", fetch="cursor").fetchall() == [(1,), (2,)]
    assert "Error: " in database.run_no_throw("SELECT nothing FROM film")


@pytest.mark.parametrize(
    "command",
    [
        "DELETE FROM film",
        "INSERT INTO actor VALUES ('x')",
        "DROP TABLE film",
        "SELECT 1; DELETE FROM film",
        "ROLLBACK",
        "-- SELECT\nDELETE FROM film",
        "/* SELECT */ DELETE FROM film",
    ],
)
def test_statements_that_write_are_refused(database, command):
    with pytest.raises(UsageError, match="read-only"):
        database.run(command)


def test_the_database_itself_refuses_to_write(database):
    sneaky = "WITH gone AS (SELECT 1) DELETE FROM film"
    switch = "PRAGMA query_only = OFF"

    database.run(switch)
    with pytest.raises(sqlalchemy.exc.SQLAlchemyError):
        database.run(sneaky)
    with pytest.raises(sqlalchemy.exc.SQLAlchemyError):
        database.run(sqlalchemy.text("DELETE FROM film"))

    assert database.run("SELECT count(*) FROM film") == "[(2,)]"


def test_writing_is_allowed_where_told_so(uri):
    database = SQLDatabase.from_uri(uri, read_only=False)

    database.run("INSERT INTO actor VALUES ('Ann')")

    assert database.run("SELECT name FROM actor") == "[('Ann',)]"
    database._engine.dispose()


def test_tables_are_chosen(uri):
    film_database = SQLDatabase.from_uri(uri, include_tables=["film"], sample_rows_in_table_info=0)
    viewed = SQLDatabase.from_uri(uri, ignore_tables=["film"], view_support=True)

    assert film_database.table_info.count("CREATE TABLE") == 1
    assert list(viewed.get_usable_table_names()) == ["actor", "old"]
    with pytest.raises(ValueError, match=r"include_tables \{'x'\} not found"):
        SQLDatabase.from_uri(uri, include_tables=["x"])
    with pytest.raises(ValueError, match="Cannot specify both"):
        SQLDatabase.from_uri(uri, include_tables=["film"], ignore_tables=["actor"])
    for database in (film_database, viewed):
        database._engine.dispose()


def test_long_texts_are_cut(uri):
    database = SQLDatabase.from_uri(uri, max_string_length=10)

    assert database.run("SELECT title FROM film WHERE id = 1") == "[('Robots;...',)]"
    database._engine.dispose()


def test_a_question_becomes_a_statement(call, database):
    model = Speaking(answers=[" SELECT 1 \n"])
    chain = create_sql_query_chain(model, database, k=7)

    statement = call.invoke(chain, {"question": "how many?", "table_names_to_use": ["film"]})

    prompt = model.requests[0].messages[0].text
    assert statement == "SELECT 1"
    assert "sqlite statement" in prompt
    assert "at most 7 rows" in prompt
    assert "CREATE TABLE film" in prompt
    assert "CREATE TABLE actor" not in prompt
    assert model.requests[0].stop == ["\nSQLResult:"]


def test_a_prompt_that_lacks_a_variable_is_refused(database):
    with pytest.raises(UsageError, match=r"it lacks \['table_info', 'top_k'\]"):
        create_sql_query_chain(
            FakeListChatModel(responses=["x"]), database, PromptTemplate.from_template("{input}")
        )
