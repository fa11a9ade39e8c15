"""CREATE and REFRESH MATERIALIZED VIEW in Spark, on every catalog that can hold a view."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_implementations, for_lakes
from tests.support.ctas import Crash, crash_before, fetch_rows
from tests.support.lakes import LAKES
from tests.support.view_link import ViewLink

from headrace.errors import InvalidMaterializedView, TableAlreadyExists
from headrace.model.failure import Failure
from headrace.model.lifecycle import TransactionState
from headrace.model.materialized_view import IntentAction
from headrace.model.statement import CREATE_VIEW, REFRESH_VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]
ROWS = 100


class Source:
    """A table of files with the rows of one round, and a view of all of them."""

    def __init__(self, namespace: LakeNamespace) -> None:
        self.namespace = namespace
        self.spark = namespace.spark
        self.table = f"spark_catalog.default.source_{namespace.name.rpartition('_')[2]}"
        self.view = f"{namespace.name}.v"
        self.round = 0
        self.spark.sql(f"CREATE TABLE {self.table} (round BIGINT, id BIGINT) USING parquet")
        self.write_round()

    def write_round(self) -> None:
        """Replace the rows by those of the next round."""
        self.round += 1
        rows = f"SELECT {self.round}L, id FROM range({ROWS})"
        self.spark.sql(f"INSERT OVERWRITE {self.table} {rows}")

    @property
    def create(self) -> str:
        clause = self.namespace.lake.clause.split("PARTITIONED")[0]
        return f"CREATE MATERIALIZED VIEW {self.view} {clause} AS SELECT * FROM {self.table}"

    def read(self) -> tuple[int, int, int]:
        """Return the lowest and the highest round in the view, and its number of rows."""
        [row] = fetch_rows(self.spark, f"SELECT min(round), max(round), count(*) FROM {self.view}")
        return int(row[0]), int(row[1]), int(row[2])


@pytest.fixture
def source(namespace: LakeNamespace) -> Iterator[Source]:
    source = Source(namespace)
    yield source
    source.spark.sql(f"DROP TABLE IF EXISTS {source.table}")
    if source.namespace.lake.catalog == "spark_catalog":
        # Before the namespace is dropped.
        source.spark.sql(f"DROP VIEW IF EXISTS {source.view}")


@for_implementations()
def test_a_view_is_created_refreshed_and_dropped(source: Source, link: ViewLink) -> None:
    plan = link.create(source.spark, source.create)
    created = source.read()
    source.write_round()
    unchanged = source.read()
    link.refresh(source.spark)
    refreshed = source.read()
    link.intend(IntentAction.DROP_VIEW)
    assert link.carry_out_due(source.spark) == 1
    assert (plan.atomic, created, unchanged, refreshed) == (
        True,
        (1, 1, ROWS),
        (1, 1, ROWS),
        (2, 2, ROWS),
    )
    assert link.failed == []
    assert source.namespace.is_empty(), (source.namespace.tables, source.namespace.files)


@for_implementations()
def test_a_reader_sees_whole_generations_only(source: Source, link: ViewLink) -> None:
    refreshes = 5 if source.namespace.lake.name == "parquet" else 2
    link.create(source.spark, source.create)
    stopping = threading.Event()
    seen: list[tuple[int, int, int]] = []
    errors: list[Exception] = []

    def poll() -> None:
        try:
            while not stopping.is_set():
                seen.append(source.read())
        except Exception as error:  # noqa: BLE001 - the test fails with it below
            errors.append(error)

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for _ in range(refreshes):
            source.write_round()
            link.refresh(source.spark)
    finally:
        stopping.set()
        reader.join()

    assert errors == []
    assert {(low, count) for low, _high, count in seen} <= {
        (n, ROWS) for n in range(1, refreshes + 2)
    }
    assert sorted(seen) == seen
    assert source.read() == (refreshes + 1, refreshes + 1, ROWS)


@for_lakes("parquet", "iceberg-base", "jdbc")
def test_a_name_that_belongs_to_another_table_stays_as_it_is(
    source: Source, link: ViewLink
) -> None:
    source.spark.sql(f"CREATE TABLE {source.view} AS SELECT 7L AS round, 7L AS id")
    with pytest.raises(TableAlreadyExists, match="already exists"):
        link.create(source.spark, source.create)
    assert source.read() == (7, 7, 1)
    source.spark.sql(f"DROP TABLE {source.view}")
    link.create(source.spark, source.create)
    drop = "VIEW" if source.namespace.lake.catalog == "spark_catalog" else "TABLE"
    source.spark.sql(f"DROP {drop} {source.view}")
    source.spark.sql(f"CREATE TABLE {source.view} AS SELECT 7L AS round, 7L AS id")
    with pytest.raises(TableAlreadyExists, match="does not belong to the materialized view"):
        link.refresh(source.spark)
    link.intend(IntentAction.DROP_VIEW)
    link.carry_out_due(source.spark)
    assert source.read() == (7, 7, 1)
    assert source.namespace.tables == ["v"]
    source.spark.sql(f"DROP TABLE {source.view}")


@pytest.mark.parametrize(
    ("lake", "command", "state"),
    [
        (lake, command, state)
        for lake in LAKES
        for command, state in (
            (CREATE_VIEW, TransactionState.COMMITTING),
            (REFRESH_VIEW, TransactionState.BEGUN),
        )
        if lake.name != "iceberg-files"
    ],
    indirect=["lake"],
    ids=str,
)
def test_the_next_driver_completes_or_repeats_a_generation(
    source: Source, link: ViewLink, command: str, state: TransactionState
) -> None:
    if command == REFRESH_VIEW:
        link.create(source.spark, source.create)
        source.write_round()
    crash_before(link, state)
    with pytest.raises(Crash):
        if command == REFRESH_VIEW:
            link.refresh(source.spark)
        else:
            link.create(source.spark, source.create)
    link.before_step = lambda _state: None
    link.resume(source.spark, command)

    assert source.read() == (source.round, source.round, ROWS)
    link.intend(IntentAction.DROP_VIEW)
    link.carry_out_due(source.spark)
    assert source.namespace.tables == []


@for_lakes("parquet")
def test_a_crash_between_the_table_and_the_view_is_completed(
    source: Source, link: ViewLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.driver.ctas.view_switch import ViewSwitch

    link.create(source.spark, source.create)
    source.write_round()

    def crash(*_arguments: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(ViewSwitch, "switch_to", crash)
        with pytest.raises(Crash):
            link.refresh(source.spark)
    between = source.read()
    link.resume(source.spark, REFRESH_VIEW)

    assert (between, source.read()) == ((1, 1, ROWS), (2, 2, ROWS))
    assert source.namespace.tables == ["__mv_v_1", "__mv_v_2", "v"]


@for_lakes("parquet")
def test_a_view_that_loses_its_name_before_the_switch_leaves_no_table(
    source: Source, link: ViewLink
) -> None:
    def take_the_name(state: TransactionState) -> None:
        if state is TransactionState.COMMITTING:
            source.spark.sql(f"CREATE VIEW {source.view} AS SELECT 7L AS round, 7L AS id")

    link.before_step = take_the_name
    with pytest.raises(TableAlreadyExists, match="does not belong"):
        link.create(source.spark, source.create)

    assert source.read() == (7, 7, 1)
    assert source.namespace.tables == ["v"]


@for_lakes("parquet")
def test_a_replaced_generation_is_dropped_alone(source: Source, link: ViewLink) -> None:
    link.create(source.spark, source.create)
    link.refresh(source.spark)
    link.intend(IntentAction.DROP_GENERATION, 1)
    link.intend(IntentAction.DROP_GENERATION, 7)
    link.carry_out_due(source.spark)

    assert source.namespace.tables == ["__mv_v_2", "v"]
    assert source.read() == (1, 1, ROWS)
    assert (len(link.done), link.failed) == (2, [])


@for_lakes("parquet", "delta")
def test_a_view_with_capital_letters_is_refreshed_and_dropped(
    source: Source, link: ViewLink
) -> None:
    source.view = f"{source.namespace.name}.Mixed"
    link.create(source.spark, source.create)
    source.spark.sql(f"CREATE TABLE {source.namespace.name}.__mv_mixed_1_1 AS SELECT 1 AS other")
    source.write_round()
    link.refresh(source.spark)
    link.intend(IntentAction.DROP_GENERATION, 1)
    link.refresh(source.spark)
    after = source.read()
    tables = source.namespace.tables
    link.intend(IntentAction.DROP_VIEW)
    link.carry_out_due(source.spark)

    assert after == (2, 2, ROWS)
    assert tables == ["__mv_mixed_1_1", "__mv_mixed_2", "__mv_mixed_3", "mixed"]
    assert source.namespace.tables == ["__mv_mixed_1_1"]


@for_lakes("parquet")
def test_names_of_the_query_are_those_of_its_creation(source: Source, link: ViewLink) -> None:
    spark, name = source.spark, source.namespace.name
    spark.sql(f"CREATE TABLE {name}.t USING parquet AS SELECT 1L AS round, 1L AS id")
    spark.sql(f"USE {name}")
    link.create(spark, "CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    spark.sql("USE spark_catalog.default")
    spark.sql(f"INSERT INTO {name}.t VALUES (2, 2)")
    link.refresh(spark)

    assert source.read() == (1, 2, 2)


REFUSED = {
    "CREATE MATERIALIZED VIEW {v} AS SELECT * FROM temporary": "reads the temporary view temporary",
    "CREATE MATERIALIZED VIEW {v} AS SELECT * FROM ticks": "Add WITH \\(auto_refresh = true\\)",
    "CREATE MATERIALIZED VIEW {v} WITH (auto_refresh = true) AS SELECT 1 AS a": (
        "Add refresh_interval"
    ),
}


@for_lakes("parquet")
@pytest.mark.parametrize("text", REFUSED)
def test_a_query_that_cannot_be_refreshed_is_refused(
    source: Source, link: ViewLink, text: str
) -> None:
    source.spark.sql("CREATE OR REPLACE TEMPORARY VIEW temporary AS SELECT 1 AS a")
    definitions = ["CREATE STREAM ticks FROM rate"]
    with pytest.raises(InvalidMaterializedView, match=REFUSED[text]):
        link.create(source.spark, text.format(v=source.view), definitions=definitions)

    assert (link.generation, link.steps) == (0, [])
    source.spark.catalog.dropTempView("temporary")
    source.spark.catalog.dropTempView("ticks")


@for_lakes("jdbc")
def test_postgresql_cannot_refresh_by_itself(source: Source, link: ViewLink) -> None:
    properties = "WITH (auto_refresh = true, refresh_interval = '1m')"
    text = f"CREATE MATERIALIZED VIEW {source.view} {properties} AS SELECT 1 AS a"
    with pytest.raises(InvalidMaterializedView, match="The catalog pg cannot hold"):
        link.create(source.spark, text)


@for_lakes("parquet")
def test_an_error_of_the_query_has_the_position_in_the_statement(
    source: Source, link: ViewLink
) -> None:
    from headrace.driver.failures import describe_failure

    text = f"CREATE MATERIALIZED VIEW {source.view}\nAS SELECT id,\n  none FROM {source.table}"
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as caught:
        link.create(source.spark, text)
    failure = describe_failure(caught.value, text)

    assert (failure.line, failure.column) == (3, 3)


@for_lakes("parquet")
def test_the_refusal_of_a_node_is_the_error_of_the_statement(
    source: Source, link: ViewLink, spark: SparkSession
) -> None:
    from headrace.driver.failures import KnownFailure

    link.refusal = Failure(code="materialized_view_exists", message="It exists.")
    with pytest.raises(KnownFailure) as caught:
        link.create(source.spark, source.create)

    assert caught.value.failure == link.refusal
