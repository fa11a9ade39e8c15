"""The search for the tables that a statement writes to, while the catalog fails for a moment."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException
from tests.driver.writes.test_locks import PauseRecorder

from headrace.driver.ctas import Cancelled
from headrace.driver.execute import Execution
from headrace.driver.execution_plan import ExecutionPlan
from headrace.driver.spark_version.written_rows import TargetFinder
from headrace.driver.writes.locks import PlannedWrites, WriteDetector, find_writes_patiently
from headrace.errors import WriteTargetsUnknown
from headrace.model.transaction import TableWrite

_WRITES = PlannedWrites("metastore", [TableWrite(location="file:/t", overwrite=True)])


class SparkError(AnalysisException):
    """An error with a condition, as Spark raises it."""

    def __init__(self, message: str, condition: str) -> None:
        super().__init__(message)
        self._condition = condition

    def getCondition(self) -> str:  # noqa: N802 - a name of PySpark
        return self._condition


_OUTAGE = SparkError("HiveException: TTransportException", "_LEGACY_ERROR_TEMP_3065")
_NO_TABLE = SparkError("The table cannot be found.", "TABLE_OR_VIEW_NOT_FOUND")


class Search:
    """Raises the errors in order, and then returns the writes."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.count = 0

    def __call__(self) -> PlannedWrites:
        self.count += 1
        if self._errors:
            raise self._errors.pop(0)
        return _WRITES


@pytest.mark.parametrize("error", [_OUTAGE, PySparkException("Connection refused")])
def test_the_search_is_repeated_while_the_metastore_fails(error: Exception) -> None:
    search, recorder = Search(error, error, error), PauseRecorder()
    assert find_writes_patiently(search, recorder) == _WRITES
    assert search.count == 4
    assert recorder.pauses == sorted(set(recorder.pauses))


def test_a_statement_whose_tables_stay_unknown_fails_with_the_error_of_the_metastore() -> None:
    search, recorder = Search(*[_OUTAGE] * 100), PauseRecorder()
    with pytest.raises(WriteTargetsUnknown, match=r"was not run.*TTransportException"):
        find_writes_patiently(search, recorder)
    assert search.count == len(recorder.pauses) + 1
    # A cancelled statement has five seconds to stop.
    assert sum(recorder.pauses) < 5


def test_a_cancel_ends_the_search() -> None:
    search, cancelling = Search(_OUTAGE, _OUTAGE), threading.Event()
    cancelling.set()
    with pytest.raises(Cancelled):
        find_writes_patiently(search, cancelling)
    assert search.count == 1


@pytest.mark.parametrize("error", [_NO_TABLE, SparkError("near 'x'", "PARSE_SYNTAX_ERROR")])
def test_an_error_of_the_statement_itself_is_not_retried(error: Exception) -> None:
    search = Search(error)
    with pytest.raises(type(error)):
        find_writes_patiently(search, PauseRecorder())
    assert search.count == 1


def test_a_statement_does_not_start_before_its_tables_are_known() -> None:
    execution = object.__new__(Execution)
    execution.__dict__ |= {
        "assignment": SimpleNamespace(is_query=False, statement_id="st_1"),
        "_spark": SimpleNamespace(prepare_changes=lambda: None),
        "_cancelling": PauseRecorder(),
    }
    search = Search(*[_OUTAGE] * 100)
    with pytest.raises(WriteTargetsUnknown):
        execution._prepare_writes(ExecutionPlan(run=pytest.fail, find_writes=search))
    assert search.count > 1


@pytest.mark.parametrize("error", [_NO_TABLE, Py4JNetworkError("the JVM is gone")])
def test_spark_reports_the_errors_of_a_statement_and_of_its_jvm(error: Exception) -> None:
    assert _detector(error).find_writes(object()) == []


def test_an_outage_of_the_metastore_does_not_hide_the_writes_of_a_statement() -> None:
    with pytest.raises(SparkError, match="TTransportException"):
        _detector(_OUTAGE).find_writes(object())


def _detector(error: Exception) -> WriteDetector:
    """Return a detector without a session, whose look at a plan raises an error."""

    def fail(_plan: Any) -> None:
        raise error

    detector = object.__new__(WriteDetector)
    detector._targets = cast("TargetFinder", SimpleNamespace(find_targets=fail))
    return detector
