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
        with sessions.borrow() as borrowed:
            assert borrowed is session


def test_queries_at_once_have_sessions_of_the_same_state_which_later_queries_get_too(
    session: SparkSession,
) -> None:
    sessions = QuerySessions(session)
    with sessions.borrow() as first, sessions.borrow() as second, sessions.borrow() as third:
        assert first is session
        assert len({id(first), id(second), id(third)}) == 3
        assert read_numbers(second) == read_numbers(third) == [1]
    with sessions.borrow() as again, sessions.borrow() as beside:
        assert again is session
        assert beside in (second, third)


def test_clones_are_made_anew_after_the_session_may_have_changed(session: SparkSession) -> None:
    sessions = QuerySessions(session)
    with sessions.borrow(), sessions.borrow() as clone:
        pass
    session.sql("CREATE OR REPLACE TEMP VIEW numbers AS SELECT 2 AS n")
    sessions.discard_clones()
    with sessions.borrow(), sessions.borrow() as later:
        assert later is not clone
        assert read_numbers(later) == [2]


def test_a_clone_that_is_in_use_while_the_session_may_change_is_not_used_again(
    session: SparkSession,
) -> None:
    sessions = QuerySessions(session)
    with sessions.borrow(as_clone=True) as clone:
        sessions.discard_clones()
    with sessions.borrow(as_clone=True) as later:
        assert later is not clone


def test_a_clone_is_not_used_again_after_an_error(session: SparkSession) -> None:
    sessions = QuerySessions(session)
    with suppress(LookupError), sessions.borrow(as_clone=True) as clone:
        raise LookupError
    with suppress(LookupError), sessions.borrow() as borrowed:
        assert borrowed is session
        raise LookupError
    with sessions.borrow() as borrowed, sessions.borrow() as later:
        assert borrowed is session
        assert later is not clone
