"""Running one statement: bind, run, write the result, and say how it ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas import Cancelled, CommitUnfinished
from headrace.driver.failures import failure_of
from headrace.driver.hooks import Hooks, StatementFacts, load_hooks, report_lost_attempt
from headrace.driver.link import Link, LinkRefused, NoNodeAnswers
from headrace.driver.output import OutputOptions, write_result
from headrace.driver.planner import ExecutionPlan, plan_statement
from headrace.driver.spark import Spark
from headrace.errors import DriverLost, HeadraceError, LeaseLost
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment, Ended
from headrace.model.result import ResultReport
from headrace.model.snapshot import Snapshot

_LOG = logging.getLogger("headrace.driver")
_POOL = "spark.scheduler.pool"
"""One for each thread: the FAIR scheduler shares the slots among those that have work."""
_CANCEL_EVERY_SECONDS = 0.1
_DYING_SECONDS = 2.0
"""How long a JVM may take to be gone after its connections have broken."""
_NOT_THE_STATEMENTS = (LeaseLost, NoNodeAnswers, LinkRefused)
_TOLD_BY_A_LIVING_JVM = (PySparkException, Py4JJavaError, HeadraceError)


class Execution:
    """One attempt at one statement, in the thread that calls `run`."""

    def __init__(self, spark: Spark, link: Link, assignment: Assignment) -> None:
        self.assignment = assignment
        self._spark = spark
        self._link = link
        self._bootstrap = link.bootstrap
        self._course: ExecutionPlan | None = None
        self._hooks = Hooks(self._facts, [], None)
        self._ended = threading.Event()
        self._cancelling = threading.Event()

    @property
    def cancelling(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelling.is_set()

    def run(self) -> Ended:
        """Says how it ended; what the user's SQL raises is told in the report.

        Raises DriverLost when the JVM has died, and LeaseLost, Orphaned and Refused when a table
        that it creates may not go on.
        """
        began = time.monotonic()
        try:
            ended = self._succeeded(self._ran())
        except _NOT_THE_STATEMENTS:
            raise
        except CommitUnfinished as error:
            raise DriverLost(error.message) from error
        except Exception as error:
            doubt = 0.0 if isinstance(error, _TOLD_BY_A_LIVING_JVM) else _DYING_SECONDS
            if not self._spark.alive(doubt_seconds=doubt):
                raise DriverLost("The JVM of the driver died.") from error
            ended = self._failed(error)
        finally:
            self._ended.set()
        self._leave_no_tag()
        told = {"ran_seconds": time.monotonic() - began, "snapshot": self._snapshot()}
        return ended.model_copy(update=told)

    def _ran(self) -> ResultReport:
        assignment, context, session = self.assignment, self._spark.context, self._spark.session
        context.addJobTag(assignment.statement_id)
        context.setJobDescription(assignment.text[:200])
        if self._bootstrap.parallelism > 1:
            context.setLocalProperty(_POOL, threading.current_thread().name)
            session = self._spark.state.branch() if assignment.is_query else session
        with _configured(session, assignment.conf):
            self._course = course = plan_statement(session, assignment, self._link, self._facts)
            self._begin(course)
            try:
                report = write_result(course.run(), self._spec())
            finally:
                # What is published or removed from here on must not be torn by a cancel.
                self._leave_no_tag()
            self._hooks.notify_finished(can_veto=course.can_be_vetoed)
        return report

    def _begin(self, course: ExecutionPlan) -> None:
        """Tells the hooks. Last those of Headrace: what the users' refuse is not published."""
        facts, can_veto = self._facts, not course.completed_earlier
        if facts.attempt > 1:
            report_lost_attempt(replace(facts, attempt=facts.attempt - 1))
        self._hooks = Hooks(facts, load_hooks(facts, can_veto=can_veto), course.hook)
        self._hooks.notify_created(can_veto=can_veto)

    def ends_within(self, seconds: float) -> bool:
        """Waits until the statement has run to its end, but no longer."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """Cancels the Spark work again and again until `run` returns.

        A job that starts after a cancel, e.g. because planning was still going on, would run on.
        What Spark does not react to (a file listing on the driver) ends when it ends.
        """
        if not self.cancelling:
            self._cancelling.set()
            threading.Thread(target=self._keep_cancelling, daemon=True).start()

    def _keep_cancelling(self) -> None:
        tag = self.assignment.statement_id
        while True:
            try:
                self._spark.context.cancelJobsWithTag(tag)
                # Its jobs are not this statement's to Spark.
                self._spark.stop_stream(tag)
            except (Py4JError, OSError) as error:
                _LOG.warning("cancel of %s: %s", tag, error)
            if self._ended.wait(_CANCEL_EVERY_SECONDS):
                return

    def _snapshot(self) -> Snapshot | None:
        """What the statement has changed of the session, whether it succeeded or not."""
        if self.assignment.is_query or (self._course is not None and self._course.hook is not None):
            # A CTAS changes a catalog, and nothing of the session.
            return None
        try:
            return self._spark.state.changed()
        except (Py4JError, OSError) as error:
            # The state told last still holds; a dead JVM is found out by the lease's renewal.
            _LOG.warning("no snapshot after %s: %s", self.assignment.statement_id, error)
            return None

    def _leave_no_tag(self) -> None:
        """The thread's next statement is not to be cancelled by this one's name."""
        try:
            self._spark.context.removeJobTag(self.assignment.statement_id)
        except (Py4JError, OSError) as error:
            _LOG.warning("the tag of %s stays: %s", self.assignment.statement_id, error)

    @property
    def _facts(self) -> StatementFacts:
        assignment = self.assignment
        return StatementFacts(
            id=assignment.statement_id,
            session_id=self._bootstrap.session_id,
            text=assignment.text,
            attempt=assignment.attempt,
        )

    def _succeeded(self, report: ResultReport) -> Ended:
        course = self._course
        assert course is not None
        return Ended(
            statement_id=self.assignment.statement_id,
            state=StatementState.SUCCESS,
            result=report,
            committed=course.hook.transaction if course.hook is not None else None,
            atomic=course.atomic,
            note=course.note,
        )

    def _failed(self, error: Exception) -> Ended:
        statement_id = self.assignment.statement_id
        failure = failure_of(error, self.assignment.text)
        if self.cancelling or isinstance(error, Cancelled):
            self._hooks.notify_cancelled()
            cancelled = StatementState.CANCELLED
            return Ended(statement_id=statement_id, state=cancelled, failure=failure)
        self._hooks.notify_failed(error)
        _LOG.warning("statement %s failed: %s", statement_id, failure.message.partition("\n")[0])
        return Ended(statement_id=statement_id, state=StatementState.FAILED, failure=failure)

    def _spec(self) -> OutputOptions:
        assignment, bootstrap = self.assignment, self._bootstrap
        # Names of what is written carry the epoch: another driver's attempt is never touched.
        place = f"{assignment.statement_id}-{bootstrap.epoch}-{assignment.attempt}"
        return OutputOptions(
            disposition=assignment.disposition,
            row_limit=assignment.row_limit,
            byte_limit=assignment.byte_limit,
            location=f"{(assignment.location or bootstrap.results).rstrip('/')}/{place}",
            inline_limit=bootstrap.inline_limit,
            chunk_limit=bootstrap.chunk_limit,
        )


@contextmanager
def _configured(session: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """The statement's own configuration, taken back afterwards."""
    conf = session.conf
    before: dict[str, str | None] = {key: conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            conf.set(key, value)
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                conf.unset(key)
            else:
                conf.set(key, earlier)
