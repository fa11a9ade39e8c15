"""A statement that Spark refuses has the condition, SQLSTATE and position of Spark in Headrace too.

tests/driver/ctas/test_spark_conditions.py has the refusals of CREATE TABLE … AS SELECT.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.driver.ctas.test_spark_conditions import find_refusal, identify
from tests.support.journal import JournalLink
from tests.support.streams import read_rows

from headrace.driver.execute import Execution
from headrace.errors import HeadraceError
from headrace.grammar.parse import parse
from headrace.model.failure import Failure
from headrace.model.messages import Acknowledged, Assignment, BeginWrite, WriteLock
from headrace.model.result import ResultRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.spark import Spark

REFUSED = """
INSERT INTO nowhere VALUES (1)
INSERT INTO t VALUES (1)
INSERT INTO t VALUES (1, 2, 3)
INSERT INTO t (nope) VALUES (1)
INSERT INTO t (k, k) VALUES (1, 2)
INSERT INTO v VALUES (1, 2)
INSERT INTO tv VALUES (1, 2)
INSERT INTO t SELECT 'x', 2
INSERT INTO t SELECT ARRAY(1), 2
INSERT INTO t BY NAME SELECT 1 AS k, 2 AS nope
INSERT INTO t PARTITION (nope = 1) SELECT 1
INSERT INTO p PARTITION (k = 1, k = 2) SELECT 1
INSERT INTO p PARTITION (k = 'x') SELECT 1
INSERT OVERWRITE t SELECT * FROM t WHERE nope = 1
INSERT OVERWRITE t SELECT * FROM t
INSERT OVERWRITE p PARTITION (k = 1) SELECT 1, 2
INSERT INTO t REPLACE WHERE k = 1 SELECT 1, 2
INSERT INTO nowhere.t VALUES (1)
INSERT INTO a.b.c VALUES (1)
INSERT INTO t SELECT * FROM nowhere
INSERT INTO t SELECT 1 / 0, 2
INSERT INTO t SELECT CAST('x' AS INT), 2
INSERT INTO t SELECT raise_error('no'), 2
INSERT INTO t VALUES (1, 2
INSERT INTO `a/b` VALUES (1)
INSERT INTO t VALUES (99999999999, 2)
INSERT INTO c VALUES ('toolong')
INSERT OVERWRITE DIRECTORY '/x' USING nosuch SELECT 1
INSERT INTO parquet.`/nowhere/x` VALUES (1)
FROM t INSERT INTO nowhere SELECT *
FROM t INSERT INTO t SELECT * INSERT INTO nowhere SELECT *
WITH q AS (SELECT 1) INSERT INTO nowhere SELECT * FROM q
UPDATE t SET x = 1
UPDATE nowhere SET x = 1
UPDATE t SET nope = 1
DELETE FROM t WHERE k = 1
DELETE FROM nowhere
DELETE FROM t WHERE nope = 1
MERGE INTO t USING t AS s ON t.k = s.k WHEN MATCHED THEN DELETE
MERGE INTO nowhere USING t AS s ON true WHEN MATCHED THEN DELETE
MERGE INTO t USING nowhere AS s ON true WHEN MATCHED THEN DELETE
TRUNCATE TABLE nowhere
TRUNCATE TABLE v
LOAD DATA INPATH '/nowhere/x' INTO TABLE t
LOAD DATA LOCAL INPATH '/nowhere/x' INTO TABLE nowhere
CREATE TABLE t (x INT) USING parquet
CREATE TABLE n (x INT, x INT) USING parquet
CREATE TABLE n (x nosuchtype) USING parquet
CREATE TABLE n (x INT) USING nosuch
CREATE TABLE n (x INT) USING parquet PARTITIONED BY (nope)
CREATE TABLE nowhere.n (x INT) USING parquet
CREATE TABLE `a-b` (x INT) USING parquet
CREATE TABLE n LIKE nowhere
CREATE TABLE t LIKE p
REPLACE TABLE t (x INT) USING parquet
CREATE OR REPLACE TABLE t (x INT) USING parquet
DROP TABLE nowhere
DROP TABLE v
DROP TABLE nowhere.t
DROP VIEW t
DROP VIEW nowhere
DROP DATABASE nowhere
DROP DATABASE default
DROP DATABASE {database}
DROP FUNCTION nowhere
DROP TEMPORARY FUNCTION nowhere
DROP TEMPORARY VARIABLE nowhere
CREATE DATABASE {database}
CREATE DATABASE `a-b`
CREATE VIEW v AS SELECT 1 AS x
CREATE VIEW t AS SELECT 1 AS x
CREATE VIEW n AS SELECT * FROM tv
CREATE VIEW n AS SELECT nope
CREATE VIEW n AS SELECT 1 AS x, 2 AS x
CREATE VIEW n (a, b) AS SELECT 1
CREATE VIEW nowhere.n AS SELECT 1 AS x
CREATE VIEW a.b.c AS SELECT 1 AS x
CREATE TEMPORARY VIEW tv AS SELECT 1 AS x
CREATE TEMPORARY VIEW a.b AS SELECT 1 AS x
CREATE TEMPORARY VIEW n USING nosuch
CREATE GLOBAL TEMPORARY VIEW n AS SELECT nope
ALTER VIEW nowhere AS SELECT 1
ALTER VIEW t AS SELECT 1
ALTER TABLE nowhere ADD COLUMN x INT
ALTER TABLE t ADD COLUMN k INT
ALTER TABLE t RENAME TO p
ALTER TABLE t DROP COLUMN k
ALTER TABLE t RECOVER PARTITIONS
MSCK REPAIR TABLE t
ALTER TABLE p ADD PARTITION (nope = 1)
ALTER TABLE p DROP PARTITION (k = 9)
USE nowhere
USE a.b.c
USE CATALOG nowhere
SET CATALOG nowhere
SET spark.sql.shuffle.partitions = abc
SET spark.sql.extensions = x
SET spark.sql.warehouse.dir = x
SET spark.driver.memory = 2g
SET spark.master = x
SET TIME ZONE 'Mars/Base'
SET VAR nowhere = 1
SET spark.sql.session.timeZone = nowhere
RESET spark.sql.extensions
RESET spark.sql.warehouse.dir
DECLARE VARIABLE x INT DEFAULT 'a'
CREATE TEMPORARY FUNCTION f AS 'no.such.Class'
CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN nope
ADD FILE /nowhere/x
CACHE TABLE nowhere
UNCACHE TABLE nowhere
REFRESH TABLE nowhere
ANALYZE TABLE nowhere COMPUTE STATISTICS
DESCRIBE nowhere
DESCRIBE DATABASE nowhere
SHOW TABLES IN nowhere
SHOW PARTITIONS t
SHOW COLUMNS IN nowhere
SHOW CREATE TABLE nowhere
SELECT nope
SELECT * FROM nowhere
SELECT * FROM nowhere.t
SELECT nofunction(1)
SELECT :missing
SELECT ?
SELECT CAST('x' AS INT)
SELECT 1 / 0
SELECT ARRAY(1)[5]
SELECT raise_error('no')
SELECT 1 AS a, 2 AS a ORDER BY a
SELECT a, count(*) FROM VALUES (1) AS t(a)
VALUES (1), (1, 2)
EXECUTE IMMEDIATE 'SELECT nope'
EXECUTE IMMEDIATE 'SELECT ?' USING 1, 2
EXECUTE IMMEDIATE 'SELECT :a' USING 1
EXECUTE IMMEDIATE 'SELEC 1'
EXECUTE IMMEDIATE nowhere
EXECUTE IMMEDIATE 'CREATE TABLE t AS SELECT 1 AS x'
EXECUTE IMMEDIATE 'INSERT INTO nowhere VALUES (1)'
BEGIN SELECT nope; END
BEGIN CREATE TABLE t AS SELECT 1 AS x; END
BEGIN INSERT INTO nowhere VALUES (1); END
BEGIN SIGNAL SQLSTATE '45000'; END
BEGIN DECLARE x INT; DECLARE x INT; END
BEGIN SET nowhere = 1; END
SELEC 1
FOO
CALL nowhere()
CREATE TABLE t AS SELECT * FROM endless
CREATE TABLE n AS SELECT * FROM endless
SELECT * FROM endless
INSERT INTO t SELECT n, n FROM endless
CREATE VIEW n AS SELECT * FROM endless
"""
"""One statement in each line. `tv` is a temporary view, `endless` one over a stream."""
QUERIES = ("SELECT", "VALUES")


class Link(JournalLink):
    """Grants every write lock, and accepts the report that a statement has effects."""

    def report_start(self, *_arguments: Any, **_flags: Any) -> Acknowledged:
        return Acknowledged(applied=True)

    def begin_write(self, _message: BeginWrite) -> WriteLock:
        return WriteLock(granted=True)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a database with the tables and views of the statements."""
    database = f"d_{secrets.token_hex(4)}"
    folder = tmp_path_factory.mktemp("endless")
    (folder / "rows.json").write_text('{"n": 1}')
    for text in (
        f"CREATE DATABASE {database}",
        f"USE {database}",
        "CREATE TABLE t (k INT, x INT) USING parquet",
        "CREATE TABLE c (s CHAR(3)) USING parquet",
        "CREATE TABLE p (x INT, k INT) USING parquet PARTITIONED BY (k)",
        "CREATE VIEW v AS SELECT 1 AS x",
        "CREATE TEMPORARY VIEW tv AS SELECT 1 AS x",
    ):
        spark.sql(text)
    spark.readStream.schema("n INT").json(str(folder)).createOrReplaceTempView("endless")
    yield database
    for text in (
        "DROP VIEW tv",
        "DROP VIEW endless",
        "USE default",
        f"DROP DATABASE {database} CASCADE",
    ):
        spark.sql(text)


def run(spark: Spark, text: str) -> Failure:
    """Return the failure of a statement that a driver runs as a node has assigned it."""
    assignment = Assignment(
        statement_id=f"st_{1:032}",
        text=text,
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=text.startswith(QUERIES),
        attempt=1,
    )
    execution = Execution(spark, Link().as_link(), assignment, cast("Any", None))
    ended = execution.run()
    execution.remove_job_tag()
    assert ended.failure is not None, text
    return ended.failure


@pytest.mark.parametrize("text", REFUSED.strip().splitlines())
def test_a_refused_statement_has_condition_sqlstate_and_position_of_spark(
    driver_spark: Spark, spark: SparkSession, tables: str, text: str
) -> None:
    driver_spark.prepare_changes()
    text = text.replace("{database}", tables)
    spark.sql(f"USE {tables}")
    ours = identify(run(driver_spark, text))
    theirs = find_refusal(lambda: read_rows(spark.sql(text)), text)

    assert ours == theirs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1; SELECT 2",
        "SELECT 1 \0",
        "CANCEL STATEMENT",
        "CANCEL STATEMENT st_1",
        "CREATE STREAM s FROM",
        "CREATE SINK s TO",
        "SAVE STREAM s TO TABLE",
        "STOP STREAM",
        "DROP STREAM a b",
        "CREATE MATERIALIZED VIEW v WITH",
    ],
)
def test_a_text_that_no_node_accepts_has_the_condition_of_spark(
    spark: SparkSession, text: str
) -> None:
    with pytest.raises(HeadraceError) as raised:
        parse(text)
    condition, sqlstate, _line, _column = find_refusal(lambda: spark.sql(text), text)

    assert (raised.value.condition, raised.value.sqlstate) == (condition, sqlstate)
