"""Alerts on what takes too long or expires: late runs, streams that fail, tokens, certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography import x509

from headrace.config.alert_events import AlertEvent
from headrace.control.outbox.alerts import describe_failure, describe_run
from headrace.control.periodic_tasks import isolate_errors
from headrace.model.event import Event
from headrace.model.lifecycle import StreamState
from headrace.model.run import JobRun
from headrace.model.stream_query import StreamQuery
from headrace.store import deliveries, events
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.identity import tokens
from headrace.store.jobs import runs, schedules
from headrace.store.streams import stream_queries
from headrace.text.readable import format_utc

if TYPE_CHECKING:
    from headrace.control.context import NodeContext

_MOST = 1000
"""Objects of one kind that are looked at."""
_AT_ONCE = 100
"""Alerts of one transaction."""
_EVENTS = 200
"""Changes of a streaming query in which the begin of its failures is searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """What webhooks are to report, once for each subject."""

    event: AlertEvent
    subject: str
    owner: str | None
    data: dict[str, Any]
    job: str | None = None


class AlertWatch:
    """Finds what takes too long or expires. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._database = context.database
        self._alerts = context.alerts
        self._settings = context.settings.alerts
        self._retention = context.settings.outbox.retention.total_seconds()

    def run(self) -> None:
        """Report what was not reported. A node without webhooks reads nothing else."""
        with self._database.read() as tx:
            if not self._alerts.has_receivers(tx):
                return
        searches: dict[AlertEvent, Callable[[Tx], Iterator[_Fact]]] = {
            AlertEvent.RUN_LATE: self._find_late_runs,
            AlertEvent.STREAM_BACKOFF: self._find_failing_streams,
            AlertEvent.CREDENTIAL_EXPIRING: self._find_expiring,
        }
        for event, find in searches.items():
            with isolate_errors(f"the search for {event} failed"):
                self._report(event, find)

    def _report(self, event: AlertEvent, find: Callable[[Tx], Iterator[_Fact]]) -> None:
        with self._database.read() as tx:
            facts = list(find(tx))
            present = deliveries.list_subjects(tx, event, [each.subject for each in facts])
            new = [
                each
                for each in facts
                if each.subject not in present
                and self._alerts.find_receivers(tx, event, owner=each.owner, job=each.job)
            ]
        for start in range(0, len(new), _AT_ONCE):
            with self._database.write("alert.record") as tx:
                for each in new[start : start + _AT_ONCE]:
                    self._alerts.record(
                        tx,
                        event,
                        each.data,
                        subject=each.subject,
                        owner=each.owner,
                        job=each.job,
                    )

    def _find_late_runs(self, tx: Tx) -> Iterator[_Fact]:
        limit, now = self._settings.late_after, read_clock(tx.connection)
        for run in runs.list_late(
            tx, seconds=limit.total_seconds(), age_limit=self._retention, limit=_MOST
        ):
            schedule = schedules.find(tx, run.job_id)
            delay = 0.0 if schedule is None else schedule.rules.delay.total_seconds()
            late = (now - run.times.logical_time).total_seconds() - delay
            if late >= limit.total_seconds():
                yield _describe_late(run, late)

    def _find_failing_streams(self, tx: Tx) -> Iterator[_Fact]:
        now = read_clock(tx.connection)
        for query in stream_queries.list_backing_off(tx, _MOST):
            first = _find_first_failure(events.read_newest(tx, [query.id], limit=_EVENTS))
            if first is not None and now - first.at >= self._settings.backoff_after:
                yield _describe_failing(query, first)

    def _find_expiring(self, tx: Tx) -> Iterator[_Fact]:
        today = read_clock(tx.connection).date()
        for token in tokens.list_expiring(tx, self._settings.expiry_notice.total_seconds(), _MOST):
            yield _Fact(
                event=AlertEvent.CREDENTIAL_EXPIRING,
                subject=f"{token.id}/{today}",
                owner=token.owner,
                data={
                    "credential": "token",
                    "id": token.id,
                    "name": token.name,
                    "owner": token.owner,
                    "expires_at": format_utc(token.expires_at),
                },
            )
        yield from self._find_expiring_certificate(tx)

    def _find_expiring_certificate(self, tx: Tx) -> Iterator[_Fact]:
        file, node_id = self._context.settings.tls.cert, self._context.node_id
        if file is None:
            return
        expires_at = x509.load_pem_x509_certificates(file.read_bytes())[0].not_valid_after_utc
        now = read_clock(tx.connection)
        if expires_at - now < self._settings.expiry_notice:
            yield _Fact(
                event=AlertEvent.CREDENTIAL_EXPIRING,
                subject=f"{node_id}/{now.date()}",
                owner=None,
                data={
                    "credential": "certificate",
                    "node": node_id,
                    "address": self._context.address,
                    "expires_at": format_utc(expires_at),
                },
            )


def _describe_late(run: JobRun, seconds: float) -> _Fact:
    data = {**describe_run(run), "state": run.state, "late_seconds": round(seconds)}
    if run.reason:
        data["reason"] = run.reason
    return _Fact(
        event=AlertEvent.RUN_LATE, subject=run.id, owner=run.owner, job=run.name, data=data
    )


def _find_first_failure(changes: list[Event]) -> Event | None:
    """Return the event of the first failure of the present series.

    Args:
        changes: Events of the query, the newest first.
    """
    for change in changes:
        if change.target == StreamState.BACKING_OFF and change.detail.get("failures") == 1:
            return change
    return None


def _describe_failing(query: StreamQuery, first: Event) -> _Fact:
    failure = query.last_error
    return _Fact(
        event=AlertEvent.STREAM_BACKOFF,
        subject=f"{query.id}/{first.cursor}",
        owner=query.owner,
        job=query.scope,
        data={
            "stream": query.name,
            "scope": query.scope,
            "owner": query.owner,
            "query": query.id,
            "failing_since": format_utc(first.at),
            "failures": query.failures,
            "failure": None if failure is None else describe_failure(failure),
        },
    )
