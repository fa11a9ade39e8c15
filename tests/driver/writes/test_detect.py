"""The tables that a statement writes to, as Spark's parser describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.driver.spark_version.commit_protocol import CommitProtocol
from headrace.driver.writes.locks import WriteDetector

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.finding("B21")]

_APPENDS = [
    "INSERT INTO {t} VALUES (1, 2)",
    "INSERT INTO `{T}` PARTITION (k = 1) SELECT 1",
    "INSERT INTO {t} (k, id) SELECT 1, 2",
    "WITH c AS (SELECT 1, 2) INSERT INTO spark_catalog.{d}.{t} SELECT * FROM c",
    "INSERT INTO IDENTIFIER('{d}.{t}') VALUES (1, 2)",
    "EXECUTE IMMEDIATE 'INSERT INTO {t} VALUES (1, ?)' USING 2",
]
_OVERWRITES = [
    "EXECUTE IMMEDIATE 'INSERT OVERWRITE {t} VALUES (1, 2)'",
    "LOAD DATA INPATH '/x' INTO TABLE {t} PARTITION (k = 1)",
    "INSERT OVERWRITE {t} VALUES (1, 2)",
    "INSERT OVERWRITE TABLE {d}.{t} PARTITION (k) SELECT 1, 2",
    "LOAD DATA INPATH '/x' OVERWRITE INTO TABLE {t} PARTITION (k = 1)",
    "TRUNCATE TABLE {t}",
    "TRUNCATE TABLE {t} PARTITION (k = 1)",
    "ALTER TABLE {t} DROP PARTITION (k = 1)",
    "ALTER TABLE {t} RENAME TO other",
    "DROP TABLE IF EXISTS {t}",
]
_OTHERS = [
    "SELECT * FROM {t}",
    "EXPLAIN INSERT INTO {t} VALUES (1, 2)",
    "INSERT INTO missing VALUES (1)",
    "INSERT INTO other_catalog.{d}.{t} VALUES (1, 2)",
    "CREATE TABLE new AS SELECT 1",
    "DROP VIEW v",
    "REFRESH TABLE {t}",
]


@pytest.fixture
def names(spark: SparkSession, database: str) -> dict[str, str]:
    CommitProtocol(spark).activate()
    spark.conf.set("spark.sql.catalog.other_catalog", "org.example.Missing")
    spark.sql("CREATE TABLE t (id BIGINT, k BIGINT) USING parquet PARTITIONED BY (k)")
    return {"t": "t", "T": "T", "d": database}


def find(spark: SparkSession, text: str) -> list[tuple[str, str | None, bool]]:
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    writes = WriteDetector(spark).find_writes(plan)
    return [(write.location, write.table, write.overwrite) for write in writes]


def test_every_statement_that_writes_to_a_table_is_found(
    spark: SparkSession, names: dict[str, str]
) -> None:
    [(location, table, _)] = find(spark, "INSERT INTO t VALUES (1, 2)")
    assert location.endswith(f"{names['d']}.db/t")
    assert table == f"`{names['d']}`.`t`"
    for templates, overwrite in ((_APPENDS, False), (_OVERWRITES, True)):
        for template in templates:
            text = template.format(**names)
            assert find(spark, text) == [(location, table, overwrite)], text


def test_statements_that_write_to_no_table_of_files_are_not_found(
    spark: SparkSession, names: dict[str, str]
) -> None:
    for template in _OTHERS:
        assert find(spark, template.format(**names)) == [], template


@pytest.mark.parametrize("name", ["plain", "with space é", "a%20b"])
def test_a_table_and_its_directory_are_one_target_however_it_is_spelled(
    spark: SparkSession, database: str, tmp_path: Path, name: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    spark.sql(f"CREATE TABLE e (id BIGINT) USING parquet LOCATION '{tmp_path}/{name}'")
    texts = [
        "INSERT OVERWRITE e VALUES (1)",
        f"INSERT INTO parquet.`{tmp_path}/{name}/` VALUES (1)",
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/x/../{name}' USING parquet SELECT 1",
        f"INSERT INTO parquet.`FILE:{tmp_path}/link/{name}` VALUES (1)",
        f"INSERT OVERWRITE DIRECTORY 'file://{tmp_path}//link/{name}' USING parquet SELECT 1",
    ]
    assert {location for text in texts for location, *_ in find(spark, text)} == {
        f"file:{tmp_path}/{name}"
    }


def test_each_target_of_a_multiple_insert_is_found(spark: SparkSession, database: str) -> None:
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE {name} (id BIGINT) USING parquet")
    writes = find(
        spark, "FROM range(3) r INSERT INTO a SELECT id INSERT OVERWRITE TABLE b SELECT id"
    )
    assert [(table, overwrite) for _, table, overwrite in writes] == [
        (f"`{database}`.`a`", False),
        (f"`{database}`.`b`", True),
    ]


def test_the_tables_of_a_script_are_found(spark: SparkSession, names: dict[str, str]) -> None:
    script = (
        "BEGIN DECLARE n INT DEFAULT 1; INSERT INTO t VALUES (n, 2);"
        " IF n > 1 THEN BEGIN TRUNCATE TABLE t; END; END IF; END"
    )
    [(_, table, overwrite)] = find(spark, script)
    assert (table, overwrite) == (f"`{names['d']}`.`t`", True)


def test_appends_lock_the_table_exclusively_if_the_user_has_chosen_another_committer(
    spark: SparkSession, names: dict[str, str]
) -> None:
    key = "spark.sql.sources.outputCommitterClass"
    spark.conf.set(key, "org.apache.hadoop.mapreduce.lib.output.PartialFileOutputCommitter")
    try:
        [(_, _, overwrite)] = find(spark, "INSERT INTO t VALUES (1, 2)")
    finally:
        spark.conf.unset(key)
    assert overwrite
