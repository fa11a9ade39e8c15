"""What a driver does after SIGTERM: recorded from the driver's real loop, not written down here."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, cast
from unittest import mock

from tests.model_explorer.driver import STATEMENT
from tests.support.journal import BOOTSTRAP

from headrace.driver import loop
from headrace.driver import process as driver_process
from headrace.driver.link import NodeLink
from headrace.driver.spark import Spark
from headrace.errors import HeadraceError
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import (
    Acknowledged,
    Assignment,
    Ended,
    Message,
    Orders,
    Renewed,
    Restored,
)
from headrace.model.result import ResultRequest
from headrace.model.stream_query import QueryReport

_EXIT_SECONDS = 5.0
"""A thread ends the process in this time, also on a busy machine."""
_RELEASE_SECONDS = 60.0
_QUERY = Assignment(
    statement_id=STATEMENT,
    text="SELECT 1",
    parameters=[],
    conf={},
    result_request=ResultRequest(),
    is_query=True,
    attempt=1,
)


def record_calls_after_sigterm() -> list[tuple[str, Message | Failure | None]]:
    """Run the loop with a query in flight, send SIGTERM, and return the calls to the node.

    Each call has the name of the link's method and its argument.
    """
    link = _RecordingLink()
    released = threading.Event()

    def exit_process(_status: int) -> None:
        link.exited.set()
        if threading.current_thread() is threading.main_thread():
            raise SystemExit
        # Do nothing more in this thread, as if the process had ended.
        released.wait(_RELEASE_SECONDS)

    with ExitStack() as stack:
        for owner, name, replacement in (
            (signal, "signal", link.set_handler),
            (loop, "Execution", lambda *_values: _Execution(link, released)),
            (loop, "recover", mock.MagicMock()),
            (loop, "report_ended_statements", mock.MagicMock()),
            (loop, "ProgressReporter", mock.MagicMock()),
            (loop.os, "_exit", exit_process),
        ):
            stack.enter_context(mock.patch.object(owner, name, replacement))
        # No call that follows the end of the process is recorded.
        with suppress(SystemExit, HeadraceError):
            driver_process._serve(cast("NodeLink", link), cast("Spark", mock.MagicMock()))
        released.set()
        return list(link.calls)


class _RecordingLink:
    """Assigns a query, then delivers SIGTERM during the next poll."""

    def __init__(self) -> None:
        self.bootstrap = BOOTSTRAP
        self.calls: list[tuple[str, Message | Failure | None]] = []
        self.running = threading.Event()
        self.exited = threading.Event()
        self._handler: Any = None
        self._polls = 0

    def set_handler(self, number: int, handler: Any) -> None:
        if number == signal.SIGTERM:
            self._handler = handler

    def restore(self) -> Restored:
        return Restored(snapshot=None)

    def hello(self, _message: Message) -> Acknowledged:
        return Acknowledged(applied=True)

    def announce_writes(self, _message: Message) -> None:
        """Accept the tables of a query."""

    def find_marked(self, *_names: str) -> None:
        """Find nothing: no streaming query runs."""

    find_streams = find_marked

    def poll(
        self,
        _in_flight: list[str],
        _cancels: list[str],
        *,
        streams_generation: int,
    ) -> Orders:
        self._polls += 1
        if self._polls == 1:
            return Orders(assignment=_QUERY)
        if self._polls == 2:
            assert self.running.wait(60)
            self._handler(signal.SIGTERM, None)
            # A loop that ends its process does so from another thread.
            self.exited.wait(_EXIT_SECONDS)
        self._stop_if_exited()
        return Orders()

    def _stop_if_exited(self) -> None:
        if self.exited.is_set():
            raise SystemExit

    def renew(
        self, _streams: int, _queries: Sequence[QueryReport], _held: Sequence[str]
    ) -> Renewed:
        return Renewed(applied=True)

    def report_start(self, _statement_id: str, _read_age: Callable[[], float]) -> Acknowledged:
        return Acknowledged(applied=True)

    def report_end(self, message: Ended) -> Acknowledged:
        self._stop_if_exited()
        self.calls.append(("ended", message))
        return Acknowledged(applied=True)

    def goodbye(self, failure: Failure | None = None) -> None:
        self._stop_if_exited()
        self.calls.append(("goodbye", failure))


class _Execution:
    """A query that runs until it is cancelled, and then ends as `Execution` does."""

    def __init__(self, link: _RecordingLink, released: threading.Event) -> None:
        self.assignment = _QUERY
        self._link = link
        self._released = released
        self._cancelled = threading.Event()

    @property
    def cancelling(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()
        self._released.set()

    def wait_for_end(self, _seconds: float) -> bool:
        return True

    def run(self) -> Ended:
        self._link.running.set()
        self._released.wait(_RELEASE_SECONDS)
        failure = Failure(code="spark_error", message="Job cancelled.")
        return Ended(statement_id=STATEMENT, state=StatementState.CANCELLED, failure=failure)
