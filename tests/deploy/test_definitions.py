"""Files of table definitions, and the definitions that a job needs."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.deploy.definitions import (
    Definitions,
    NeededDefinitions,
    find_created_name,
    load_definitions,
)
from headrace.deploy.manifest import JobManifest
from headrace.deploy.problems import MAX_EXPANDED, SourceText
from headrace.deploy.query_places import find_query_place
from headrace.grammar.text import position_at

FILE = """
-- inputs
CREATE STREAM `kafka`.`some-topic` (a INT) FROM kafka OPTIONS ('subscribe' = 't');
CREATE STREAM clicks AS SELECT * FROM kafka.`some-topic`;
CREATE STREAM big AS SELECT * FROM Clicks JOIN prices USING (a);
CREATE STREAM other FROM rate;
CREATE SINK kafka.out TO kafka;
CREATE SINK unused TO noop;
SET spark.sql.shuffle.partitions = 4;
CREATE TABLE IF NOT EXISTS db.prices (a INT) USING parquet;
CREATE OR REPLACE TEMPORARY VIEW cheap AS SELECT * FROM db.prices;
CREATE DATABASE db;
CREATE FUNCTION f AS 'x.Y';
"""


def load(*texts: str, **variables: str) -> Definitions:
    files = [SourceText(f"{n}.sql", text) for n, text in enumerate(texts, 1)]
    definitions, problems = load_definitions(files, variables)
    assert problems == ()
    return definitions


def needed_for(text: str, target: str = "kafka.out", **values: Any) -> NeededDefinitions:
    kind = values.pop("kind", "sql")
    if kind != "script":
        values["target_table"] = target
    return load(FILE).needed_for(JobManifest(name="j", **{kind: text}, **values))


def first_words(texts: tuple[str, ...], count: int = 3) -> list[str]:
    return [" ".join(text.removeprefix("-- inputs\n").split()[:count]) for text in texts]


def test_a_query_needs_the_streams_that_it_names_each_after_those_it_reads() -> None:
    needed = needed_for("SELECT * FROM big")

    assert first_words(needed.streams) == [
        "CREATE STREAM `kafka`.`some-topic`",
        "CREATE STREAM clicks",
        "CREATE STREAM big",
    ]
    assert needed.sink is not None
    assert (needed.sink.qualifier, needed.sink.name) == (("kafka",), "out")


def test_names_are_found_with_and_without_backticks_and_in_any_case() -> None:
    for text in (
        "SELECT * FROM kafka.`some-topic`",
        "SELECT * FROM `KAFKA` . /* x */ `Some-Topic`",
        "SELECT `kafka`.`some-topic`.a FROM x",
    ):
        assert len(needed_for(text).streams) == 1, text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT `some-topic` FROM x",
        "SELECT 1 -- FROM other, kafka.`some-topic`",
        "SELECT 1 /* other */",
        "SELECT kafka, `some-topic` FROM x",
        "SELECT anothers FROM others",
    ],
)
def test_comments_and_parts_of_names_need_nothing(text: str) -> None:
    assert needed_for(text).streams == ()


def test_statements_of_spark_are_needed_if_they_set_something_or_their_name_occurs() -> None:
    assert first_words(needed_for("SELECT 1").setup, 1) == ["SET"]
    assert first_words(needed_for("SELECT * FROM cheap").setup, 2) == [
        "SET spark.sql.shuffle.partitions",
        "CREATE TABLE",
        "CREATE OR",
        "CREATE DATABASE",
    ]
    assert first_words(needed_for("SELECT F(a) FROM x").setup, 2)[-1] == "CREATE FUNCTION"
    assert first_words(needed_for("SELECT 1", "db.prices").setup, 2)[1:] == [
        "CREATE TABLE",
        "CREATE DATABASE",
    ]


def test_a_target_that_is_no_sink_is_a_table() -> None:
    assert needed_for("SELECT 1", "out").sink is None
    assert needed_for("SELECT 1", "KAFKA.`OUT`").sink is not None


def test_python_code_needs_the_names_in_its_strings_and_not_those_in_comments() -> None:
    code = "# other\nexecution_output = spark.sql('SELECT *\\nFROM clicks')\n"
    assert first_words(needed_for(code, kind="code").streams) == [
        "CREATE STREAM `kafka`.`some-topic`",
        "CREATE STREAM clicks",
    ]
    code = 'x = f"""{y} it`s\nkafka.`some-topic`"""'
    assert len(needed_for(code, kind="code").streams) == 1


def test_names_inside_strings_of_sql_are_found() -> None:
    assert len(needed_for("SELECT * FROM IDENTIFIER('other')").streams) == 1


def test_a_stray_backtick_hides_no_plain_name() -> None:
    assert len(needed_for("x = 'it`s other`s'", kind="code").streams) == 1


def test_code_that_is_not_python_is_searched_as_text() -> None:
    assert len(needed_for("from x import y other = 1", kind="code").streams) == 1


def test_a_script_needs_all_sinks_that_it_names() -> None:
    needed = needed_for(
        "SAVE STREAM other TO unused; SAVE STREAM clicks TO kafka.out", kind="script"
    )

    assert [sink.name for sink in needed.sinks] == ["out", "unused"]
    assert len(needed.streams) == 3
    assert len(needed.texts) == 5


def test_streams_that_read_each_other_end_the_search() -> None:
    definitions = load("CREATE STREAM a AS SELECT * FROM b; CREATE STREAM b AS SELECT * FROM a")
    needed = definitions.needed_for(JobManifest(name="j", target_table="t", sql="SELECT * FROM a"))

    assert len(needed.streams) == 2


def test_a_later_definition_with_or_replace_wins() -> None:
    definitions = load("CREATE STREAM a FROM rate", "CREATE OR REPLACE STREAM A FROM kafka")
    needed = definitions.needed_for(JobManifest(name="j", target_table="t", sql="SELECT * FROM a"))

    assert needed.streams == ("CREATE OR REPLACE STREAM A FROM kafka",)


def test_variables_are_replaced_in_definitions() -> None:
    definitions = load("CREATE SINK k TO jdbc OPTIONS ('password' = '${PW}')", PW="x")
    needed = definitions.needed_for(JobManifest(name="j", target_table="k", sql="SELECT 1"))

    assert needed.sink is not None
    assert needed.sink.options == (("password", "x"),)


PROBLEMS = {
    "SELECT 1;\n  SAVE STREAM s TO noop": (2, 3, "statement_not_allowed"),
    "SET a = 1;\n\n/* x */ STOP STREAM s;": (3, 9, "statement_not_allowed"),
    "DROP MATERIALIZED VIEW v": (1, 1, "statement_not_allowed"),
    "CANCEL STATEMENT 'x'": (1, 1, "statement_not_allowed"),
    "SET a = 1;\nCREATE STREAM s\n  FORM rate": (3, 3, "invalid_statement"),
    "CREATE STREAM a FROM rate;\nCREATE STREAM `A` FROM rate": (2, 1, "duplicate_definition"),
    "CREATE SINK a.b TO noop; CREATE SINK A.B TO noop": (1, 26, "duplicate_definition"),
    "CREATE STREAM a.b.c.d FROM rate": (1, 1, "invalid_name"),
    "SET a = '${A}';\nSET b = '${B}'": (2, 10, "missing_variable"),
    "SET a = '${A}'; SHOW SINKS": (1, 17, "statement_not_allowed"),
    "SET a = '\0'": (1, 10, "invalid_text"),
}


@pytest.mark.parametrize(("text", "expected"), PROBLEMS.items())
def test_an_invalid_definition_file_has_a_problem_at_its_place(
    text: str, expected: tuple[int, int, str]
) -> None:
    _definitions, problems = load_definitions([SourceText("d.sql", text)], {"A": "a\nlong value"})

    assert [(p.path, p.line, p.column, p.code) for p in problems] == [("d.sql", *expected)]


def test_a_second_definition_names_the_place_of_the_first() -> None:
    text = "CREATE STREAM a FROM rate"
    _definitions, problems = load_definitions(
        [SourceText("x.sql", text), SourceText("y.sql", text)]
    )

    assert "x.sql:1:1" in problems[0].message


def test_a_stream_and_a_sink_can_have_one_name() -> None:
    load("CREATE STREAM a FROM rate; CREATE SINK a TO noop")


@pytest.mark.parametrize(
    ("text", "name"),
    {
        "create table t (a INT)": "t",
        "CREATE EXTERNAL TABLE IF NOT EXISTS a.`b c`.`d``e` AS SELECT 1": "d`e",
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1": "v",
        "/* x */ CREATE SCHEMA -- y\n s": "s",
        "CREATE TEMPORARY FUNCTION a.f AS 'x'": "f",
        "CREATE TABLE": None,
        "CREATE INDEX i ON t (a)": None,
        "SET x = CREATE": None,
        "": None,
    }.items(),
)
def test_the_name_that_a_statement_creates_is_found(text: str, name: str | None) -> None:
    assert find_created_name(text) == name


def test_a_chain_of_streams_can_be_long() -> None:
    length = 1500
    chain = (f"CREATE STREAM s{n} AS SELECT * FROM s{n - 1};" for n in range(length, 0, -1))
    definitions = load("CREATE STREAM s0 FROM rate;", "\n".join(chain))
    manifest = JobManifest(name="j", sql=f"SELECT * FROM s{length}", target_table="t")
    needed = definitions.needed_for(manifest)

    assert len(needed.streams) == length + 1
    assert needed.streams[0] == "CREATE STREAM s0 FROM rate"
    assert needed.streams[-1].startswith(f"CREATE STREAM s{length} ")


@pytest.mark.parametrize("word", ["CREATE", "a INT", "b", "WITH", "'x'", "NOT NULL"])
def test_each_position_of_a_statement_has_its_place_in_the_file_as_written(word: str) -> None:
    text = (
        "SET spark.x = 1;\n-- A table.\nCREATE TABLE ${LONG_NAME} (a INT,\n"
        "  ${N} b TIMESTAMP(3)\n) WITH ('x');\n"
    )
    text = text.replace("b TIMESTAMP(3)", "STRING NOT NULL, b TIMESTAMP(3)")
    variables = {"LONG_NAME": "t", "N": "`a much longer name`"}
    definitions, problems = load_definitions([SourceText("d.sql", text)], variables)
    assert problems == ()
    manifest = JobManifest.model_validate(
        {"name": "j", "sql": "SELECT 1 FROM t", "target-table": "k"}
    )
    needed = definitions.needed_for(manifest)
    places, statement = needed.setup_places[1], needed.setup[1]

    found = find_query_place(places.parts, statement, position_at(statement, statement.index(word)))
    assert places.path == "d.sql"
    assert found == position_at(text, text.index(word))


def test_variables_do_not_multiply_without_a_limit() -> None:
    files = [SourceText("a.sql", "SET a = '${BIG}${BIG}';\n"), SourceText("b.sql", "not SQL")]
    _definitions, problems = load_definitions(files, {"BIG": "x" * MAX_EXPANDED})
    assert [(problem.path, problem.code) for problem in problems] == [("a.sql", "file_too_large")]
