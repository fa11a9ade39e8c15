"""Telling pure queries: what is called one may be run twice."""

from __future__ import annotations

import pytest

from headrace.grammar.queries import is_query


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- first\n /* then */ select update from t",
        "VALUES (1), (2)",
        "WITH a AS (SELECT 1) SELECT * FROM a;",
        "FROM t |> WHERE x > 1 |> SELECT y",
        "TABLE t",
        "((SELECT 1) UNION ALL (SELECT 2))",
        "WITH a AS (SELECT 'insert' AS `delete`) SELECT * FROM a",
    ],
)
def test_queries(text: str) -> None:
    assert is_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "-- SELECT 1",
        "INSERT INTO t SELECT 1",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "FROM t INSERT INTO a SELECT x INSERT INTO b SELECT y",
        "FROM (FROM t) INSERT OVERWRITE TABLE a SELECT *",
        "WITH a AS (SELECT 1) MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE",
        "BEGIN SELECT 1; END",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "EXPLAIN SELECT 1",
        "SET x = 1",
        "CREATE TABLE t AS SELECT 1",
        "WITH a AS (SELECT 1) ${rest}",
        "SELECT 'never closed",
        "`SELECT` 1",
    ],
)
def test_what_may_be_more_than_a_query(text: str) -> None:
    assert not is_query(text)
