"""Advice on DDL of Flink, by the tables of the runner from which manifests come."""

from __future__ import annotations

import pytest

from headrace.deploy.flink import explain_flink_ddl

SEED = """create table `kafka`.`some-flink-table-name` (
  `column_a` STRING,
  `record_time` TIMESTAMP(3),
  WATERMARK FOR `record_time` AS `record_time` - INTERVAL '5' SECOND
) with (
  'connector' = 'kafka',
  'topic' = 'some-topic-name'
)"""


def test_each_clause_of_flink_has_its_counterpart() -> None:
    advice = explain_flink_ddl(SEED)
    assert advice is not None
    assert "TIMESTAMP in place of TIMESTAMP(3)" in advice
    assert "WATERMARK c DELAY OF INTERVAL 5 SECONDS" in advice
    assert "CREATE STREAM name (column type, …) FROM kafka" in advice
    assert "CREATE SINK name TO kafka" in advice


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT, at TIMESTAMP) USING parquet",
        "CREATE TABLE t (a DECIMAL(3))",
        "CREATE TABLE t (a STRING COMMENT 'WITH (x) TIMESTAMP(3)')",
        "CREATE VIEW v AS WITH (SELECT 1)",
        "SELECT TIMESTAMP(3)",
        "",
    ],
)
def test_other_statements_need_no_advice(text: str) -> None:
    assert explain_flink_ddl(text) is None
