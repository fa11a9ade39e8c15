"""Contract suite of TwoPhaseTable and TwoPhaseCatalog, run on every catalog."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_implementations, for_lakes
from tests.support.ctas import (
    Crash,
    CtasRun,
    crash_before,
    fetch_rows,
    journal_entry,
    orphan_transaction,
)
from tests.support.journal import JournalLink
from tests.support.pairs import EVERY_LAKE, for_pairs

from headrace.driver.ctas import Cancelled, recover
from headrace.errors import AtomicityRequired, TableAlreadyExists, TableNotFound
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]
every_lake = for_lakes()
every_implementation = for_implementations()
PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING, COMMITTED = TransactionState.COMMITTING, TransactionState.COMMITTED
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
WRITTEN = [PREPARED, BEGUN, COMMITTING]
CRASHES = {str(state): state for state in (BEGUN, COMMITTING)}
ROWS = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(100)"
FAILING = (
    "SELECT id, IF(id < 90, 'a', raise_error('half-way')) AS s, id % 3 AS k"
    " FROM range(0, 100, 1, 4)"
)
OTHER = "SELECT 7L AS id, '7' AS s, 7L AS k"


@every_lake
def test_a_ctas_creates_a_complete_table(namespace: LakeNamespace, link: JournalLink) -> None:
    run = CtasRun(namespace.spark, namespace.ctas(ROWS), link)
    assert (run.rows, run.plan.atomic, link.steps) == ([], True, WRITTEN)
    assert namespace.is_complete()
    assert fetch_rows(namespace.spark, f"SELECT count(*) FROM {namespace.table} WHERE k = 1") == [
        (33,)
    ]
    # Later writes to the table work as usual.
    namespace.spark.sql(f"INSERT INTO {namespace.table} SELECT 100L, 'x', 1L")
    assert fetch_rows(namespace.spark, f"SELECT count(*) FROM {namespace.table}") == [(101,)]


@every_implementation
def test_an_existing_table_stays_unchanged(namespace: LakeNamespace, link: JournalLink) -> None:
    namespace.spark.sql(namespace.ctas(ROWS))
    with pytest.raises(TableAlreadyExists, match="it is a table"):
        CtasRun(namespace.spark, namespace.ctas(OTHER), link)
    run = CtasRun(namespace.spark, namespace.ctas(OTHER, "CREATE TABLE IF NOT EXISTS"), link)
    assert "Nothing was done" in str(run.plan.note)
    assert namespace.is_complete()
    assert link.steps == []


@every_implementation
def test_a_failed_ctas_leaves_no_table_and_no_file(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    with pytest.raises(Exception, match="half-way"):
        CtasRun(namespace.spark, namespace.ctas(FAILING), link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert namespace.is_empty()
    CtasRun(namespace.spark, namespace.ctas(ROWS), JournalLink())
    assert namespace.is_complete()


@every_implementation
@pytest.mark.parametrize("state", [PREPARED, BEGUN, COMMITTING])
def test_a_cancelled_ctas_leaves_nothing_unless_the_catalog_has_already_committed(
    namespace: LakeNamespace, link: JournalLink, state: TransactionState
) -> None:
    link.refused_states = {state}
    if state is COMMITTING and namespace.lake.commits_natively:
        # The cancel came too late.
        CtasRun(namespace.spark, namespace.ctas(ROWS), link)
        assert namespace.is_complete()
        return
    with pytest.raises(Cancelled):
        CtasRun(namespace.spark, namespace.ctas(ROWS), link)
    assert namespace.is_empty()
    assert link.steps[-1:] == ([] if state is PREPARED else [ABORTED])


@for_pairs(lake=EVERY_LAKE, state=CRASHES)
def test_the_next_attempt_after_a_crash_creates_the_complete_table(
    namespace: LakeNamespace, link: JournalLink, state: TransactionState
) -> None:
    crash_before(link, state)
    with pytest.raises(Crash):
        CtasRun(namespace.spark, namespace.ctas(ROWS), link)
    next_link = JournalLink()
    next_link.steps = link.steps
    run = CtasRun(namespace.spark, namespace.ctas(ROWS), next_link, earlier=journal_entry(link))
    assert namespace.is_complete()
    if state is COMMITTING and namespace.lake.commits_natively:
        assert (run.plan.completed_earlier, next_link.steps) == (True, WRITTEN)
    else:
        assert next_link.steps[-5:] == [ABORTING, ABORTED, *WRITTEN]


@for_pairs(1, lake=EVERY_LAKE, state=CRASHES)
def test_an_orphaned_transaction_is_resolved_by_recovery(
    namespace: LakeNamespace, link: JournalLink, state: TransactionState
) -> None:
    crash_before(link, state)
    with pytest.raises(Crash):
        CtasRun(namespace.spark, namespace.ctas(ROWS), link)
    orphan_transaction(link)
    recover(namespace.spark, link.as_link())
    assert link.orphaned == []
    if state is COMMITTING and namespace.lake.commits_natively:
        assert link.steps == [*WRITTEN, COMMITTED]
        assert namespace.is_complete()
    else:
        assert link.steps[-2:] == [ABORTING, ABORTED]
        assert namespace.is_empty()


@every_implementation
def test_a_driver_that_has_just_started_can_complete_the_commit(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    """The commit runs in a thread and a session that have run nothing before."""
    CtasRun(namespace.spark, namespace.ctas(ROWS), link)
    new_session = namespace.spark.newSession()
    for key, value in namespace.spark.conf.getAll.items():
        if key.startswith("spark.sql.catalog."):
            new_session.conf.set(key, value)
    completed_earlier: list[bool] = []

    def complete() -> None:
        run = CtasRun(new_session, namespace.ctas(ROWS), link, earlier=journal_entry(link))
        completed_earlier.append(run.plan.completed_earlier)

    thread = threading.Thread(target=complete)
    thread.start()
    thread.join()
    assert completed_earlier == [True]


@every_implementation
def test_a_commit_can_be_repeated_any_number_of_times(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    CtasRun(namespace.spark, namespace.ctas(ROWS), link)
    for _again in range(2):
        CtasRun(namespace.spark, namespace.ctas(ROWS), link, earlier=journal_entry(link))
        assert namespace.is_complete()
    assert link.steps == WRITTEN


@pytest.mark.parametrize(
    ("lake", "replaces"),
    [
        *((lake, False) for lake in EVERY_LAKE.values()),
        *(
            pytest.param(lake, True, marks=[pytest.mark.matrix] if lake.is_second else [])
            for lake in EVERY_LAKE.values()
        ),
    ],
    indirect=["lake"],
    ids=str,
)
def test_another_users_table_of_the_same_name_is_kept(
    namespace: LakeNamespace, link: JournalLink, replaces: bool
) -> None:
    """Another user creates the table while the statement runs."""
    state_before_conflict = BEGUN if namespace.lake.commits_natively else COMMITTING

    def create_conflicting_table(state: TransactionState) -> None:
        if state is state_before_conflict:
            namespace.spark.sql(namespace.ctas(OTHER))

    link.before_step = create_conflicting_table
    verb = "CREATE OR REPLACE TABLE" if replaces else "CREATE TABLE"
    if replaces and namespace.lake.commits_natively:
        CtasRun(namespace.spark, namespace.ctas(ROWS, verb), link)
        assert namespace.is_complete()
        return
    with pytest.raises(TableAlreadyExists):
        CtasRun(namespace.spark, namespace.ctas(ROWS, verb), link)
    assert link.steps[-2:] == [ABORTING, ABORTED]
    assert fetch_rows(namespace.spark, f"SELECT * FROM {namespace.table}") == [(7, "7", 7)]
    assert namespace.tables == ["t"]
    assert not [file for file in namespace.files if "headrace" in file]


@pytest.mark.finding("B19")
@every_implementation
def test_if_not_exists_succeeds_if_another_user_creates_the_table_first(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    """Another user creates the table while the statement runs."""
    state_before_conflict = BEGUN if namespace.lake.commits_natively else COMMITTING

    def create_conflicting_table(state: TransactionState) -> None:
        if state is state_before_conflict:
            namespace.spark.sql(namespace.ctas(OTHER))

    link.before_step = create_conflicting_table
    run = CtasRun(namespace.spark, namespace.ctas(ROWS, "CREATE TABLE IF NOT EXISTS"), link)
    outcome = run.plan.describe_outcome()
    assert (run.rows, outcome.committed, outcome.atomic) == ([], None, None)
    assert "Nothing was done: another writer created" in str(outcome.note)
    assert link.steps[-2:] == [ABORTING, ABORTED]
    assert fetch_rows(namespace.spark, f"SELECT * FROM {namespace.table}") == [(7, "7", 7)]
    assert namespace.tables == ["t"]
    assert not [file for file in namespace.files if "headrace" in file]


@every_implementation
def test_a_replaced_table_is_complete(namespace: LakeNamespace, link: JournalLink) -> None:
    verb = "CREATE OR REPLACE TABLE"
    run = CtasRun(namespace.spark, namespace.ctas(OTHER, verb), link)
    assert run.plan.atomic is True
    run = CtasRun(namespace.spark, namespace.ctas(ROWS, verb), JournalLink())
    assert run.plan.atomic is namespace.lake.replaces_atomically
    assert (run.plan.describe_outcome().note is None) is namespace.lake.replaces_atomically
    assert namespace.is_complete() or namespace.lake.name.startswith("iceberg")
    run = CtasRun(namespace.spark, namespace.ctas(OTHER, "REPLACE TABLE"), JournalLink())
    assert fetch_rows(namespace.spark, f"SELECT * FROM {namespace.table}") == [(7, "7", 7)]


@every_implementation
def test_replace_table_fails_if_the_table_does_not_exist(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    with pytest.raises(TableNotFound):
        CtasRun(namespace.spark, namespace.ctas(ROWS, "REPLACE TABLE"), link)
    assert (link.steps, namespace.tables) == ([], [])


@every_implementation
def test_a_failed_replacement_keeps_the_old_table(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    namespace.spark.sql(namespace.ctas(ROWS))
    with pytest.raises(Exception, match="half-way"):
        CtasRun(namespace.spark, namespace.ctas(FAILING, "CREATE OR REPLACE TABLE"), link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert namespace.is_complete()
    assert not [file for file in namespace.files if "headrace" in file]


@every_implementation
@pytest.mark.parametrize("state", [BEGUN, COMMITTING])
def test_the_next_attempt_completes_a_replacement_after_a_crash(
    namespace: LakeNamespace, link: JournalLink, state: TransactionState
) -> None:
    namespace.spark.sql(namespace.ctas(OTHER))
    text = namespace.ctas(ROWS, "CREATE OR REPLACE TABLE")
    crash_before(link, state)
    with pytest.raises(Crash):
        CtasRun(namespace.spark, text, link)
    next_link = JournalLink()
    next_link.steps = link.steps
    CtasRun(namespace.spark, text, next_link, earlier=journal_entry(link))
    assert namespace.is_complete()


@every_implementation
def test_a_replacement_that_cannot_be_atomic_is_refused_if_the_session_requires_it(
    namespace: LakeNamespace, link: JournalLink, spark: SparkSession
) -> None:
    namespace.spark.sql(namespace.ctas(ROWS))
    namespace.spark.conf.set("headrace.ctas.atomicity", "require")
    try:
        if namespace.lake.replaces_atomically:
            CtasRun(namespace.spark, namespace.ctas(OTHER, "CREATE OR REPLACE TABLE"), link)
            assert fetch_rows(namespace.spark, f"SELECT count(*) FROM {namespace.table}") == [(1,)]
        else:
            with pytest.raises(AtomicityRequired, match="replaced atomically"):
                CtasRun(namespace.spark, namespace.ctas(OTHER, "CREATE OR REPLACE TABLE"), link)
            assert namespace.is_complete()
    finally:
        namespace.spark.conf.unset("headrace.ctas.atomicity")
