"""The statements on streams that a driver executes."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from tests.support.results import Writer
from tests.support.streams import LEASE, find_no_other, make_desired

from headrace.driver.spark_version.collect import compute_constant_rows
from headrace.driver.streams.spark_run import RunStarter
from headrace.driver.streams.statements import run_stream_statement
from headrace.driver.streams.supervisor import Supervisor
from headrace.model.messages import Assignment
from headrace.model.result import ResultRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


QUERY_ID = f"sq_{1:032}"
SAVE = "SAVE STREAM numbers TO noop IDENTIFIED BY quiet"


def test_the_row_that_a_new_query_returns_needs_no_job(
    spark: SparkSession, numbers: str, tmp_path: Path, writer: Writer
) -> None:
    supervisor = Supervisor(
        start_run=RunStarter(spark.newSession, LEASE, find_no_other).start,
        read_conf=dict,
        on_change=lambda: None,
    )
    assignment = Assignment(
        statement_id="st_1",
        text=SAVE,
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=False,
        attempt=1,
        query=make_desired(SAVE, (numbers,), tmp_path, {}).model_copy(update={"id": QUERY_ID}),
    )
    try:
        frame = run_stream_statement(
            spark, assignment, supervisor, clone_session=spark.newSession, cancelling=Event()
        )
        _report, rows = writer.write(frame)
        values = [row for batch in rows.batches() for row in batch.to_pylist()]
        plan = frame._jdf.queryExecution().optimizedPlan()
        constant = compute_constant_rows(spark._jvm, plan)
    finally:
        supervisor.stop_all(30)

    assert [list(row.values()) for row in values] == [["quiet", QUERY_ID, f"{tmp_path}/wal-quiet"]]
    assert constant is not None
