"""Calls of the JVM and of the node that a statement makes: each one is a round trip.

`pytest -s tests/driver/test_round_trips.py` prints the numbers. The bounds leave room for a few
calls more. Raise one only for a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.journal import JournalLink
from tests.support.jvm_calls import counted_calls

from headrace.driver.execute import Execution
from headrace.driver.output import executor_write
from headrace.grammar.parse import parse
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Acknowledged, Assignment, BeginWrite, Transact, WriteLock
from headrace.model.result import ResultRequest

if TYPE_CHECKING:
    from headrace.driver.link import NodeLink
    from headrace.driver.spark import Spark


class CountingLink(JournalLink):
    """Answers the calls of statements that write, and counts them."""

    def __init__(self, results: Path) -> None:
        super().__init__()
        self.bootstrap = self.bootstrap.model_copy(update={"results": str(results)})
        self.calls = 0

    def transact(self, message: Transact) -> Any:
        self.calls += 1
        if message.id != self.transaction:
            self.steps = []
        return super().transact(message)

    def begin_write(self, _message: BeginWrite) -> WriteLock:
        self.calls += 1
        return WriteLock(granted=True)

    def report_start(self, *_values: object, **_options: object) -> Acknowledged:
        self.calls += 1
        return Acknowledged(applied=True)


def run(spark: Spark, link: NodeLink, text: str) -> None:
    assignment = Assignment(
        statement_id=new_id("st"),
        text=text,
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=parse(text).is_query,
        attempt=1,
        ordinal=1,
    )
    execution = Execution(spark, link, assignment, cast("Any", None))
    ended = execution.run()
    execution.remove_job_tag()
    assert ended.state is StatementState.SUCCESS, ended.failure


@pytest.fixture(scope="module")
def database(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the name of a database with a table `t` and a table `p` with partitions."""
    spark.sql(f"CREATE DATABASE trips LOCATION '{tmp_path_factory.mktemp('trips')}'")
    spark.sql("CREATE TABLE trips.t (id BIGINT) USING parquet")
    spark.sql("CREATE TABLE trips.p (id BIGINT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql("CREATE TABLE trips.s USING parquet AS SELECT 'a' AS s FROM range(10)")
    yield "trips"
    spark.sql("DROP DATABASE trips CASCADE")


@pytest.mark.parametrize(
    ("text", "jvm_calls", "link_calls"),
    [
        ("INSERT INTO trips.t VALUES (1)", 75, 4),
        ("INSERT OVERWRITE trips.t VALUES (1)", 80, 4),
        ("INSERT INTO trips.p PARTITION (k = 1) VALUES (1)", 110, 4),
        ("CREATE TABLE trips.c{} USING parquet AS SELECT 1 AS id", 110, 3),
        # It changes nothing: a driver that is lost meanwhile does not fail it.
        ("CREATE TABLE IF NOT EXISTS trips.t USING parquet AS SELECT 1 AS id", 90, 0),
        ("DROP TABLE trips.c{}", 40, 2),
        ("DESCRIBE trips.t", 26, 0),
        ("EXPLAIN SELECT * FROM trips.t", 26, 0),
        ("SHOW TABLES IN trips", 26, 0),
        ("SELECT * FROM trips.t LIMIT 1000", 35, 0),
        ("SELECT * FROM trips.s LIMIT 1000", 50, 0),
        ("SELECT * FROM trips.s", 50, 0),
    ],
)
@pytest.mark.usefixtures("database")
def test_a_statement_takes_few_round_trips(
    driver_spark: Spark,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    jvm_calls: int,
    link_calls: int,
) -> None:
    link = CountingLink(tmp_path)
    # A thread asks for finished tasks once per interval: their number depends on the machine.
    monkeypatch.setattr(executor_write, "_INTERVAL_SECONDS", 3600.0)
    # The first statement of a kind compiles classes and looks them up.
    run(driver_spark, link.as_link(), text.format(1))
    link.calls = 0
    with counted_calls(monkeypatch) as commands:
        run(driver_spark, link.as_link(), text.format(2))
    print(f"{len(commands)} calls of the JVM and {link.calls} of the node: {text}")  # noqa: T201 - see the top
    assert (len(commands) <= jvm_calls, link.calls) == (True, link_calls), commands


def test_jars_of_a_session_take_no_round_trips(
    driver_spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of the tests has dozens of jars, which a snapshot of its state lists."""
    tracker = driver_spark.track_state()
    assert len(tracker._initial_resources["jars"]) > 10
    with counted_calls(monkeypatch) as commands:
        assert tracker.capture_changes() is None
    assert len(commands) == 1
