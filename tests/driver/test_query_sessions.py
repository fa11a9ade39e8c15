"""The sessions of queries that run beside each other: which one a query gets, and what it sees."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

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
        with suppress(LookupError), sessions.borrow(may_be_main=True) as borrowed:
            assert borrowed is session
            raise LookupError


def test_queries_at_once_have_sessions_of_the_same_state_which_later_queries_get_too(
    session: SparkSession,
) -> None:
    sessions = QuerySessions(session)
    borrow = partial(sessions.borrow, may_be_main=True)
    with borrow() as first, borrow() as second, borrow() as third:
        assert first is session
        assert len({id(first), id(second), id(third)}) == 3
        assert read_numbers(second) == read_numbers(third) == [1]
    with borrow() as again, borrow() as beside:
        assert again is session
        assert beside in (second, third)


def test_a_query_that_may_leave_something_never_runs_in_the_session_itself(
    session: SparkSession,
) -> None:
    sessions = QuerySessions(session)
    with sessions.borrow(may_be_main=False) as clone:
        assert clone is not session


def test_clones_are_made_anew_after_the_session_may_have_changed(session: SparkSession) -> None:
    sessions = QuerySessions(session)
    with sessions.borrow(may_be_main=False) as idle:
        pass
    with sessions.borrow(may_be_main=False) as in_use:
        assert in_use is idle
        session.sql("CREATE OR REPLACE TEMP VIEW numbers AS SELECT 2 AS n")
        sessions.discard_clones()
    with sessions.borrow(may_be_main=False) as later:
        assert later is not in_use
        assert read_numbers(later) == [2]


def test_a_clone_is_not_used_again_after_an_error(session: SparkSession) -> None:
    sessions = QuerySessions(session)
    with suppress(LookupError), sessions.borrow(may_be_main=False) as clone:
        raise LookupError
    with sessions.borrow(may_be_main=False) as later:
        assert later is not clone


def test_a_clone_sees_a_function_that_another_session_has_replaced(session: SparkSession) -> None:
    sessions, other = QuerySessions(session), session.newSession()
    results = []
    for number in (1, 2):
        other.sql(f"CREATE OR REPLACE FUNCTION of_queries() RETURNS INT RETURN {number}")
        with sessions.borrow(may_be_main=False) as clone:
            [row] = read_rows(clone.sql("SELECT of_queries() AS n, upper('a') AS a"))
            results.append((row["n"], row["a"]))
    other.sql("DROP FUNCTION of_queries")
    assert results == [(1, "A"), (2, "A")]
