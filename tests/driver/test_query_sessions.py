"""The sessions of queries that run beside each other: which one a query gets, and what it sees."""

from __future__ import annotations

from contextlib import suppress

import pytest
from pyspark.sql import SparkSession
from tests.support.streams import read_rows

from headrace.driver.query_sessions import QuerySessions


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.sql("CREATE TEMP VIEW numbers AS SELECT 1 AS n")
    return session


def read_numbers(session: SparkSession) -> list[int]:
    return [row["n"] for row in read_rows(session.sql("SELECT n FROM numbers"))]


def test_a_query_alone_runs_in_the_session_itself(session: SparkSession) -> None:
    sessions = QuerySessions(session)
    for _ in range(2):
        with suppress(LookupError), sessions.borrow() as borrowed:
            assert borrowed is session
            raise LookupError


def test_queries_at_once_have_sessions_of_the_same_state(session: SparkSession) -> None:
    sessions = QuerySessions(session)
    with sessions.borrow() as first, sessions.borrow() as second, sessions.borrow() as third:
        assert first is session
        assert len({id(first), id(second), id(third)}) == 3
        assert read_numbers(second) == read_numbers(third) == [1]
    session.sql("CREATE OR REPLACE TEMP VIEW numbers AS SELECT 2 AS n")
    with sessions.borrow() as again, sessions.borrow() as beside:
        assert again is session
        assert read_numbers(beside) == [2]
