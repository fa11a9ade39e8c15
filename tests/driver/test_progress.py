"""Reports of plans and stages: after the end of a statement, and never in its way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from tests.support.executions import make_execution, make_stage
from tests.support.waiting import wait_until

from headrace.driver import progress as progress_module
from headrace.driver.link import LinkRefused, NoNodeAnswers
from headrace.driver.progress import ExecutionReporter
from headrace.model.execution import SparkStageState, StatementExecution
from headrace.model.ids import new_id
from headrace.model.messages import MAX_EXECUTIONS

EXECUTION = make_execution()
IDS = [new_id("st") for _number in range(2 * MAX_EXECUTIONS + 1)]


class Driver:
    """A link and a reader of executions in one: both do what the test wants."""

    def __init__(self) -> None:
        self.reports: list[list[str]] = []
        self.read_ids: list[str] = []
        self.on_read: Callable[[str], StatementExecution | None] = lambda _id: EXECUTION
        self.on_report: Callable[[], None] = lambda: None
        self.reporter = ExecutionReporter(cast("Any", self), cast("Any", self))

    def read(self, statement_id: str) -> StatementExecution | None:
        self.read_ids.append(statement_id)
        return self.on_read(statement_id)

    def report_executions(self, executions: dict[str, StatementExecution]) -> None:
        self.on_report()
        self.reports.append(list(executions))

    @property
    def reported(self) -> list[str]:
        return [statement_id for report in self.reports for statement_id in report]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    # Only a close ends the pause.
    monkeypatch.setattr(progress_module, "_PAUSE_SECONDS", 60.0)
    driver = Driver()
    yield driver
    driver.reporter.close(30)


def has_thread(driver: Driver) -> bool:
    """Return whether a thread of this driver runs. Drivers of other tests have threads, too."""
    thread = driver.reporter._thread
    return thread is not None and thread.is_alive()


def test_the_first_execution_is_reported_at_once(driver: Driver) -> None:
    driver.reporter.add(IDS[0])
    wait_until(lambda: driver.reported == IDS[:1], what="the report")


def test_executions_that_wait_share_a_report_and_none_is_lost_at_the_end(driver: Driver) -> None:
    driver.reporter.add(IDS[0])
    wait_until(lambda: driver.reported == IDS[:1], what="the report")
    for statement_id in IDS[1:3]:
        driver.reporter.add(statement_id)
    driver.reporter.close(30)
    assert driver.reports == [IDS[:1], IDS[1:3]]
    assert not has_thread(driver)


def test_many_executions_are_reported_in_messages_that_a_node_accepts(driver: Driver) -> None:
    is_open = threading.Event()
    driver.on_report = lambda: cast("None", is_open.wait(30))
    for statement_id in IDS:
        driver.reporter.add(statement_id)
    is_open.set()
    driver.reporter.close(30)
    assert driver.reported == IDS
    assert max(map(len, driver.reports)) <= MAX_EXECUTIONS


def test_large_executions_have_reports_of_their_own(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "MAX_EXECUTIONS_BODY", 100_000)
    driver.on_read = lambda _id: make_execution("p" * 40_000)
    driver.reporter._report(IDS[:3])
    assert driver.reports == [[each] for each in IDS[:3]]


def test_a_driver_without_jobs_has_no_thread_for_them() -> None:
    driver = Driver()
    driver.reporter.close(30)
    assert not has_thread(driver)


@pytest.mark.parametrize(
    "error",
    [
        LinkRefused("a node of an older version: 404"),
        NoNodeAnswers("none"),
        Py4JError("dead"),
        KeyError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_report_that_fails_is_given_up(driver: Driver, error: Exception) -> None:
    def fail() -> None:
        driver.on_report = lambda: None
        raise error

    driver.on_report = fail
    driver.reporter.add(IDS[0])
    wait_until(lambda: driver.read_ids == IDS[:1], what="the first report")
    driver.reporter.add(IDS[1])
    driver.reporter.close(30)
    assert driver.reported == IDS[1:2]


def test_a_statement_that_spark_has_forgotten_is_left_out(driver: Driver) -> None:
    driver.on_read = lambda statement_id: None if statement_id == IDS[0] else EXECUTION
    for statement_id in IDS[:2]:
        driver.reporter.add(statement_id)
    driver.reporter.close(30)
    assert driver.reported == IDS[1:2]


def test_a_report_waits_until_the_tasks_of_a_cancelled_statement_have_ended(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_PAUSE_SECONDS", 0.0)
    left = {IDS[0]: 2, IDS[1]: 0}

    def read(statement_id: str) -> StatementExecution:
        left[statement_id] = max(0, left[statement_id] - 1)
        return make_execution(tasks_active=left[statement_id])

    driver.on_read = read
    driver.reporter.add(IDS[0])
    driver.reporter.add(IDS[1])
    wait_until(lambda: set(driver.reported) == set(IDS[:2]), what="both reports")
    # The other statement does not wait with it.
    assert driver.read_ids.count(IDS[0]) == 2
    assert driver.read_ids.count(IDS[1]) == 1


def test_a_report_waits_until_spark_knows_the_end_of_each_stage(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_PAUSE_SECONDS", 0.0)
    states = iter([SparkStageState.ACTIVE, SparkStageState.COMPLETE])
    driver.on_read = lambda _id: make_execution(stages=[make_stage(state=next(states))])
    driver.reporter.add(IDS[0])
    wait_until(lambda: driver.reported == IDS[:1], what="the report")
    assert len(driver.read_ids) == 2


def test_statements_that_spark_forgets_while_they_wait_leave_their_places_to_others(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_PAUSE_SECONDS", 0.0)
    looks = Counter[str]()

    def read(statement_id: str) -> StatementExecution | None:
        looks[statement_id] += 1
        if statement_id == "last":
            return make_execution(tasks_active=2 - looks[statement_id])
        return make_execution(tasks_active=1) if looks[statement_id] == 1 else None

    driver.on_read = read
    forgotten = [f"forgotten{number}" for number in range(MAX_EXECUTIONS)]
    for statement_id in forgotten:
        driver.reporter.add(statement_id)
    wait_until(lambda: all(looks[each] == 2 for each in forgotten), what="all are forgotten")
    driver.reporter.add("last")
    wait_until(lambda: driver.reported == ["last"], what="the report")
    assert looks["last"] == 2


@pytest.mark.parametrize("end", ["its time is over", "the driver ends"])
def test_a_task_that_does_not_end_is_reported_as_active(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    if end == "its time is over":
        monkeypatch.setattr(progress_module, "_PAUSE_SECONDS", 0.0)
        monkeypatch.setattr(progress_module, "_TASKS_SECONDS", 0.0)
    driver.on_read = lambda _id: make_execution(tasks_active=1)
    driver.reporter.add(IDS[0])
    wait_until(lambda: driver.read_ids, what="the first look")
    if end == "the driver ends":
        driver.reporter.close(30)
    wait_until(lambda: driver.reported == IDS[:1], what="the report")
