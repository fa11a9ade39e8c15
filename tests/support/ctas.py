"""Runs a CTAS as a driver does, with a journal in memory, and inspects what remains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.journal import JournalLink

from headrace.driver.ctas import Cancelled, CommitUnfinished
from headrace.driver.execution_plan import ExecutionPlan
from headrace.driver.hooks import Hooks, StatementFacts
from headrace.driver.planner import plan_statement
from headrace.driver.spark_version.collect import collect_arrow
from headrace.model.expectation import Expectation
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import Assignment, JournalEntry, OrphanedTransaction
from headrace.model.result import ResultRequest
from headrace.model.statement import Parameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATEMENT = "st_" + "1" * 32
ROWS = "SELECT id, id % 3 AS k, CAST(id AS STRING) AS s FROM range(100)"
_CHECKSUM = "count(*), sum(CAST(id AS BIGINT)), count(DISTINCT id), sum(CAST(k AS BIGINT))"


class Crash(BaseException):
    """Simulates a SIGKILL: no code under test catches it or cleans up after it."""


class CtasRun:
    """One statement that has run to its end. The constructor raises the statement's error."""

    def __init__(
        self,
        spark: SparkSession,
        text: str,
        link: JournalLink,
        *,
        parameters: list[Parameter] | None = None,
        earlier: JournalEntry | None = None,
        expectations: list[Expectation] | None = None,
    ) -> None:
        """Run the statement.

        Args:
            earlier: Transaction of an earlier attempt, which this attempt has to resolve.
        """
        assignment = Assignment(
            statement_id=STATEMENT,
            text=text,
            parameters=parameters or [],
            conf={},
            result_request=ResultRequest(),
            is_query=False,
            attempt=1 if earlier is None else 2,
            transaction=earlier,
            expectations=expectations or [],
        )
        facts = StatementFacts(
            id=STATEMENT, session_id="se_1", text=text, attempt=assignment.attempt
        )
        self.plan: ExecutionPlan = plan_statement(spark, assignment, link.as_link(), facts)
        hooks = Hooks(facts, [], self.plan.hook)
        try:
            hooks.notify_created()
            frame = self.plan.run()
            hook = self.plan.hook
            self.plan.check_rows(frame, None if hook is None else hook.rows_written)
            self.rows = fetch_frame_rows(frame)
            hooks.notify_finished()
        except Cancelled:
            hooks.notify_cancelled()
            raise
        except CommitUnfinished:
            raise
        except Exception as error:
            hooks.notify_failed(error)
            if self.plan.checks is not None:
                raise self.plan.checks.explain(error) from None
            raise


def journal_entry(link: JournalLink) -> JournalEntry:
    """Return the journal's entry of the transaction that the link's driver ran."""
    assert link.staged is not None
    return JournalEntry(
        id=link.transaction,
        state=link.steps[-1],
        staged=link.staged,
        staged_epoch=link.bootstrap.epoch,
    )


def crash_before(link: JournalLink, state: TransactionState) -> None:
    """Make the driver crash just before it journals this state."""

    def crash(step: TransactionState) -> None:
        if step is state:
            raise Crash

    link.before_step = crash


def orphan_transaction(link: JournalLink) -> OrphanedTransaction:
    """Turn the transaction of the link's driver into an orphan that `recover` can claim."""
    orphan = OrphanedTransaction(**journal_entry(link).model_dump(), statement_id=STATEMENT)
    link.orphaned = [orphan]
    link.before_step = lambda _state: None
    return orphan


def fetch_frame_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a DataFrame. PySpark's `collect` would leave a socket open."""
    return [tuple(row.values()) for batch in collect_arrow(frame) for row in batch.to_pylist()]


def fetch_rows(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return fetch_frame_rows(spark.sql(text))


def checksum(spark: SparkSession, table: str) -> Any:
    """Return a checksum of a table with the rows of ROWS, in any format."""
    return fetch_rows(spark, f"SELECT {_CHECKSUM} FROM {table}")


def expected_checksum(spark: SparkSession) -> Any:
    """Return the checksum of ROWS."""
    return fetch_rows(spark, f"SELECT {_CHECKSUM} FROM ({ROWS})")


def list_tables(spark: SparkSession) -> list[str]:
    """Return the names of the current database's tables."""
    return sorted(row[1] for row in fetch_rows(spark, "SHOW TABLES"))


def database_directory(spark: SparkSession) -> Path:
    """Return the directory of the current database."""
    [[database]] = fetch_rows(spark, "SELECT current_database()")
    description = dict(fetch_rows(spark, f"DESCRIBE DATABASE {database}"))
    return Path(urlsplit(description["Location"]).path)


def list_directories(spark: SparkSession) -> list[str]:
    """Return the names of the entries in the current database's directory."""
    directory = database_directory(spark)
    return sorted(entry.name for entry in directory.iterdir()) if directory.exists() else []
