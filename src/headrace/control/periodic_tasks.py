"""The periodic tasks of a node: launches, lost drivers, timeouts, deletion of old history.

No task may wait for a file system: `Retention` deletes files in a thread of its own.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.control.context import NodeContext
from headrace.errors import NodeNotReady, StoreUnavailable
from headrace.store.notifications import LAUNCH
from headrace.text.readable import describe_duration

_LOG = logging.getLogger("headrace.tasks")
_MISSED_SWEEPS = 5
"""Number of sweeps without which a node counts as away or not ready, if a sweep is long."""
_STOP_SECONDS = 30.0
_JITTER = (0.8, 1.2)
"""Bounds of the factor by which the pause between two sweeps varies."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A task that every node repeats. Several nodes may run the task at the same time."""

    name: str
    run: Callable[[], object]
    every_seconds: float = 0.0
    """Shortest time between two runs; 0 runs the task in every sweep."""


class PeriodicTasks:
    """A thread that runs the tasks in order, once per sweep interval.

    The next sweep begins at once when a session waits for its driver. An error in one task does not
    stop the others.

    A node is away until its first sweep, while the store does not answer, and while its process is
    frozen. `on_return` then runs before the tasks.
    """

    def __init__(
        self,
        context: NodeContext,
        tasks: Sequence[PeriodicTask],
        *,
        on_return: Callable[[], None],
    ) -> None:
        self._notifications = context.database.notifications
        self._interval = context.settings.lease.sweep.total_seconds()
        self._lease_seconds = context.lease_seconds
        self._tasks = tasks
        self._on_return = on_return
        self._next_run = {task.name: 0.0 for task in tasks}
        self._is_away = True
        self._began_at = self._ended_at = read_boot_clock()
        # Tests of other code compare the state of the module's own generator.
        self._random = random.SystemRandom()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-tasks", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._began_at = self._ended_at = read_boot_clock()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the current sweep, for which this waits at most 30 seconds."""
        self._stopping.set()
        self._notifications.publish([LAUNCH])
        # The thread was never started if the start of the node has failed.
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)
            if self._thread.is_alive():
                _LOG.error("the background work of this node does not end; the node stops anyway")

    def check_recent(self) -> None:
        """Raise NodeNotReady if no sweep has ended within the last lease."""
        seconds = read_boot_clock() - self._ended_at
        if seconds > max(self._lease_seconds, _MISSED_SWEEPS * self._interval):
            raise NodeNotReady(
                f"The background work of this node has made no progress for"
                f" {describe_duration(seconds)}.",
                hint="Read the log of the node; restart the node if it is stuck.",
            )

    def _run(self) -> None:
        with self._notifications.subscribe(LAUNCH) as launch:
            while not self._stopping.is_set():
                try:
                    self._sweep()
                except StoreUnavailable as error:
                    if not self._is_away:
                        _LOG.error("the store does not answer: %s", error.message)
                    self._is_away = True
                except Exception:  # noqa: BLE001 - the next sweep must still check the leases
                    _LOG.exception("the node could not return to work")
                # Nodes that start at the same time should not sweep at the same time.
                launch.wait(self._interval * self._random.uniform(*_JITTER))

    def _sweep(self) -> None:
        self._detect_freeze()
        if self._is_away:
            self._on_return()
            _LOG.info("the store answers")
            self._is_away = False
        for task in self._tasks:
            if time.monotonic() >= self._next_run[task.name]:
                with isolate_errors(f"the task {task.name!r} failed"):
                    task.run()
                self._next_run[task.name] = time.monotonic() + task.every_seconds
        self._ended_at = read_boot_clock()

    def _detect_freeze(self) -> None:
        """Count the node as away if the last sweep began more than half a lease ago.

        Drivers could not renew their leases while the process was stopped or the host suspended.
        """
        previous, self._began_at = self._began_at, read_boot_clock()
        gap = self._began_at - previous
        if gap > max(self._lease_seconds / 2, _MISSED_SWEEPS * self._interval):
            _LOG.warning("the node made no sweep for %.1f s: it counts as away", gap)
            self._is_away = True


@contextmanager
def isolate_errors(summary: str) -> Iterator[None]:
    """Log an error of the block under this summary, so that it does not stop other work.

    A StoreUnavailable passes, because all other work would fail as well.
    """
    try:
        yield
    except StoreUnavailable:
        raise
    except Exception:  # noqa: BLE001 - the error of one row or task must not stop the others
        _LOG.exception("%s", summary)


def read_boot_clock() -> float:
    """Return the seconds of a clock that also runs while the host is suspended, where it exists."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
