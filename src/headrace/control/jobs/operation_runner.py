"""The operations of a node: claimed from the store, advanced by a small pool, never by the sweeper.

An operation advances in steps. Each step is one transaction that first renews the lease of the
operation, so that a node that has lost it changes nothing. Between two steps, the operation
occupies no thread. If the node is lost, another node continues with the next step.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from headrace.control.context import NodeContext
from headrace.errors import HeadraceError, LeaseLost, StoreUnavailable
from headrace.model.deployment import OperationLease
from headrace.store import operations
from headrace.store.notifications import OPERATIONS, Subscription

_LOG = logging.getLogger("headrace.operations")
_MAX_CLAIMED = 200
"""Largest number of operations on which one node works at once."""
_IDLE_SECONDS = 1.0
_ERROR_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Pause:
    """The time between two steps of an operation."""

    seconds: float
    topic: str | None = None
    """Topic whose wake-up ends the pause; None: it lasts `seconds`."""


Advance = Callable[[OperationLease, str], float | Pause | None]
"""Advances an operation by one step, given its lease and the id of its subject.

Returns the seconds until the next step, or a pause; None: the operation has ended. Raises LeaseLost
if another node has adopted it.
"""


class OperationRunner:
    """Claims operations and advances them until they end."""

    def __init__(self, context: NodeContext, kinds: Mapping[str, Advance]) -> None:
        """Create a runner that has not started.

        Args:
            kinds: The code of each kind of operation.
        """
        self._context = context
        self._kinds = kinds
        self._due: dict[OperationLease, tuple[float, str, str]] = {}
        """Time of the next step, kind and subject of each claimed operation."""
        self._running: set[OperationLease] = set()
        self._woken: set[OperationLease] = set()
        """Operations whose topic has had a wake-up since their last step began."""
        self._subscriptions: dict[OperationLease, Subscription] = {}
        self._condition = threading.Condition()
        self._is_stopping = False
        self._renew_at = 0.0
        self._claim_at = 0.0
        """Time of the next claim without a wake-up, which finds operations with expired leases."""
        self._may_claim = True
        """Whether a wake-up or a full claim has announced further operations."""
        self._pool = ThreadPoolExecutor(
            context.settings.jobs.parallelism, thread_name_prefix="headrace-operation"
        )
        self._thread = threading.Thread(target=self._run, name="headrace-operations", daemon=True)

    def start(self) -> None:
        """Start to claim operations."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the steps in progress, and let other nodes adopt the operations."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown()
        for lease in list(self._subscriptions):
            self._follow(lease, None)
        if self._due:
            try:
                with self._context.database.write("operation.release") as tx:
                    operations.release(tx, self._context.node_id)
            except StoreUnavailable as error:
                _LOG.warning("operations wait for the end of their leases: %s", error.message)

    def _run(self) -> None:
        notifications = self._context.database.notifications
        with notifications.subscribe(OPERATIONS, callback=self._wake):
            while not self._is_stopping:
                self._renew()
                self._claim()
                self._start_due()
                with self._condition:
                    self._condition.wait(self._seconds_until_due())

    def _wake(self) -> None:
        with self._condition:
            self._may_claim = True
            self._condition.notify_all()

    def _renew(self) -> None:
        if time.monotonic() < self._renew_at or not self._due:
            return
        seconds = self._context.lease_seconds
        self._renew_at = time.monotonic() + seconds / 3
        try:
            with self._context.database.write("operation.renew") as tx:
                held = operations.renew_all(tx, list(self._due), seconds)
        except StoreUnavailable as error:
            _LOG.warning("operations are not renewed: %s", error.message)
            return
        with self._condition:
            lost = [lease for lease in self._due if lease not in held]
            for lease in lost:
                del self._due[lease]
        for lease in lost:
            self._follow(lease, None)

    def _claim(self) -> None:
        free = _MAX_CLAIMED - len(self._due)
        with self._condition:
            # The end of each step wakes the thread, too, and must not cause a read of the store.
            if free <= 0 or not (self._may_claim or time.monotonic() >= self._claim_at):
                return
            self._may_claim, self._claim_at = False, time.monotonic() + _IDLE_SECONDS
        try:
            with self._context.database.read() as tx:
                if not operations.has_free(tx, self._kinds):
                    return
            with self._context.database.write("operation.claim") as tx:
                claimed = operations.claim(
                    tx, self._context.node_id, self._context.lease_seconds, free, self._kinds
                )
        except StoreUnavailable as error:
            _LOG.warning("no operations are claimed: %s", error.message)
            return
        with self._condition:
            self._may_claim |= len(claimed) == free
            for lease, kind, ref in claimed:
                self._due[lease] = (time.monotonic(), kind, ref)

    def _start_due(self) -> None:
        now = time.monotonic()
        with self._condition:
            due = [
                (lease, kind, ref)
                for lease, (at, kind, ref) in self._due.items()
                if at <= now and lease not in self._running
            ]
            self._running.update(lease for lease, _kind, _ref in due)
            self._woken.difference_update(lease for lease, _kind, _ref in due)
        for lease, kind, ref in due:
            self._pool.submit(self._advance, lease, kind, ref)

    def _advance(self, lease: OperationLease, kind: str, ref: str) -> None:
        pause = self._make_step(lease, kind, ref)
        is_new = self._follow(lease, None if pause is None else pause.topic)
        with self._condition:
            self._running.discard(lease)
            if pause is None:
                self._due.pop(lease, None)
                self._woken.discard(lease)
            else:
                # The wake-up of a new topic may have come before the subscription.
                is_due = is_new or lease in self._woken
                seconds = 0.0 if is_due else pause.seconds
                self._due[lease] = (time.monotonic() + seconds, kind, ref)
            self._condition.notify_all()

    def _make_step(self, lease: OperationLease, kind: str, ref: str) -> Pause | None:
        try:
            pause = self._kinds[kind](lease, ref)
        except LeaseLost as error:
            _LOG.info("another node continues operation %s: %s", lease.id, error.message)
            return None
        except StoreUnavailable as error:
            _LOG.warning("operation %s waits: %s", lease.id, error.message)
            return Pause(_ERROR_SECONDS)
        except HeadraceError as error:
            _LOG.error("operation %s (%s of %s): %s", lease.id, kind, ref, error.message)
            return Pause(_ERROR_SECONDS)
        except Exception:  # noqa: BLE001 - the other operations must advance
            _LOG.exception("operation %s (%s of %s) failed in a step", lease.id, kind, ref)
            return Pause(_ERROR_SECONDS)
        return pause if pause is None or isinstance(pause, Pause) else Pause(pause)

    def _follow(self, lease: OperationLease, topic: str | None) -> bool:
        """Let the wake-ups of a topic end the pause. Return whether it is another topic."""
        before = self._subscriptions.get(lease)
        if before is not None and before.topic != topic:
            before.close()
            self._subscriptions.pop(lease, None)
        if topic is None or (before is not None and before.topic == topic):
            return False
        notifications = self._context.database.notifications
        callback = partial(self._end_pause, lease)
        self._subscriptions[lease] = notifications.subscribe(topic, callback=callback)
        return True

    def _end_pause(self, lease: OperationLease) -> None:
        with self._condition:
            self._woken.add(lease)
            if lease in self._due:
                _at, kind, ref = self._due[lease]
                self._due[lease] = (time.monotonic(), kind, ref)
                self._condition.notify_all()

    def _seconds_until_due(self) -> float:
        times = [at for lease, (at, _k, _r) in self._due.items() if lease not in self._running]
        if not times:
            return _IDLE_SECONDS
        return min(_IDLE_SECONDS, max(0.0, min(times) - time.monotonic()))
