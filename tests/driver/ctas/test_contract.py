"""What every implementation of two-phase tables does, each on its real catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake import Shore
from tests.support.ctas import Crash, Ran, left_by, rows
from tests.support.journal import JournalLink
from tests.support.lakes import IMPLEMENTATIONS, LAKES

from headrace.driver.ctas import Cancelled, recover
from headrace.errors import (
    AtomicityRequired,
    DatabaseNotFound,
    TableAlreadyExists,
    TableNotFound,
)
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import Abandoned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]
every_lake = pytest.mark.parametrize("lake", LAKES, ids=str, indirect=True)
every_implementation = pytest.mark.parametrize("lake", IMPLEMENTATIONS, ids=str, indirect=True)
PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING, COMMITTED = TransactionState.COMMITTING, TransactionState.COMMITTED
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
WRITTEN = [PREPARED, BEGUN, COMMITTING]
ROWS = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(100)"
FAILING = (
    "SELECT id, IF(id < 90, 'a', raise_error('half-way')) AS s, id % 3 AS k"
    " FROM range(0, 100, 1, 4)"
)
OTHER = "SELECT 7L AS id, '7' AS s, 7L AS k"


def crash_at(link: JournalLink, state: TransactionState) -> None:
    """The process dies just before this step is journalled."""

    def die(step: TransactionState) -> None:
        if step is state:
            raise Crash

    link.before = die


@every_lake
def test_a_table_is_complete(shore: Shore, link: JournalLink) -> None:
    ran = Ran(shore.spark, shore.ctas(ROWS), link)
    assert (ran.rows, ran.course.atomic, link.steps) == ([], True, WRITTEN)
    assert shore.is_whole()
    assert rows(shore.spark, f"SELECT count(*) FROM {shore.table} WHERE k = 1") == [(33,)]
    # And it stays so when more is written.
    shore.spark.sql(f"INSERT INTO {shore.table} SELECT 100L, 'x', 1L")
    assert rows(shore.spark, f"SELECT count(*) FROM {shore.table}") == [(101,)]


@every_implementation
def test_an_existing_table_is_untouched(shore: Shore, link: JournalLink) -> None:
    shore.spark.sql(shore.ctas(ROWS))
    with pytest.raises(TableAlreadyExists, match="it is a table"):
        Ran(shore.spark, shore.ctas(OTHER), link)
    ran = Ran(shore.spark, shore.ctas(OTHER, "CREATE TABLE IF NOT EXISTS"), link)
    assert "Nothing was done" in str(ran.course.note)
    assert shore.is_whole()
    assert link.steps == []


@every_implementation
def test_a_missing_namespace_is_found_before_anything_is_done(
    shore: Shore, link: JournalLink
) -> None:
    nowhere = f"{shore.lake.catalog}.nowhere.t"
    with pytest.raises(DatabaseNotFound, match="'nowhere'"):
        Ran(shore.spark, shore.ctas(ROWS, name=nowhere), link)
    assert link.steps == []


@every_implementation
def test_a_failure_leaves_nothing(shore: Shore, link: JournalLink) -> None:
    with pytest.raises(Exception, match="half-way"):
        Ran(shore.spark, shore.ctas(FAILING), link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert shore.is_empty()
    Ran(shore.spark, shore.ctas(ROWS), JournalLink())
    assert shore.is_whole()


@every_implementation
@pytest.mark.parametrize("state", [PREPARED, BEGUN, COMMITTING])
def test_a_cancel_at_every_edge_agrees_with_the_table(
    shore: Shore, link: JournalLink, state: TransactionState
) -> None:
    link.refuse = {state}
    if state is COMMITTING and shore.lake.publishes_itself:
        # It came too late.
        Ran(shore.spark, shore.ctas(ROWS), link)
        assert shore.is_whole()
        return
    with pytest.raises(Cancelled):
        Ran(shore.spark, shore.ctas(ROWS), link)
    assert shore.is_empty()
    assert link.steps[-1:] == ([] if state is PREPARED else [ABORTED])


@every_implementation
@pytest.mark.parametrize("state", [BEGUN, COMMITTING])
def test_after_a_crash_the_next_attempt_has_it_whole(
    shore: Shore, link: JournalLink, state: TransactionState
) -> None:
    crash_at(link, state)
    with pytest.raises(Crash):
        Ran(shore.spark, shore.ctas(ROWS), link)
    again = JournalLink()
    again.steps = link.steps
    ran = Ran(shore.spark, shore.ctas(ROWS), again, left=left_by(link))
    assert shore.is_whole()
    if state is COMMITTING and shore.lake.publishes_itself:
        assert (ran.course.settled, again.steps) == (True, WRITTEN)
    else:
        assert again.steps[-5:] == [ABORTING, ABORTED, *WRITTEN]


@every_implementation
@pytest.mark.parametrize("state", [BEGUN, COMMITTING])
def test_what_nobody_takes_up_is_recovered(
    shore: Shore, link: JournalLink, state: TransactionState
) -> None:
    crash_at(link, state)
    with pytest.raises(Crash):
        Ran(shore.spark, shore.ctas(ROWS), link)
    link.before = lambda _state: None
    link.left = [Abandoned(**left_by(link).model_dump(), statement_id="st_0")]
    recover(shore.spark, link.as_link())
    assert link.left == []
    if state is COMMITTING and shore.lake.publishes_itself:
        assert link.steps == [*WRITTEN, COMMITTED]
        assert shore.is_whole()
    else:
        assert link.steps[-2:] == [ABORTING, ABORTED]
        assert shore.is_empty()


@every_implementation
def test_a_commit_is_finished_by_the_next_as_often_as_it_takes(
    shore: Shore, link: JournalLink
) -> None:
    Ran(shore.spark, shore.ctas(ROWS), link)
    for _again in range(2):
        Ran(shore.spark, shore.ctas(ROWS), link, left=left_by(link))
        assert shore.is_whole()
    assert link.steps == WRITTEN


@every_lake
@pytest.mark.parametrize("replaces", [False, True])
def test_anothers_table_of_the_same_name_stays(
    shore: Shore, link: JournalLink, replaces: bool
) -> None:
    """Somebody else is faster, by any name that leads there."""
    at = BEGUN if shore.lake.publishes_itself else COMMITTING

    def meanwhile(state: TransactionState) -> None:
        if state is at:
            shore.spark.sql(shore.ctas(OTHER))

    link.before = meanwhile
    words = "CREATE OR REPLACE TABLE" if replaces else "CREATE TABLE"
    if replaces and shore.lake.publishes_itself:
        Ran(shore.spark, shore.ctas(ROWS, words), link)
        assert shore.is_whole()
        return
    with pytest.raises(TableAlreadyExists):
        Ran(shore.spark, shore.ctas(ROWS, words), link)
    assert link.steps[-2:] == [ABORTING, ABORTED]
    assert rows(shore.spark, f"SELECT * FROM {shore.table}") == [(7, "7", 7)]
    assert shore.tables == ["t"]
    assert not [one for one in shore.files if "headrace" in one]


@every_implementation
def test_a_replacement_is_whole(shore: Shore, link: JournalLink) -> None:
    words = "CREATE OR REPLACE TABLE"
    ran = Ran(shore.spark, shore.ctas(OTHER, words), link)
    assert ran.course.atomic is True
    ran = Ran(shore.spark, shore.ctas(ROWS, words), JournalLink())
    assert ran.course.atomic is shore.lake.replaces_atomically
    assert shore.is_whole() or shore.lake.name.startswith("iceberg")
    ran = Ran(shore.spark, shore.ctas(OTHER, "REPLACE TABLE"), JournalLink())
    assert rows(shore.spark, f"SELECT * FROM {shore.table}") == [(7, "7", 7)]


@every_implementation
def test_what_is_to_be_replaced_must_be_there(shore: Shore, link: JournalLink) -> None:
    with pytest.raises(TableNotFound):
        Ran(shore.spark, shore.ctas(ROWS, "REPLACE TABLE"), link)
    assert (link.steps, shore.tables) == ([], [])


@every_implementation
def test_a_replacement_that_fails_leaves_the_old(shore: Shore, link: JournalLink) -> None:
    shore.spark.sql(shore.ctas(ROWS))
    with pytest.raises(Exception, match="half-way"):
        Ran(shore.spark, shore.ctas(FAILING, "CREATE OR REPLACE TABLE"), link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert shore.is_whole()
    assert not [one for one in shore.files if "headrace" in one]


@every_implementation
@pytest.mark.parametrize("state", [BEGUN, COMMITTING])
def test_a_replacement_that_crashes_is_made_by_the_next(
    shore: Shore, link: JournalLink, state: TransactionState
) -> None:
    shore.spark.sql(shore.ctas(OTHER))
    text = shore.ctas(ROWS, "CREATE OR REPLACE TABLE")
    crash_at(link, state)
    with pytest.raises(Crash):
        Ran(shore.spark, text, link)
    again = JournalLink()
    again.steps = link.steps
    Ran(shore.spark, text, again, left=left_by(link))
    assert shore.is_whole()


@every_implementation
def test_where_it_must_be_atomic(shore: Shore, link: JournalLink, spark: SparkSession) -> None:
    shore.spark.sql(shore.ctas(ROWS))
    shore.spark.conf.set("headrace.ctas.atomicity", "require")
    try:
        if shore.lake.replaces_atomically:
            Ran(shore.spark, shore.ctas(OTHER, "CREATE OR REPLACE TABLE"), link)
            assert rows(shore.spark, f"SELECT count(*) FROM {shore.table}") == [(1,)]
        else:
            with pytest.raises(AtomicityRequired, match="replaced atomically"):
                Ran(shore.spark, shore.ctas(OTHER, "CREATE OR REPLACE TABLE"), link)
            assert shore.is_whole()
    finally:
        shore.spark.conf.unset("headrace.ctas.atomicity")
