"""Renewal of the driver's lease.

The process and its JVM are judged apart. The process renews the lease whether or not the JVM
answers, so that a long garbage collection does not cost the session. A JVM that has died, or that
has not answered for the bootstrap's `jvm_timeout_seconds`, counts as lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.driver.link import NodeLink
from headrace.driver.output.held_results import HeldResults
from headrace.driver.spark import Spark
from headrace.driver.streams.supervisor import Supervisor
from headrace.errors import DriverLost, HeadraceError
from headrace.text.readable import describe_duration

_STOP_SECONDS = 1.0


class JvmMonitor:
    """Asks the JVM for its running streams, in a thread of its own that the JVM can block."""

    def __init__(
        self,
        spark: Spark,
        *,
        interval: float,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a monitor that has not started.

        Args:
            interval: Seconds between an answer and the next question.
            timeout: Seconds without an answer after which the JVM counts as lost.
            clock: A monotonic clock, in seconds.
        """
        self._clock = clock
        self._spark = spark
        self._interval = interval
        self._timeout = timeout
        self._lock = threading.Lock()
        self._streams = 0
        self._error: HeadraceError | None = None
        self._silent_seconds = 0.0
        self._last_check = clock()

    def start(self, stopping: threading.Event) -> None:
        """Start to ask the JVM, until `stopping` is set."""
        thread = threading.Thread(
            target=self._ask_repeatedly, args=(stopping,), name="headrace-jvm", daemon=True
        )
        self._last_check = self._clock()
        thread.start()

    def check(self) -> int:
        """Return the number of running streams in the last answer of the JVM.

        Call this method repeatedly: it measures the silence of the JVM between its calls. A call
        that comes late counts as two intervals at most, because the whole process was frozen then.

        Raises DriverLost if the JVM has died, or has been silent for too long.
        """
        if not self._spark.is_alive():
            raise DriverLost("The JVM of the driver died.")
        now = self._clock()
        with self._lock:
            if self._error is not None:
                raise self._error
            self._silent_seconds += min(now - self._last_check, 2 * self._interval)
            self._last_check = now
            if self._silent_seconds > self._timeout:
                raise DriverLost(
                    f"The JVM of the driver has not answered for {describe_duration(self._timeout)}"
                    " (lease.jvm_timeout)."
                )
            return self._streams

    def record_answer(self, streams: int) -> None:
        """Record that the JVM has answered, with the number of its running streams."""
        with self._lock:
            self._streams = streams
            self._silent_seconds = 0.0

    def _ask_repeatedly(self, stopping: threading.Event) -> None:
        while not stopping.wait(self._interval):
            try:
                streams = self._spark.count_streams()
            except HeadraceError as error:
                with self._lock:
                    self._error = error
                return
            self.record_answer(streams)


class LeaseRenewal:
    """A thread that renews the lease until it is stopped, and reports the streaming queries."""

    def __init__(
        self,
        link: NodeLink,
        spark: Spark,
        supervisor: Supervisor,
        on_error: Callable[[HeadraceError], None],
        *,
        on_intents: Callable[[], None] = lambda: None,
        held: HeldResults | None = None,
    ) -> None:
        """Create a renewal that has not started.

        Args:
            on_error: Called with the error that ends the renewal: the lease or the JVM is lost, or
                no node answers.
            on_intents: Called after each renewal whose answer says that intents are due.
            held: The held results, of which a node releases those that are gone.
        """
        self._held = held
        self._link = link
        self._on_intents = on_intents
        self._supervisor = supervisor
        self._stopping = threading.Event()
        self._is_due = threading.Event()
        self._on_error = on_error
        self._thread = threading.Thread(
            target=self._renew_repeatedly, name="headrace-renew", daemon=True
        )
        bootstrap = link.bootstrap
        self._interval = bootstrap.renew_seconds
        self._monitor = JvmMonitor(
            spark, interval=bootstrap.renew_seconds, timeout=bootstrap.jvm_timeout_seconds
        )

    def start(self) -> None:
        """Start the thread."""
        self._monitor.start(self._stopping)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. A renewal in flight has no effect from now on."""
        self._stopping.set()
        self._is_due.set()
        self._thread.join(_STOP_SECONDS)

    def request(self) -> None:
        """Renew at once, because there is something to report."""
        self._is_due.set()

    def _renew_repeatedly(self) -> None:
        while True:
            self._is_due.wait(self._interval)
            self._is_due.clear()
            if self._stopping.is_set():
                return
            try:
                reports = self._supervisor.report()
                held = [] if self._held is None else self._held.list_reported()
                renewed = self._link.renew(self._monitor.check(), reports, held)
                self._supervisor.acknowledge(reports)
                if self._held is not None:
                    self._held.release(renewed.release)
                if renewed.has_intents:
                    self._on_intents()
            except HeadraceError as error:
                if not self._stopping.is_set():
                    self._on_error(error)
                return
