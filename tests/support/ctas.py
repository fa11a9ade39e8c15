"""Running a CTAS as a driver does, with a journal in memory, and looking at what is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.journal import JournalLink

from headrace.driver.ctas import (
    Cancelled,
    CommitUnfinished,
    ExecutionPlan,
    StatementFacts,
    plan_statement,
)
from headrace.driver.hooks import Hooks
from headrace.driver.output.arrow_collect import collect_arrow
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import Assignment, JournalEntry, OrphanedTransaction
from headrace.model.result import Disposition
from headrace.model.statement import Parameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "SELECT id, id % 3 AS k, CAST(id AS STRING) AS s FROM range(100)"
_SUM = "count(*), sum(CAST(id AS BIGINT)), count(DISTINCT id), sum(CAST(k AS BIGINT))"


class Crash(BaseException):
    """In the place of a SIGKILL: nothing is caught, nothing is cleaned up."""


class Ran:
    """One statement, run to its end unless it raises."""

    def __init__(
        self,
        spark: SparkSession,
        text: str,
        link: JournalLink,
        *,
        parameters: list[Parameter] | None = None,
        left: JournalEntry | None = None,
    ) -> None:
        assignment = Assignment(
            statement_id="st_1",
            text=text,
            parameters=parameters or [],
            conf={},
            disposition=Disposition.AUTO,
            row_limit=None,
            byte_limit=None,
            location=None,
            is_query=False,
            attempt=1 if left is None else 2,
            transaction=left,
        )
        facts = StatementFacts(id="st_1", session_id="se_1", text=text, attempt=assignment.attempt)
        self.course: ExecutionPlan = plan_statement(spark, assignment, link.as_link(), facts)
        hooks = Hooks(facts, [], self.course.hook)
        try:
            hooks.created()
            self.rows = rows_of(self.course.run())
            hooks.finished()
        except Cancelled:
            hooks.cancelled()
            raise
        except CommitUnfinished:
            raise
        except Exception as error:
            hooks.failed(error)
            raise


def left_by(link: JournalLink) -> JournalEntry:
    """What the journal says of a transaction that nobody drives any more."""
    assert link.staged is not None
    return JournalEntry(id="tx_left", state=link.steps[-1], staged=link.staged)


def crash_at(link: JournalLink, state: TransactionState) -> None:
    """The process dies just before this step is journalled."""

    def die(step: TransactionState) -> None:
        if step is state:
            raise Crash

    link.before = die


def abandoned(link: JournalLink) -> OrphanedTransaction:
    """What the driver with this link has left, for the same link to take over."""
    left = OrphanedTransaction(**left_by(link).model_dump(), statement_id="st_0")
    link.left = [left]
    link.before = lambda _state: None
    return left


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Its rows; PySpark's own `collect` leaves a socket open until it is let go of."""
    return [tuple(row.values()) for batch in collect_arrow(frame) for row in batch.to_pylist()]


def rows(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return rows_of(spark.sql(text))


def checksum(spark: SparkSession, table: str) -> Any:
    """Of what ROWS gives, whatever types a format has made of it."""
    return rows(spark, f"SELECT {_SUM} FROM {table}")


def expected(spark: SparkSession) -> Any:
    return rows(spark, f"SELECT {_SUM} FROM ({ROWS})")


def tables(spark: SparkSession) -> list[str]:
    """Names of the current database's tables."""
    return sorted(row[1] for row in rows(spark, "SHOW TABLES"))


def database_place(spark: SparkSession) -> Path:
    """The directory of the current database."""
    [[database]] = rows(spark, "SELECT current_database()")
    told = dict(rows(spark, f"DESCRIBE DATABASE {database}"))
    return Path(urlsplit(told["Location"]).path)


def folders(spark: SparkSession) -> list[str]:
    """What there is in the current database's directory."""
    place = database_place(spark)
    return sorted(one.name for one in place.iterdir()) if place.exists() else []
