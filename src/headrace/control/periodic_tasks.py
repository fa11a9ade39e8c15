"""The periodic tasks of a node: launches, lost drivers, timeouts, retention."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.control.context import NodeContext
from headrace.errors import StoreUnavailable
from headrace.store.notifications import LAUNCH

_LOG = logging.getLogger("headrace.tasks")


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A task that every node repeats. Several nodes may run the task at the same time."""

    name: str
    run: Callable[[], object]
    every_seconds: float = 0.0
    """Shortest time between two runs; 0 runs the task in every round."""


class PeriodicTasks:
    """A thread that runs the tasks in order, once per sweep interval.

    The next round starts at once when a session waits for its driver. A node is away until its
    first round, and while the store does not answer. `on_return` then runs before the tasks.
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
        self._tasks = tasks
        self._on_return = on_return
        self._next_run = {task.name: 0.0 for task in tasks}
        self._is_away = True
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-tasks", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the current round."""
        self._stopping.set()
        self._notifications.publish([LAUNCH])
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        with self._notifications.subscribe(LAUNCH) as launch:
            while not self._stopping.is_set():
                try:
                    self._run_round()
                except StoreUnavailable as error:
                    if not self._is_away:
                        _LOG.error("the store does not answer: %s", error.message)
                    self._is_away = True
                except Exception:  # noqa: BLE001 - the next round must still check the leases
                    _LOG.exception("a periodic task failed")
                launch.wait(self._interval)

    def _run_round(self) -> None:
        if self._is_away:
            self._on_return()
            _LOG.info("the store answers")
            self._is_away = False
        for task in self._tasks:
            if time.monotonic() >= self._next_run[task.name]:
                task.run()
                self._next_run[task.name] = time.monotonic() + task.every_seconds
