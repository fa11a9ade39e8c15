"""The supervisor, with runs whose course a test scripts instead of Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from tests.driver.streams.scripted_runs import Runs, failure
from tests.support.waiting import wait_until

from headrace.driver.streams import supervised_query
from headrace.driver.streams import supervisor as supervisor_module
from headrace.driver.streams.supervised_query import measure
from headrace.driver.streams.supervisor import Supervisor
from headrace.model.lifecycle import StreamState
from headrace.model.lineage import LineageDirection, TableUse
from headrace.model.stream_query import (
    DesiredQueries,
    DesiredQuery,
    EndReason,
    QueryProgress,
    QueryReport,
    QuerySpec,
    Wanted,
)

QUICK = "'headrace.retry.min.backoff' = '20ms'"


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def supervisor(runs: Runs) -> Iterator[Supervisor]:
    supervisor = Supervisor(start_run=runs.start, read_conf=dict, on_change=lambda: None)
    yield supervisor
    supervisor.stop_all(60)


def desired(
    name: str = "q",
    *,
    generation: int = 1,
    wanted: Wanted = Wanted.RUNNING,
    options: str = QUICK,
    failures: int = 0,
    retry_seconds: float | None = None,
    held: bool = False,
) -> DesiredQuery:
    return DesiredQuery(
        id=f"sq_{name.encode().hex():0>32}",
        name=name,
        job_id="adhoc-me",
        spec=QuerySpec(text=f"SAVE STREAM t TO noop OPTIONS ({options})", sink="noop"),
        wanted=wanted,
        generation=generation,
        failures=failures,
        retry_seconds=retry_seconds,
        held=held,
    )


def order(supervisor: Supervisor, *queries: DesiredQuery) -> None:
    """Give the supervisor new desired queries."""
    supervisor.apply(DesiredQueries(generation=supervisor.generation + 1, queries=list(queries)))


def report(supervisor: Supervisor, name: str = "q") -> QueryReport:
    query_id = desired(name).id
    return next(each for each in supervisor.report() if each.id == query_id)


def wait_for_state(supervisor: Supervisor, state: StreamState, name: str = "q") -> QueryReport:
    wait_until(lambda: report(supervisor, name).state is state, what=f"{name} is {state}")
    return report(supervisor, name)


def batch(number: int) -> QueryProgress:
    return QueryProgress(
        batch=number, at="", input_rows=1, input_rate=1.0, process_rate=1.0, milliseconds=1
    )


def test_a_desired_query_is_started(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired())
    runs.wait_for("q")

    assert wait_for_state(supervisor, StreamState.RUNNING).run_id == "run-1"


def test_a_query_that_a_statement_will_start_waits_for_it(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired(held=True), desired("other"))
    runs.wait_for("other")

    assert "q" not in runs.started
    query = supervisor.start(desired())
    assert query.wait_for_outcome(60) is StreamState.RUNNING
    assert supervisor.start(desired()) is query


def test_a_failed_run_is_followed_by_another_after_the_backoff(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired(options="'headrace.retry.min.backoff' = '1h'"))
    runs.wait_for("q").fail("broken")
    failed = wait_for_state(supervisor, StreamState.BACKING_OFF)

    assert (failed.failures, failed.delay_seconds) == (1, 3600.0)
    assert failed.error is not None
    assert failed.error.message == "broken"
    assert failed.retry_seconds is not None
    assert 3000 < failed.retry_seconds <= 3600
    order(supervisor, desired(generation=2))
    runs.wait_for("q", 2)
    assert wait_for_state(supervisor, StreamState.RUNNING).failures == 1


def test_successive_failures_have_the_delays_of_the_seed(runs: Runs) -> None:
    delays: list[float | None] = []

    def record_delays() -> None:
        for each in observed.report():
            if each.state is StreamState.BACKING_OFF and each.failures > len(delays):
                delays.append(each.delay_seconds)

    observed = Supervisor(start_run=runs.start, read_conf=dict, on_change=record_delays)
    # The clock is scaled: 10 ms stand for a second.
    order(observed, desired(options="'pstl.retry.min.backoff' = '10ms'"))
    for number in range(1, 6):
        runs.wait_for("q", number).fail()
    wait_until(lambda: len(delays) == 5, what="five failures")
    observed.stop_all(60)

    assert delays == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16])


def test_a_permanent_failure_ends_the_query(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired())
    runs.wait_for("q").fail("no such column", is_permanent=True)

    assert wait_for_state(supervisor, StreamState.FAILED).error is not None
    assert len(runs.started["q"]) == 1


def test_a_query_without_retries_fails_at_once(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired(options="'pstl.retry.enabled' = 'false'"))
    runs.wait_for("q").fail()

    wait_for_state(supervisor, StreamState.FAILED)


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")]
)
def test_a_lost_jvm_is_no_failure_of_its_queries(
    supervisor: Supervisor, runs: Runs, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next driver starts them, also those without retries."""
    monkeypatch.setattr(supervised_query, "_LOST_JVM_SECONDS", 0.02)
    order(supervisor, desired(options="'pstl.retry.enabled' = 'false'"))
    runs.wait_for("q").lose_jvm(error)

    # The JVM of this driver answers again.
    assert runs.wait_for("q", 2).run_id == "run-2"
    assert wait_for_state(supervisor, StreamState.RUNNING).failures == 0


def test_a_failure_to_start_counts_like_a_failed_run(supervisor: Supervisor, runs: Runs) -> None:
    runs.refusal = failure("the broker does not answer")
    order(supervisor, desired())
    wait_until(lambda: report(supervisor).failures >= 2, what="two failures")
    runs.refusal = None

    assert runs.wait_for("q").run_id == "run-1"
    wait_for_state(supervisor, StreamState.RUNNING)


def test_a_batch_that_fails_again_and_again_is_named(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired(options=f"{QUICK}, 'headrace.retry.poison.attempts' = '2'"))
    first = runs.wait_for("q")
    first.batches = [batch(0), batch(1)]
    first.fail("division by zero")
    runs.wait_for("q", 2).fail("division by zero")
    wait_until(lambda: report(supervisor).failures == 2, what="two failures")
    error = report(supervisor).error

    assert error is not None
    assert error.message == "Batch 2 has failed 2 times or more in a row: division by zero"


def test_a_failing_query_does_not_disturb_its_neighbours(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired("good"), desired("bad"))
    good = runs.wait_for("good")
    for number in range(1, 4):
        runs.wait_for("bad", number).fail()

    assert not good.is_stopped.is_set()
    assert len(runs.started["good"]) == 1


def test_a_start_that_hangs_does_not_delay_other_queries(
    supervisor: Supervisor, runs: Runs
) -> None:
    is_released, is_hanging = threading.Event(), threading.Event()

    def hang_once() -> None:
        runs.on_start = lambda: None
        is_hanging.set()
        is_released.wait(120)

    runs.on_start = hang_once
    order(supervisor, desired("hanging"))
    assert is_hanging.wait(60)
    order(supervisor, desired("hanging"), desired("other"))
    runs.wait_for("other")
    is_released.set()
    runs.wait_for("hanging")


def test_a_stop_is_reported_with_its_generation(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired())
    run = runs.wait_for("q")
    order(supervisor, desired(generation=2, wanted=Wanted.STOPPED))

    assert wait_for_state(supervisor, StreamState.STOPPED).generation == 2
    assert run.is_stopped.is_set()


def test_a_stop_ends_a_backoff(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired(options="'headrace.retry.min.backoff' = '1h'"))
    runs.wait_for("q").fail()
    wait_for_state(supervisor, StreamState.BACKING_OFF)
    order(supervisor, desired(generation=2, wanted=Wanted.STOPPED))

    wait_for_state(supervisor, StreamState.STOPPED)
    assert len(runs.started["q"]) == 1


def test_a_query_that_this_driver_never_had_is_reported_as_stopped(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired(generation=4, wanted=Wanted.PAUSED))

    assert wait_for_state(supervisor, StreamState.STOPPED).generation == 4
    assert runs.started == {}


def test_a_stopped_query_runs_again_when_it_is_resumed(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired())
    runs.wait_for("q")
    order(supervisor, desired(generation=2, wanted=Wanted.PAUSED))
    wait_for_state(supervisor, StreamState.STOPPED)
    order(supervisor, desired(generation=3))

    runs.wait_for("q", 2)
    assert wait_for_state(supervisor, StreamState.RUNNING).generation == 3


def test_a_query_that_is_not_desired_any_more_is_stopped(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired("kept"), desired("dropped"))
    runs.wait_for("kept")
    run = runs.wait_for("dropped")
    order(supervisor, desired("kept"))

    assert run.is_stopped.wait(60)
    assert [each.id for each in supervisor.report()] == [desired("kept").id]


def test_a_query_whose_sources_have_ended_is_stopped(supervisor: Supervisor, runs: Runs) -> None:
    order(supervisor, desired())
    run = runs.wait_for("q")
    run.batches = [batch(0)]
    run.finish()

    ended = wait_for_state(supervisor, StreamState.STOPPED)
    assert (ended.last_batch, ended.reason) == (0, EndReason.SOURCES_ENDED)
    assert not run.is_stopped.is_set()


def test_a_report_has_a_new_number_only_if_it_says_something_new(
    supervisor: Supervisor, runs: Runs
) -> None:
    # A backoff that is longer than any pause of the test: the state must be seen.
    def q(**changes: Any) -> DesiredQuery:
        return desired(options="'headrace.retry.min.backoff' = '60s'", **changes)

    order(supervisor, q(), desired("other"))
    run = runs.wait_for("q")
    runs.wait_for("other")
    running = wait_for_state(supervisor, StreamState.RUNNING)
    assert running.sequence == report(supervisor).sequence
    run.fail()
    waiting = wait_for_state(supervisor, StreamState.BACKING_OFF)
    order(supervisor, q(generation=2, wanted=Wanted.STOPPED), desired("other"))
    stopped = wait_for_state(supervisor, StreamState.STOPPED)

    order(supervisor, q(generation=3), desired("other"))
    runs.wait_for("q", 2)
    again = wait_for_state(supervisor, StreamState.RUNNING)

    numbers = [each.sequence or 0 for each in (running, waiting, stopped, again)]
    assert numbers == sorted(set(numbers))


def test_a_new_driver_waits_out_the_backoff_of_the_one_before(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired(failures=3, retry_seconds=3600.0), desired("other"))
    runs.wait_for("other")
    waiting = report(supervisor)

    assert (waiting.state, waiting.failures) == (StreamState.BACKING_OFF, 3)
    assert "q" not in runs.started


def test_batches_are_reported_until_a_node_has_accepted_them(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired())
    run = runs.wait_for("q")
    run.batches = [batch(0), batch(1)]
    wait_until(lambda: len(report(supervisor).progress) == 2, what="two batches")
    accepted = supervisor.report()
    run.batches = [batch(0), batch(1), batch(2)]
    wait_until(lambda: len(report(supervisor).progress) == 3, what="three batches")
    supervisor.acknowledge(accepted)

    assert [each.batch for each in report(supervisor).progress] == [2]


def test_an_epoch_of_a_continuous_query_counts_as_a_batch(
    supervisor: Supervisor, runs: Runs
) -> None:
    order(supervisor, desired(options="'headrace.retry.healthy.period' = '10ms'"))
    runs.wait_for("q").fail()
    run = runs.wait_for("q", 2)
    run.epoch = 7
    wait_until(lambda: report(supervisor).failures == 0, what="the query is healthy")

    assert report(supervisor).last_batch == 7
    assert report(supervisor).progress == []


def test_an_abandoned_query_is_stopped_and_not_reported(supervisor: Supervisor, runs: Runs) -> None:
    supervisor.start(desired())
    run = runs.wait_for("q")
    supervisor.abandon(desired().id)

    assert run.is_stopped.wait(60)
    assert supervisor.report() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_code_of_a_user_that_ends_its_thread_fails_the_query(
    supervisor: Supervisor, runs: Runs, error: type[BaseException]
) -> None:
    def end_thread() -> None:
        raise error("from the code of a user")

    runs.on_start = end_thread
    order(supervisor, desired())

    failed = wait_for_state(supervisor, StreamState.FAILED)
    assert failed.error is not None
    assert "from the code of a user" in failed.error.message


def test_what_a_query_reads_and_writes_is_reported_until_a_node_has_it(
    supervisor: Supervisor, runs: Runs
) -> None:
    use = TableUse(direction=LineageDirection.READ, location="file:/in")
    runs.lineage = [use]
    order(supervisor, desired())
    run = runs.wait_for("q")
    first = wait_until(
        lambda: found if (found := report(supervisor)).lineage else None, what="it is reported"
    )
    assert report(supervisor).lineage == first.lineage == [use]
    supervisor.acknowledge([first])
    assert report(supervisor).lineage == []
    # The next run reads the same.
    run.fail()
    runs.wait_for("q", 2)
    assert report(supervisor).lineage == []


def test_what_a_node_does_not_take_at_once_waits_for_the_next_report(
    supervisor: Supervisor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = TableUse(direction=LineageDirection.READ, location="file:/in")
    runs.lineage = [use]
    order(supervisor, desired())
    run = runs.wait_for("q")
    monkeypatch.setattr(supervisor_module, "REPORT_BYTES", 3 * measure([batch(0)]) - 1)
    run.batches = [batch(number) for number in range(5)]
    wait_until(lambda: report(supervisor).last_batch == 4, what="the batches are committed")
    numbers, batches, tables = list[int | None](), list[int](), list[TableUse]()
    for _ in range(3):
        found = report(supervisor)
        supervisor.acknowledge([found])
        numbers.append(found.sequence)
        batches += [each.batch for each in found.progress]
        tables += found.lineage
    assert (batches, tables) == ([0, 1, 2, 3, 4], [use])
    # The store applies each of them.
    assert len(set(numbers)) == 3
    assert report(supervisor).sequence == numbers[-1]
