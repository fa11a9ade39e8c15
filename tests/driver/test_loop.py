"""The main loop of a driver, without Spark: the order of its calls, and SIGTERM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyarrow import flight
from tests.driver.output.test_held_results import make_result
from tests.support.executions import make_execution
from tests.support.journal import BOOTSTRAP
from tests.support.made_results import inline_result
from tests.support.waiting import wait_until

from headrace.driver import loop as loop_module
from headrace.driver.link import NodeLink
from headrace.driver.loop import Loop
from headrace.driver.output.flight_server import HeldResult
from headrace.driver.output.held_results import HeldResults
from headrace.driver.spark import Spark
from headrace.errors import HeadraceError, LeaseLost
from headrace.model.execution import StatementExecution
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment, Ended, FoundStreams, Orders, Renewed, Restored
from headrace.model.result import ResultRequest
from headrace.model.statement import Progress
from headrace.model.stream_query import QueryReport
from headrace.results.flight_tickets import make_token

STATEMENT_ID = f"st_{'1' * 32}"


@dataclass
class FakeLink:
    """A link that records the calls of a driver and answers polls with the given orders."""

    orders: list[Orders]
    calls: list[str] = field(default_factory=list)
    goodbyes: list[Failure | None] = field(default_factory=list)
    said_goodbye: threading.Event = field(default_factory=threading.Event)
    bootstrap: Any = BOOTSTRAP
    has_orphans: bool = True

    def find_streams(self, names: list[str]) -> FoundStreams:
        return FoundStreams()

    def restore(self) -> Restored:
        return Restored(snapshot=None, has_orphans=self.has_orphans)

    def hello(self, _message: object) -> None:
        self.calls.append("hello")

    def announce_writes(self, _message: object) -> None:
        self.calls.append("announce_writes")

    def poll(
        self,
        _in_flight: list[str],
        _cancels: list[str],
        *,
        streams_generation: int,
    ) -> Orders:
        self.calls.append("poll")
        if not self.orders:
            # A long poll that only the end of the process interrupts.
            assert self.said_goodbye.wait(120)
            raise LeaseLost
        return self.orders.pop(0)

    def renew(
        self, _streams: int, _queries: Sequence[QueryReport], _held: Sequence[str]
    ) -> Renewed:
        self.calls.append("renew")
        return Renewed(applied=True)

    def report_start(self, _statement_id: str, _read_age: Callable[[], float]) -> None:
        self.calls.append("started")

    def find_marked(self, *_names: str) -> None: ...

    def report_end(self, ended: Ended) -> None:
        self.calls.append(f"ended {ended.state}")

    def report_executions(self, executions: dict[str, StatementExecution]) -> None:
        self.calls.append(f"executed {list(executions)}")

    def goodbye(self, failure: Failure | None = None) -> None:
        self.calls.append("goodbye")
        self.goodbyes.append(failure)
        self.said_goodbye.set()


@dataclass
class FakeSpark:
    """A Spark application that only counts as killed or not."""

    killed: threading.Event = field(default_factory=threading.Event)
    session: object = None
    progress: object = None
    executions: object = None

    def clone_session(self) -> None: ...

    def build_hello(self, _pid: int, **_report: object) -> None: ...

    def is_alive(self) -> bool:
        return not self.killed.is_set()

    def count_streams(self) -> int:
        return 0

    def kill(self) -> None:
        self.killed.set()


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the exits of the process instead of exiting."""
    codes: list[int] = []
    monkeypatch.setattr(loop_module.os, "_exit", codes.append)
    monkeypatch.setattr(
        loop_module,
        "ProgressReporter",
        lambda *_: SimpleNamespace(start=lambda: None, stop=lambda: None),
    )
    monkeypatch.setattr(loop_module, "report_ended_statements", lambda *_: None)
    monkeypatch.setattr(loop_module, "clear_orphaned_staging", lambda *_: None)
    monkeypatch.setattr(loop_module, "recover", lambda *_args, **_options: None)
    return codes


def make_loop(link: FakeLink, spark: FakeSpark) -> Loop:
    return Loop(cast("NodeLink", link), cast("Spark", spark))


def run_in_thread(loop: Loop) -> threading.Thread:
    def run() -> None:
        try:
            loop.run()
        except HeadraceError:
            return

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_every_poll_drops_the_unused_sessions_of_connections(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = FakeLink([Orders(), Orders(close=True)])
    loop = make_loop(link, FakeSpark())
    monkeypatch.setattr(loop._connections, "drop_unused", lambda: link.calls.append("dropped"))
    run_in_thread(loop).join(60)
    assert [call for call in link.calls if call in {"poll", "dropped"}] == ["poll", "dropped"] * 2


@pytest.mark.finding("B8")
def test_the_first_statement_waits_for_no_recovery_without_orphaned_transactions(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = FakeLink([Orders(close=True)], has_orphans=False)
    monkeypatch.setattr(loop_module, "recover", lambda *_args, **_options: link.calls.append("r"))
    make_loop(link, FakeSpark()).run()
    assert [call for call in link.calls if call != "renew"] == ["hello", "poll", "goodbye"]
    assert exits == []


def test_a_driver_reports_before_it_recovers_tables_and_serves_beside_a_long_recovery(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = FakeLink(orders=[Orders(close=True)])
    stopped = threading.Event()

    def recover_for_ever(
        _session: object, _link: object, *, should_stop: Callable[[], bool], **_options: object
    ) -> None:
        link.calls.append("recover")
        while not should_stop():
            pass
        link.calls.append("recovered")
        stopped.set()

    monkeypatch.setattr(loop_module, "recover", recover_for_ever)
    monkeypatch.setattr(loop_module, "_RECOVERY_SECONDS", 0.05)
    make_loop(link, FakeSpark()).run()
    assert stopped.wait(60)
    # The thread of the recovery may start after the first poll, and end after the goodbye.
    assert link.calls[0] == "hello"
    assert link.calls.index("poll") < link.calls.index("recovered")
    assert {"recover", "goodbye"} <= set(link.calls)
    assert exits == []


def assign(
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[], StatementState],
    leave: Callable[[], None] = lambda: None,
    progress: Progress | None = None,
) -> Orders:
    """Return an order for a statement whose execution calls `run` for its final state.

    Args:
        leave: Called when the thread of the execution is free for other statements.
        progress: Final progress of the statement; None: it has started no job.
    """

    class FakeExecution:
        cancelling = False

        def __init__(self, _spark: object, _link: object, assignment: Assignment, *_rest: object):
            self.assignment = assignment

        def run(self) -> Ended:
            failure = Failure(code="cancelled", message="The job was cancelled.")
            return Ended(statement_id=STATEMENT_ID, state=run(), failure=failure, progress=progress)

        def remove_job_tag(self) -> None:
            leave()

        def wait_for_end(self, _seconds: float) -> bool:
            return True

        def cancel(self) -> None:
            self.cancelling = True

    monkeypatch.setattr(loop_module, "Execution", FakeExecution)
    assignment = Assignment(
        statement_id=STATEMENT_ID,
        text="SELECT 1",
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=True,
        attempt=1,
    )
    return Orders(assignment=assignment)


def test_an_execution_leaves_its_thread_after_the_report_of_its_end(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = FakeLink(orders=[])
    order = assign(monkeypatch, lambda: StatementState.CANCELLED, lambda: link.calls.append("left"))
    link.orders += [order, Orders(close=True)]
    make_loop(link, FakeSpark()).run()
    assert [call for call in link.calls if call in {"ended cancelled", "left"}] == [
        "ended cancelled",
        "left",
    ]
    assert exits == []


@pytest.mark.parametrize(
    ("progress", "reports"),
    [
        (Progress(**dict.fromkeys(Progress.model_fields, 1)), [f"executed {[STATEMENT_ID]}"]),
        (None, []),
    ],
    ids=["a job", "no job"],
)
def test_a_driver_that_ends_reports_the_stages_of_its_statements_before_the_goodbye(
    exits: list[int],
    monkeypatch: pytest.MonkeyPatch,
    progress: Progress | None,
    reports: list[str],
) -> None:
    link = FakeLink(orders=[])
    # A thread reports the stages, for which a driver that ends has a share of its grace period.
    monkeypatch.setattr(loop_module, "_LAST_REPORT_SHARE", 6.0)
    order = assign(monkeypatch, lambda: StatementState.CANCELLED, progress=progress)
    link.orders += [order, Orders(close=True)]
    read = list[str]()
    reader = SimpleNamespace(read=lambda tag: read.append(tag) or make_execution())
    make_loop(link, FakeSpark(executions=reader)).run()
    calls = [call for call in link.calls if call.startswith(("ended", "executed", "goodbye"))]
    assert calls == ["ended cancelled", *reports, "goodbye"]
    assert read == [STATEMENT_ID] * len(reports), "a statement without a job costs no call"
    assert exits == []


@pytest.mark.finding("B6")
def test_sigterm_is_a_goodbye_of_a_lost_driver_and_reports_no_failed_statement(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, running = FakeSpark(), threading.Event()

    def fail_with_its_jvm() -> StatementState:
        running.set()
        assert spark.killed.wait(30)
        return StatementState.FAILED

    link = FakeLink(orders=[assign(monkeypatch, fail_with_its_jvm)])
    loop = make_loop(link, spark)
    thread = run_in_thread(loop)
    assert running.wait(60)
    loop.terminate()
    # The thread that says goodbye ends the process after it.
    wait_until(lambda: exits, what="the process ends")
    thread.join(60)
    assert not thread.is_alive()
    [failure] = link.goodbyes
    assert failure is not None
    assert failure.code == "driver_lost"
    assert not [call for call in link.calls if call.startswith("ended")]
    assert exits == [1]


@pytest.mark.finding("B2")
def test_a_closed_driver_renews_its_lease_until_its_statement_has_stopped(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = FakeLink(orders=[], bootstrap=BOOTSTRAP.model_copy(update={"renew_seconds": 0.01}))

    def stop_slowly() -> StatementState:
        wait_until(lambda: not link.orders, what="the driver has received the close")
        count = link.calls.count("renew")
        wait_until(lambda: link.calls.count("renew") > count + 3, what="the lease is renewed")
        return StatementState.CANCELLED

    link.orders = [assign(monkeypatch, stop_slowly), Orders(close=True)]
    make_loop(link, FakeSpark()).run()
    # The lease may be renewed once more between the two.
    calls = [call for call in link.calls if call != "renew"]
    assert calls[-2:] == ["ended cancelled", "goodbye"]
    assert exits == []


@pytest.mark.finding("B2")
def test_a_driver_whose_statements_ignore_their_cancel_kills_its_jvm_after_the_goodbye(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = FakeSpark()

    def run_for_ever() -> StatementState:
        assert spark.killed.wait(30)
        return StatementState.FAILED

    bootstrap = BOOTSTRAP.model_copy(update={"close_grace_seconds": 0.1})
    orders = [assign(monkeypatch, run_for_ever), Orders(close=True)]
    link = FakeLink(orders=orders, bootstrap=bootstrap)
    make_loop(link, spark).run()
    assert link.goodbyes == [None]
    assert spark.killed.is_set()
    assert exits == [0]


def test_a_slow_reader_of_a_held_result_does_not_keep_a_driver_without_its_lease(
    exits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that lives on after its lease could still write to the files of its successor."""
    secret, ports = "secret of the driver", []
    is_opened: list[str] = []
    is_reading, may_end = threading.Event(), threading.Event()

    class HoldingExecution:
        cancelling = False

        def __init__(self, *arguments: object) -> None:
            self.assignment, self._held = arguments[2], cast("HeldResults", arguments[4])

        def run(self) -> Ended:
            find = self._held.find

            def find_slowly(statement_id: str) -> HeldResult | None:
                result = find(statement_id)
                if is_opened:
                    is_reading.set()
                    may_end.wait()
                is_opened.append(statement_id)
                return result

            # gRPC reads ahead of a slow client, by an amount that differs from run to run.
            monkeypatch.setattr(self._held, "find", find_slowly)
            rows = [(number, "x" * 1000) for number in range(10_000)]
            ports.append(self._held.hold(STATEMENT_ID, make_result(*[rows] * 5)))
            result = inline_result([("x", "integer")], [[1]])
            return Ended(statement_id=STATEMENT_ID, state=StatementState.SUCCESS, result=result)

        def remove_job_tag(self) -> None: ...

        def wait_for_end(self, _seconds: float) -> bool:
            return True

    order = assign(monkeypatch, lambda: StatementState.SUCCESS)
    monkeypatch.setattr(loop_module, "Execution", HoldingExecution)
    monkeypatch.setattr(loop_module, "_READER_SECONDS", 0.1)
    access = {"flight_host": "127.0.0.1", "flight_secret": secret, "memory_limit": 1 << 30}
    link = FakeLink(orders=[order], bootstrap=BOOTSTRAP.model_copy(update=access))
    spark = FakeSpark()
    thread = run_in_thread(make_loop(link, spark))
    wait_until(lambda: ports, what="the driver holds a result")
    token = f"Bearer {make_token(secret, STATEMENT_ID)}".encode()
    options = flight.FlightCallOptions(headers=[(b"authorization", token)])
    with flight.FlightClient(f"grpc://127.0.0.1:{ports[0]}") as client:
        _reader = client.do_get(flight.Ticket(STATEMENT_ID.encode()), options)
        wait_until(is_reading.is_set, what="a reader takes a chunk")
        link.said_goodbye.set()  # The poll raises LeaseLost.
        wait_until(lambda: exits, what="the process ends")
        may_end.set()
    thread.join(60)
    assert spark.killed.is_set()
    assert exits == [1]
    assert link.goodbyes == []
