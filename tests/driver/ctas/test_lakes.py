"""What is special to one catalog: places of the users', properties, dependents, races."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake import Shore
from tests.support.ctas import ROWS, Crash, Ran, checksum, expected, left_by, rows
from tests.support.journal import JournalLink
from tests.support.lakes import IMPLEMENTATIONS, LAKES

from headrace.errors import CatalogError, LocationNotEmpty, TableAlreadyExists
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]

LAKE = {lake.name: lake for lake in LAKES}
COMMITTING = TransactionState.COMMITTING
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED


def one(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lake", [LAKE[name]], ids=str, indirect=True)


def properties(shore: Shore) -> dict[str, str]:
    return dict(rows(shore.spark, f"SHOW TBLPROPERTIES {shore.table}"))


@pytest.mark.parametrize("lake", [LAKE["delta"], LAKE["iceberg-base"]], ids=str, indirect=True)
def test_a_location_of_the_users(shore: Shore, link: JournalLink, tmp_path: Path) -> None:
    place = tmp_path / "place"
    text = shore.ctas(ROWS).replace(" AS SELECT", f" LOCATION '{place}' AS SELECT", 1)
    Ran(shore.spark, text, link)
    assert checksum(shore.spark, shore.table) == expected(shore.spark)
    with pytest.raises(LocationNotEmpty, match=str(place)):
        Ran(shore.spark, text.replace(f"{shore.table} ", f"{shore.table}2 ", 1), JournalLink())
    assert checksum(shore.spark, shore.table) == expected(shore.spark)
    assert shore.tables == ["t"]


@one("parquet")
def test_avro_and_text(shore: Shore, link: JournalLink) -> None:
    """By the connector that Spark does not bring, and by the format of one column."""
    avro = shore.ctas(ROWS).replace("USING parquet", "USING avro")
    assert Ran(shore.spark, avro, link).course.atomic is True
    assert checksum(shore.spark, shore.table) == expected(shore.spark)
    name = f"{shore.namespace}.words"
    Ran(shore.spark, f"CREATE TABLE {name} USING text AS SELECT 'a b' AS value", JournalLink())
    assert rows(shore.spark, f"SELECT * FROM {name}") == [("a b",)]
    assert shore.tables == ["t", "words"]


@one("delta")
def test_a_location_of_delta_after_a_crash(shore: Shore, link: JournalLink, tmp_path: Path) -> None:
    place = tmp_path / "place"
    text = shore.ctas(ROWS).replace(" AS SELECT", f" LOCATION '{place}' AS SELECT", 1)

    def die(step: TransactionState) -> None:
        if step is COMMITTING:
            raise Crash

    link.before = die
    with pytest.raises(Crash):
        Ran(shore.spark, text, link)
    again = JournalLink()
    again.steps = link.steps
    Ran(shore.spark, text, again, left=left_by(link))
    assert checksum(shore.spark, shore.table) == expected(shore.spark)
    assert not [file for file in place.rglob("*") if "headrace" in file.name]


@one("delta")
def test_a_path_in_the_place_of_a_name_is_deltas_own_business(
    shore: Shore, link: JournalLink, tmp_path: Path
) -> None:
    ran = Ran(shore.spark, f"CREATE TABLE delta.`{tmp_path / 'p'}` USING delta AS {ROWS}", link)
    assert (ran.course.atomic, link.steps) == (False, [])


@one("iceberg-base")
def test_properties_are_the_users_own_when_it_is_there(
    shore: Shore, link: JournalLink, tmp_path: Path
) -> None:
    Ran(shore.spark, shore.ctas(ROWS), link)
    assert not {key for key in properties(shore) if key.startswith("write.data")}
    theirs = f"TBLPROPERTIES ('write.data.path' = '{tmp_path / 'theirs'}', 'a' = 'b') AS SELECT"
    text = shore.ctas(ROWS, "CREATE OR REPLACE TABLE").replace("AS SELECT", theirs, 1)
    Ran(shore.spark, text, JournalLink())
    kept = properties(shore)
    assert (kept["write.data.path"], kept["a"]) == (str(tmp_path / "theirs"), "b")
    assert kept["headrace.txn"].startswith("tx_")
    # What a replacement says nothing of stays.
    Ran(shore.spark, shore.ctas(ROWS, "CREATE OR REPLACE TABLE"), JournalLink())
    assert properties(shore)["write.data.path"] == str(tmp_path / "theirs")
    assert checksum(shore.spark, shore.table) == expected(shore.spark)


@pytest.mark.parametrize("lake", IMPLEMENTATIONS, ids=str, indirect=True)
def test_a_driver_that_has_just_started_can_finish(
    shore: Shore, link: JournalLink, lakes: tuple[SparkSession, Path]
) -> None:
    """In a thread and a session in which nothing has been run."""
    Ran(shore.spark, shore.ctas(ROWS), link)
    fresh = shore.spark.newSession()
    for key, value in shore.spark.conf.getAll.items():
        if key.startswith("spark.sql.catalog."):
            fresh.conf.set(key, value)
    ended: list[object] = []

    def finish() -> None:
        ended.append(Ran(fresh, shore.ctas(ROWS), link, left=left_by(link)).course.settled)

    thread = threading.Thread(target=finish)
    thread.start()
    thread.join()
    assert ended == [True]


@one("jdbc")
def test_what_others_depend_on_is_not_replaced(shore: Shore, link: JournalLink) -> None:
    shore.spark.sql(shore.ctas(ROWS))
    catalog = shore.spark._jsparkSession.sessionState().catalogManager().catalog("pg")
    options = catalog.getClass().getDeclaredField("options")
    options.setAccessible(True)
    schema = shore.namespace.partition(".")[2]
    execute(shore.spark, options.get(catalog).url(), f"CREATE VIEW {schema}.v AS TABLE {schema}.t")
    with pytest.raises(CatalogError, match="depend"):
        Ran(shore.spark, shore.ctas(ROWS, "CREATE OR REPLACE TABLE"), link)
    assert link.steps[-2:] == [ABORTING, ABORTED]
    assert checksum(shore.spark, shore.table) == expected(shore.spark)
    with pytest.raises(TableAlreadyExists, match="it is a view"):
        Ran(shore.spark, shore.ctas(ROWS, name=f"{shore.namespace}.v"), JournalLink())
    execute(shore.spark, options.get(catalog).url(), f"DROP VIEW {schema}.v")


def execute(spark: SparkSession, url: str, text: str) -> None:
    """Another user of the database."""
    connection = spark._jvm.java.sql.DriverManager.getConnection(url)
    connection.createStatement().execute(text)
    connection.close()


@pytest.mark.parametrize(
    "lake", [LAKE["iceberg-files"], LAKE["iceberg-base"]], ids=str, indirect=True
)
def test_one_of_two_writers_wins(shore: Shore) -> None:
    """Both have begun before either is there: the catalog itself decides."""
    both = threading.Barrier(2)
    ended: list[object] = []

    def write() -> None:
        link = JournalLink()

        def meet(state: TransactionState) -> None:
            if state is TransactionState.BEGUN:
                both.wait(30)

        link.before = meet
        try:
            Ran(shore.spark, shore.ctas(ROWS), link)
            ended.append("won")
        except TableAlreadyExists:
            ended.append("lost")
        except Exception as error:  # noqa: BLE001 - the test says what it is
            ended.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ended)) == ["lost", "won"]
    assert shore.is_whole()
