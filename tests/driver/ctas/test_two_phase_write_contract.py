"""Contract suite of TwoPhaseWrite, run on every catalog: all rows are there once, or none."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_implementations, for_lakes
from tests.support.ctas import (
    Crash,
    CtasRun,
    crash_before,
    fetch_frame_rows,
    fetch_rows,
    journal_entry,
    orphan_transaction,
)
from tests.support.journal import JournalLink
from tests.support.pairs import EVERY_LAKE, for_pairs, lakes
from tests.support.postgres import Postgres

from headrace.driver.conf_overrides import override_privately
from headrace.driver.ctas import Cancelled, catalogs, recover
from headrace.driver.ctas.base import WriteDefinition
from headrace.driver.ctas.iceberg import IcebergCatalog
from headrace.driver.ctas.native_commit import NativeWrite
from headrace.driver.query_sessions import clone_session
from headrace.driver.spark_version.catalogs import TablePath
from headrace.errors import AtomicityRequired, CatalogError
from headrace.model.headrace_options import WRITES_ATOMICITY
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]
every_implementation = for_implementations()
versioned = for_lakes("delta", "iceberg-base")
PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING, COMMITTED = TransactionState.COMMITTING, TransactionState.COMMITTED
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
WRITTEN = [PREPARED, BEGUN, COMMITTING]
OLD = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(10)"
NEW = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(100, 130, 1, 3)"
FAILING = "SELECT id, IF(id < 25, 'a', raise_error('half-way')) AS s, id % 3 AS k FROM range(30)"
APPEND, OVERWRITE = "INSERT INTO {0} " + NEW, "INSERT OVERWRITE {0} " + NEW
INSERTS = {"append": APPEND, "overwrite": OVERWRITE}
UPDATE = "UPDATE {0} SET s = s || '!' WHERE id < 5"
DELETE = "DELETE FROM {0} WHERE id < 5"
MERGE = (
    "MERGE INTO {0} AS t USING (" + NEW.replace("range(100", "range(8") + ") AS n ON t.id = n.id"
    " WHEN MATCHED THEN UPDATE SET s = t.s || '!' WHEN NOT MATCHED THEN INSERT *"
)
CHANGES = {"update": UPDATE, "delete": DELETE, "merge": MERGE}
CRASHES = {str(state): state for state in (BEGUN, COMMITTING, COMMITTED)}
VERSIONED = lakes("delta", "iceberg-base")
OLD_ROWS = [(id_, str(id_), id_ % 3) for id_ in range(10)]
NEW_ROWS = [(id_, str(id_), id_ % 3) for id_ in range(100, 130)]
RESULTS = {
    APPEND: OLD_ROWS + NEW_ROWS,
    OVERWRITE: NEW_ROWS,
    UPDATE: [(id_, s + "!" if id_ < 5 else s, k) for id_, s, k in OLD_ROWS],
    DELETE: OLD_ROWS[5:],
    MERGE: [(id_, s + "!" if id_ >= 8 else s, k) for id_, s, k in OLD_ROWS]
    + [(id_, str(id_), id_ % 3) for id_ in range(10, 130)],
}


@pytest.fixture(autouse=True)
def _old_rows(namespace: LakeNamespace) -> Iterator[None]:
    """Create the table `t` with the rows OLD."""
    namespace.spark.sql(namespace.ctas(OLD))
    yield
    leftovers = [name for name in (*namespace.tables, *namespace.files) if "headrace_" in name]
    assert leftovers == []


def read_rows(namespace: LakeNamespace) -> list[tuple[object, ...]]:
    namespace.spark.sql(f"REFRESH TABLE {namespace.table}")
    return fetch_rows(namespace.spark, f"SELECT id, s, k FROM {namespace.table} ORDER BY id")


def rerun(namespace: LakeNamespace, link: JournalLink, text: str) -> tuple[CtasRun, JournalLink]:
    """Run the statement again after the crash of its driver."""
    next_link = JournalLink()
    next_link.steps = link.steps
    run = CtasRun(namespace.spark, text, next_link, earlier=journal_entry(link))
    return run, next_link


@contextmanager
def user_conf(namespace: LakeNamespace, conf: dict[str, str]) -> Iterator[None]:
    """Set the configuration of the session for the block, as its user does with SET."""
    for key, value in conf.items():
        namespace.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in conf:
            namespace.spark.conf.unset(key)


def delta_log(namespace: LakeNamespace) -> Path:
    """Return the directory of the table's log."""
    detail = namespace.spark.sql(f"DESCRIBE DETAIL {namespace.table}")
    location = str(fetch_frame_rows(detail.select("location"))[0][0])
    return Path(location.removeprefix("file:")) / "_delta_log"


@for_pairs(lake=EVERY_LAKE, text=INSERTS)
def test_an_insert_writes_all_rows(namespace: LakeNamespace, link: JournalLink, text: str) -> None:
    run = CtasRun(namespace.spark, text.format(namespace.table), link)
    assert (run.rows, run.plan.atomic, link.steps) == ([], True, WRITTEN)
    assert read_rows(namespace) == RESULTS[text]


@for_pairs(text=CHANGES, lake=VERSIONED)
def test_a_change_of_rows_is_atomic(namespace: LakeNamespace, link: JournalLink, text: str) -> None:
    run = CtasRun(namespace.spark, text.format(namespace.table), link)
    assert (run.plan.atomic, link.steps) == (True, WRITTEN)
    assert read_rows(namespace) == RESULTS[text]


@every_implementation
@pytest.mark.parametrize("verb", ["INTO", "OVERWRITE"])
def test_a_failed_insert_changes_nothing(
    namespace: LakeNamespace, link: JournalLink, verb: str
) -> None:
    with pytest.raises(Exception, match="half-way"):
        CtasRun(namespace.spark, f"INSERT {verb} {namespace.table} {FAILING}", link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert read_rows(namespace) == OLD_ROWS


@every_implementation
@pytest.mark.parametrize("state", [PREPARED, BEGUN, COMMITTING])
def test_a_cancelled_insert_changes_nothing_unless_the_catalog_has_already_committed(
    namespace: LakeNamespace, link: JournalLink, state: TransactionState
) -> None:
    link.refused_states = {state}
    text = APPEND.format(namespace.table)
    if state is COMMITTING and namespace.lake.name not in {"parquet", "jdbc"}:
        CtasRun(namespace.spark, text, link)
        assert read_rows(namespace) == RESULTS[APPEND]
        return
    with pytest.raises(Cancelled):
        CtasRun(namespace.spark, text, link)
    assert read_rows(namespace) == OLD_ROWS


@for_pairs(lake=EVERY_LAKE, text=INSERTS, state=CRASHES)
def test_the_next_attempt_after_a_crash_writes_the_rows_once(
    namespace: LakeNamespace, link: JournalLink, text: str, state: TransactionState
) -> None:
    text_of_table = text.format(namespace.table)
    crash_before(link, state)
    if state is COMMITTED:
        # The node learns of the commit with the report of the statement, which is missing.
        CtasRun(namespace.spark, text_of_table, link)
    else:
        with pytest.raises(Crash):
            CtasRun(namespace.spark, text_of_table, link)
    run, next_link = rerun(namespace, link, text_of_table)
    assert read_rows(namespace) == RESULTS[text]
    is_published = state is COMMITTED or (
        state is COMMITTING and namespace.lake.name not in {"parquet", "jdbc"}
    )
    assert run.plan.completed_earlier is is_published
    if not is_published:
        assert next_link.steps[-5:] == [ABORTING, ABORTED, *WRITTEN]


@for_pairs(lake=VERSIONED, text=CHANGES, state={str(state): state for state in (BEGUN, COMMITTING)})
def test_a_change_of_rows_is_applied_once_after_a_crash(
    namespace: LakeNamespace, link: JournalLink, text: str, state: TransactionState
) -> None:
    crash_before(link, state)
    with pytest.raises(Crash):
        CtasRun(namespace.spark, text.format(namespace.table), link)
    run, _link = rerun(namespace, link, text.format(namespace.table))
    assert run.plan.completed_earlier is (state is COMMITTING)
    assert read_rows(namespace) == RESULTS[text]


@for_pairs(1, lake=EVERY_LAKE, text=INSERTS, state=CRASHES)
def test_another_driver_completes_or_removes_an_orphaned_insert(
    namespace: LakeNamespace, link: JournalLink, text: str, state: TransactionState
) -> None:
    crash_before(link, state)
    if state is COMMITTED:
        CtasRun(namespace.spark, text.format(namespace.table), link)
    else:
        with pytest.raises(Crash):
            CtasRun(namespace.spark, text.format(namespace.table), link)
    orphan_transaction(link)
    recover(namespace.spark, link.as_link())
    is_complete = link.steps[-1] is COMMITTED
    assert is_complete or link.steps[-1] is ABORTED
    assert read_rows(namespace) == (RESULTS[text] if is_complete else OLD_ROWS)
    if state is COMMITTED:
        assert is_complete


@every_implementation
def test_a_forged_record_cannot_name_another_table(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    crash_before(link, COMMITTING)
    with pytest.raises(Crash):
        CtasRun(namespace.spark, APPEND.format(namespace.table), link)
    assert link.staged is not None
    other = link.staged.record["target"] | {"table": "other"}
    record = link.staged.record | {"target": other}
    honest, link.staged = link.staged, link.staged.model_copy(update={"record": record})
    orphan_transaction(link)
    recover(namespace.spark, link.as_link())
    assert link.steps[-1] is BEGUN
    link.staged = honest
    orphan_transaction(link)
    recover(namespace.spark, link.as_link())
    assert link.steps[-1] in {ABORTED, COMMITTED}


@for_lakes("jdbc")
def test_an_insert_into_an_altered_postgresql_table_changes_nothing(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    def alter(state: TransactionState) -> None:
        if state is COMMITTING:
            namespace.spark.sql(f"ALTER TABLE {namespace.table} ADD COLUMN more INT")

    link.before_step = alter
    with pytest.raises(Exception, match="was altered or replaced"):
        CtasRun(namespace.spark, APPEND.format(namespace.table), link)
    assert read_rows(namespace) == OLD_ROWS


_OWN_METADATA = {"spark.databricks.delta.commitInfo.userMetadata": "mine"}
_OWN_TRANSACTION = {
    "spark.databricks.delta.write.txnAppId": "mine",
    "spark.databricks.delta.write.txnVersion": "1",
}


@for_lakes("delta")
@pytest.mark.parametrize(
    ("own", "is_atomic"),
    [
        (_OWN_METADATA, True),
        (_OWN_TRANSACTION, True),
        (_OWN_METADATA | _OWN_TRANSACTION, False),
    ],
    ids=["metadata", "transaction", "both"],
)
def test_what_a_user_writes_into_the_log_of_delta_is_kept(
    namespace: LakeNamespace, link: JournalLink, own: dict[str, str], *, is_atomic: bool
) -> None:
    text = APPEND.format(namespace.table)
    with user_conf(namespace, own):
        run = CtasRun(namespace.spark, text, link)
        if _OWN_TRANSACTION.items() <= own.items():
            CtasRun(namespace.spark, text, JournalLink())  # Delta skips it
    assert run.plan.atomic is is_atomic
    assert link.steps == (WRITTEN if is_atomic else [])
    assert read_rows(namespace) == RESULTS[APPEND]
    commits = fetch_rows(namespace.spark, f"DESCRIBE HISTORY {namespace.table} LIMIT 1")
    assert ("mine" in commits[0]) is (_OWN_METADATA.items() <= own.items())


@for_lakes("delta")
@pytest.mark.parametrize("own", [{}, _OWN_METADATA], ids=["own mark", "metadata of the user"])
def test_the_commit_of_a_delta_write_is_found_among_later_ones(
    namespace: LakeNamespace, link: JournalLink, own: dict[str, str]
) -> None:
    """The driver is lost after the commit, and other statements commit before the next driver."""
    text = APPEND.format(namespace.table)
    crash_before(link, COMMITTING)
    with user_conf(namespace, own), pytest.raises(Crash):
        CtasRun(namespace.spark, text, link)
    for _ in range(11):  # Delta writes a checkpoint after ten commits
        namespace.spark.sql(f"INSERT INTO {namespace.table} VALUES (1000, 'later', 1)")
    run, _link = rerun(namespace, link, text)
    assert run.plan.completed_earlier
    assert read_rows(namespace) == [*RESULTS[APPEND], *[(1000, "later", 1)] * 11]


@for_lakes("delta")
@pytest.mark.parametrize("own", [{}, _OWN_METADATA], ids=["own mark", "metadata of the user"])
def test_a_write_is_not_repeated_after_delta_has_deleted_its_commit_from_the_log(
    namespace: LakeNamespace, link: JournalLink, own: dict[str, str]
) -> None:
    text = APPEND.format(namespace.table)
    crash_before(link, COMMITTING)
    with user_conf(namespace, own), pytest.raises(Crash):
        CtasRun(namespace.spark, text, link)
    for _ in range(11):
        namespace.spark.sql(f"INSERT INTO {namespace.table} VALUES (1000, 'later', 1)")
    log = delta_log(namespace)
    checkpoint = max(log.glob("*.checkpoint*")).name.partition(".")[0]
    for file in log.glob("[0-9]*.json"):
        if file.stem < checkpoint:
            file.unlink()
    if own:
        # Delta keeps a transaction identifier in the state of the table.
        run, _link = rerun(namespace, link, text)
        assert run.plan.completed_earlier
    else:
        with pytest.raises(CatalogError, match="It is not known whether the statement has changed"):
            rerun(namespace, link, text)
    assert read_rows(namespace) == [*RESULTS[APPEND], *[(1000, "later", 1)] * 11]


@for_lakes("delta")
def test_a_commit_to_delta_has_no_transaction_identifier(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    """To look for one, Delta would read the whole state of the table, in a job of 50 tasks."""
    CtasRun(namespace.spark, APPEND.format(namespace.table), link)
    newest = max(delta_log(namespace).glob("*.json")).read_text()
    assert f'"userMetadata":"headrace {link.staged.record["transaction"]}"' in newest
    assert '"txn":' not in newest


@for_lakes("delta", "jdbc")
def test_the_option_require_refuses_a_write_that_is_not_atomic(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    spark = namespace.spark
    text = f"INSERT OVERWRITE DIRECTORY '/nowhere' USING parquet SELECT * FROM {namespace.table}"
    spark.conf.set(WRITES_ATOMICITY.key, "require")
    try:
        with pytest.raises(AtomicityRequired):
            CtasRun(spark, text, link)
        assert CtasRun(spark, APPEND.format(namespace.table), link).plan.atomic
    finally:
        spark.conf.unset(WRITES_ATOMICITY.key)


@for_lakes("jdbc")
def test_a_row_that_postgresql_refuses_fails_the_insert(
    namespace: LakeNamespace, link: JournalLink, postgres: Postgres
) -> None:
    url = namespace.spark.conf.get("spark.sql.catalog.pg.url")
    assert url is not None
    database = url.partition("?")[0].rpartition("/")[2]
    schema = namespace.name.rpartition(".")[2]
    with psycopg.connect(postgres.url(database)) as connection:
        connection.execute(f"ALTER TABLE {schema}.t ADD PRIMARY KEY (id)")
    text = f"INSERT INTO {namespace.table} SELECT 5L, 'x', 1L"
    with pytest.raises(CatalogError, match="duplicate key"):
        CtasRun(namespace.spark, text, link)
    assert link.steps == [*WRITTEN, ABORTING, ABORTED]
    assert read_rows(namespace) == OLD_ROWS


@for_lakes("jdbc")
def test_staged_rows_of_another_postgresql_user_are_not_published(
    namespace: LakeNamespace, link: JournalLink, postgres: Postgres
) -> None:
    url = namespace.spark.conf.get("spark.sql.catalog.pg.url")
    assert url is not None
    role, database = f"r_{secrets.token_hex(4)}", url.partition("?")[0].rpartition("/")[2]
    schema = namespace.name.rpartition(".")[2]

    def give_away(state: TransactionState) -> None:
        if state is not COMMITTING:
            return
        with psycopg.connect(postgres.url(database)) as connection:
            connection.execute(f"CREATE ROLE {role}")
            [(name,)] = connection.execute(
                "SELECT tablename FROM pg_tables"
                f" WHERE schemaname = '{schema}' AND tablename LIKE 'headrace%'"
            ).fetchall()
            connection.execute(f"ALTER TABLE {schema}.{name} OWNER TO {role}")

    link.before_step = give_away
    with pytest.raises(CatalogError, match="belong to another user"):
        CtasRun(namespace.spark, OVERWRITE.format(namespace.table), link)
    assert read_rows(namespace) == OLD_ROWS


@for_lakes("delta")
def test_a_dynamic_overwrite_of_delta_replaces_the_partitions_that_it_writes(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    namespace.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        text = f"INSERT OVERWRITE {namespace.table} SELECT 100L, 'new', 1L"
        assert CtasRun(namespace.spark, text, link).plan.atomic
    finally:
        namespace.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    kept = [row for row in OLD_ROWS if row[2] != 1]
    assert read_rows(namespace) == [*kept, (100, "new", 1)]


@versioned
def test_a_session_that_is_cloned_meanwhile_does_not_carry_the_mark(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    clones: list[str] = []
    run = NativeWrite.run

    def clone_and_run(write: NativeWrite) -> DataFrame:
        with override_privately(namespace.spark, write.mark):
            clone = clone_session(namespace.spark)
            clones.extend(key for key in write.mark if clone.conf.get(key, None) is not None)
        return run(write)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NativeWrite, "run", clone_and_run)
        CtasRun(namespace.spark, APPEND.format(namespace.table), link)
    assert clones == []
    assert read_rows(namespace) == RESULTS[APPEND]


@for_lakes("iceberg-base")
def test_a_write_to_a_branch_runs_as_plain_spark(
    namespace: LakeNamespace, link: JournalLink
) -> None:
    path = TablePath("base", (namespace.name.rpartition(".")[2], "t"), "branch_b")
    definition = WriteDefinition(
        transaction="tx_1",
        epoch=1,
        plan=None,
        run=lambda: namespace.spark.range(1),
        writer="w",
        version=1,
    )
    catalog = IcebergCatalog(namespace.spark, "base")
    assert catalog.create_two_phase_write(path, definition) is None
    assert link.steps == []


class OtherCatalog(IcebergCatalog):
    kind = "other"


@for_lakes("iceberg-base")
def test_an_installed_catalog_writes_the_rows(
    namespace: LakeNamespace, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    implementations = catalogs.load_implementations() | {
        "org.apache.iceberg.spark.SparkCatalog": OtherCatalog
    }
    monkeypatch.setattr(catalogs, "load_implementations", lambda: implementations)
    CtasRun(namespace.spark, APPEND.format(namespace.table), link)
    assert link.staged is not None
    assert link.staged.kind == "other"
    assert read_rows(namespace) == RESULTS[APPEND]
